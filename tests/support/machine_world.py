"""Machines, their tokens and certificate requests on a real API server, with our operator there.

The operator runs under exactly the rights of charts/kubenode/machine: what it lacks fails a test.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from functools import partial
from pathlib import Path
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from support.control_plane import ControlPlane
from support.machine_requests import REQUESTS
from support.remedy_cluster import YesPermits

from defender.client import Permits
from devtools.crds import FOLDER
from kubenode.api.v1alpha1 import Machine, default_policy
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.official import connect
from kubenode.runtime.kube.paths import custom
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import serve
from machine.bootstrap.tokens import StoredToken, Tokens
from machine.ground import MachineSettings
from machine.names import AGENT_GROUP, NODE_GROUP, NODE_USER, agent_user
from machine.operator import MachineOperator
from machine.site_settings import Provisioning

T = TypeVar("T")

CHARTS = Path(__file__).parents[2] / "charts" / "kubenode"
OPERATOR = "system:serviceaccount:kubenode-system:kubenode-machine"
OPERATOR_GROUPS = ("system:serviceaccounts", "system:serviceaccounts:kubenode-system")
MACHINES = custom("machines")
PATIENCE = 60.0
READY = 10.0
FREEZE = "machine-world-freeze"


def install(cp: ControlPlane) -> None:
    """CRDs and the rights of agents and of the operator, as a user installs them."""
    cp.kubectl("apply", "-f", FOLDER)
    cp.kubectl("wait", "--for=condition=Established", "--timeout=60s", "crd/machines.kubenode.io")
    space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "kubenode-system"}}
    cp.kubectl("apply", "-f", "-", stdin=json.dumps(space))
    for part in ("agent", "machine"):
        cp.kubectl("apply", "-f", CHARTS / part / "rbac.yaml")
    cp.kubectl("apply", "-f", CHARTS / "machine" / "admission.yaml")


def a_machine(name: str, **spec: Any) -> dict[str, Any]:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "Machine",
        "metadata": {"name": name},
        "spec": {"addresses": ["10.0.0.7"], **spec},
    }


async def until(look: Callable[[], Awaitable[T | None]], what: str, seconds: float = PATIENCE) -> T:
    """What `look` gives once it is true. Raises TimeoutError."""
    try:
        async with asyncio.timeout(seconds):
            while True:
                if found := await look():
                    return found
                await asyncio.sleep(0.1)
    except TimeoutError:
        raise TimeoutError(f"after {seconds:g} s: {what}") from None


@asynccontextmanager
async def closing(kube: Kube) -> AsyncIterator[Kube]:
    """The client, closed at the end of the block."""
    try:
        yield kube
    finally:
        await kube.close()


class MachineWorld:
    """An administrator's hands on Machines."""

    def __init__(self, cp: ControlPlane, kube: Kube, folder: Path) -> None:
        self.cp, self.kube, self.folder = cp, kube, folder
        self.tokens = Tokens(kube)
        self._made: list[str] = []
        self._frozen = False

    async def make(self, name: str, **spec: Any) -> Machine:
        self._made.append(name)
        return await self.kube.create(MACHINES, a_machine(name, **spec), Machine.from_server)

    async def machine(self, name: str) -> Machine:
        return await self.kube.get(custom("machines", name), Machine.from_server)

    async def annotate(self, name: str, **annotations: str) -> None:
        marks = {f"kubenode.io/{key}": value for key, value in annotations.items()}
        await self.kube.patch(custom("machines", name), {"metadata": {"annotations": marks}})

    async def freeze(self) -> None:
        """A DefenderPolicy under which nothing may be disrupted; taken away by `clean`."""
        policy = default_policy().to_dict()
        policy["metadata"] = {"name": FREEZE}
        policy["spec"]["pauses"] = [{"scope": "Cluster", "by": "ann", "why": "freeze"}]
        await self.kube.create(custom("defenderpolicies"), policy)
        self._frozen = True

    async def delete(self, name: str) -> None:
        await self.kube.delete(custom("machines", name))

    async def token(self, name: str) -> StoredToken:
        """The Machine's bootstrap token, once there is one that lives."""

        async def look() -> StoredToken | None:
            bootstrap = (await self.machine(name)).status.bootstrap
            if bootstrap is None or not bootstrap.token_id:
                return None
            return await self.tokens.read(bootstrap.token_id)

        return await until(look, f"{name} has no token")

    async def no_token(self, token_id: str) -> None:
        """Wait until the token is revoked."""

        async def gone() -> bool:
            return await self.tokens.read(token_id) is None

        await until(gone, f"{token_id} is there")

    def bearer(self, text: str) -> Kube:
        """A client that shows a token; close it."""
        path = self.folder / f"token-{text[:6]}"
        path.write_text(text)
        return Kube(PlainTransport(self.cp.server, str(self.cp.ca_file), token_file=str(path)))

    def agent(self, machine: str, groups: Sequence[str] = (AGENT_GROUP,)) -> Kube:
        """A client with a certificate of an agent's name; close it."""
        return self._with_certificate(agent_user(machine), groups)

    def node(self, name: str) -> Kube:
        """A client with a certificate of a kubelet; close it."""
        return self._with_certificate(NODE_USER + name, [NODE_GROUP])

    def _with_certificate(self, user: str, groups: Sequence[str]) -> Kube:
        mine = self.cp.issue_client_cert(user, groups)
        files = (str(self.cp.ca_file), str(mine.cert_file), str(mine.key_file))
        return Kube(PlainTransport(self.cp.server, *files))

    async def condition(self, machine: str, reason: str) -> str:
        """The message of AgentReady once it has this reason."""

        async def look() -> str | None:
            found = (await self.machine(machine)).status.condition("AgentReady")
            return found.message if found is not None and found.reason == reason else None

        return await until(look, f"AgentReady of {machine} is not {reason}")

    async def decided(self, name: str) -> dict[str, Any]:
        """The conditions of a request by type, once there are any."""

        async def look() -> dict[str, Any] | None:
            found = (await self.kube.get(f"{REQUESTS}/{name}")).get("status", {})
            return {c["type"]: c for c in found.get("conditions", ())} or None

        return await until(look, f"{name} is not decided")

    async def certificate(self, name: str) -> bytes:
        """PEM, once it is signed."""
        from base64 import b64decode

        async def look() -> bytes | None:
            status = (await self.kube.get(f"{REQUESTS}/{name}")).get("status", {})
            return b64decode(status.get("certificate", "")) or None

        return await until(look, f"{name} is not signed")

    async def clean(self) -> None:
        if self._frozen:
            await self.kube.delete(custom("defenderpolicies", FREEZE))
        for name in self._made:
            try:
                await self.delete(name)
            except NotFound:
                continue


