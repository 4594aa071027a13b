"""The demo's API server and its clients.

The pydantic models replace the CEL rules of the CRDs as admission hooks, since the embedded server
does not run CEL. So it refuses what a real server would refuse. Approvals are signed here as the
remedy operator's webhook signs them in a cluster.
"""

import resource
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from kubenode.api.base import Resource
from kubenode.api.v1alpha1 import GROUP, KINDS, RemedyOperationJob
from kubenode.cli.cluster import crds
from kubenode.cli.exits import Refusal
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from remedy.webhook.approvals import ApprovalCaller, signed
from simulation.apiserver.access import Tls
from simulation.apiserver.admission import Hook, Mutator
from simulation.apiserver.server import EmbeddedApiServer, ListenError

UNHURRIED = 100_000.0
"""Requests per second. The simulated kubelets of a whole fleet share one client."""


@asynccontextmanager
async def api_server(
    port: int, *, tls: Tls | None = None, tokens: Sequence[str] = ()
) -> AsyncIterator[EmbeddedApiServer]:
    """Yield the server with our kinds installed. Raises Refusal if `port` is not available."""
    enough_files()
    hooks = {f"{kind.resource.plural}.{GROUP}": hook(kind) for kind in KINDS}
    server = EmbeddedApiServer(
        port,
        crds=crds(),
        admission=hooks,
        mutators=signing(SystemClock()),
        tls=tls,
        tokens=tokens,
    )
    try:
        await server.start()
    except ListenError as error:
        raise Refusal(f"{error}; the flag is --port") from error
    try:
        yield server
    finally:
        await server.stop()


def hook(kind: type[Resource]) -> Hook:
    """Return a hook that checks what the CRD's CEL rules check: validity, and immutable fields."""
    annotation: Any = kind.model_fields["spec"].annotation
    mutable: tuple[str, ...] | None = getattr(annotation, "mutable", None)

    def review(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> None:
        kind.model_validate(new)
        if old is None or mutable is None:
            return
        before, after = old["spec"], new["spec"]
        changed = [k for k in {*before, *after} if before.get(k) != after.get(k)]
        if fixed := sorted(set(changed) - set(mutable)):
            raise ValueError(f"spec.{fixed[0]} is immutable")

    return review


def signing(clock: Clock) -> Mapping[str, Mutator]:
    """Return the mutator that signs approvals as the webhook of a cluster does.

    This server knows no users, so the author is what the writer says.
    """

    def sign(new: Mapping[str, Any], old: Mapping[str, Any] | None) -> Sequence[Mapping[str, Any]]:
        return signed(new, old, ApprovalCaller("", speaks=True), clock.now()).patch

    return {f"{RemedyOperationJob.resource.plural}.{GROUP}": sign}


def client(url: str, clock: Clock) -> Kube:
    return Kube(PlainTransport(url), clock=clock, rate=UNHURRIED, burst=UNHURRIED)


def enough_files() -> None:
    """Raise the limit of open files. Both ends of every connection are in this process, so the
    usual 1,024 are too few.
    """
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    wanted = hard if hard != resource.RLIM_INFINITY else 65_536
    with suppress(ValueError, OSError):
        resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, min(wanted, 65_536)), hard))