@asynccontextmanager
async def machine_world(
    cp: ControlPlane,
    folder: Path,
    settings: MachineSettings | None = None,
    clock: Clock | None = None,
    kind: type[Kube] = Kube,
    permits: Permits | None = None,
    provisioning: Provisioning | None = None,
) -> AsyncIterator[MachineWorld]:
    """Administrator and operator, until the end of the block."""
    admin = Kube(connect(str(cp.kubeconfig)))
    world = MachineWorld(cp, admin, folder)
    try:
        async with running(cp, settings, clock, kind, permits, provisioning):
            yield world
    finally:
        await world.clean()
        await admin.close()


async def _settled(operator: MachineOperator, work: asyncio.Task[None]) -> bool:
    return operator.ready() or work.done()


@asynccontextmanager
async def running(
    cp: ControlPlane,
    settings: MachineSettings | None = None,
    clock: Clock | None = None,
    kind: type[Kube] = Kube,
    permits: Permits | None = None,
    provisioning: Provisioning | None = None,
) -> AsyncIterator[MachineOperator]:
    """The operator under its service account's rights; what it raises fails the block."""
    kube = kind(connect(str(cp.kubeconfig_for(OPERATOR, OPERATOR_GROUPS))))
    operator = MachineOperator(
        kube,
        AlwaysLeader(),
        clock or SystemClock(),
        CollectorRegistry(),
        settings,
        permits=permits,
        provisioning=provisioning,
        permit_reader=permits if isinstance(permits, YesPermits) else None,
    )
    try:
        async with asyncio.TaskGroup() as tasks:
            work = tasks.create_task(serve(operator.parts, operator.ground))
            yield operator
            # Cancelled while it connects, a client leaves sockets to the garbage collector.
            with suppress(TimeoutError):
                await until(partial(_settled, operator, work), "caches are not current", READY)
            work.cancel()
    finally:
        await kube.close()
