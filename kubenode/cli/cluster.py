"""Connects a command to a cluster, checks the cluster, and explains what is missing."""

from collections.abc import AsyncIterator, Mapping
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from kubenode.cli.exits import Exit, Refusal
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Decode, Kube, Query, as_dict
from kubenode.runtime.kube.errors import (
    Forbidden,
    KubeError,
    NotFound,
    ServerUnreachable,
    Unauthorized,
)

T = TypeVar("T")
HELLO_SECONDS = 5.0
GROUP_PATH = "/apis/kubenode.io/v1alpha1"
NEEDED = frozenset({"noderemediers", "remedyoperationjobs", "defenderpolicies", "permits"})


KNOWN_KEYS = frozenset({"metadata", "items", "resources", "versions", "major"})
"""One of these keys is in each answer of an API server: object, list, discovery or version."""


class CommandKube(Kube):
    """A client whose untyped answers have the shape of an API server's. Else: Undecodable."""

    async def get(
        self, path: str, decode: Decode[T] | None = None, query: Query | None = None
    ) -> T | Any:
        return await super().get(path, as_api_answer if decode is None else decode, query)


def as_api_answer(raw: bytes) -> dict[str, Any]:
    """Decode an object or a list. Raises ValueError for what no API server answers."""
    answer = as_dict(raw)
    if not isinstance(answer, dict) or not KNOWN_KEYS & answer.keys():
        raise ValueError("it is no Kubernetes object or list")
    items, metadata = answer.get("items") or [], answer.get("metadata", {})
    if not isinstance(items, list) or not all(isinstance(item, dict) for item in items):
        raise ValueError("`items` is no list of objects")
    if not isinstance(metadata, dict):
        raise ValueError("`metadata` is no map")
    return answer


@asynccontextmanager
async def connected(
    kubeconfig: str | None, context: str | None, *, rate: float = 500.0, burst: float = 1000.0
) -> AsyncIterator[Kube]:
    """Yield a client of a cluster that answers.

    Raises Refusal or KubeconfigError with what to do.
    """
    from kubenode.runtime.kube.official import connect  # imports kubernetes: 1 s

    kube = CommandKube(connect(kubeconfig, context), rate=rate, burst=burst)
    try:
        await hello(kube, kubeconfig)
        yield kube
    finally:
        await kube.close()


async def hello(kube: Kube, kubeconfig: str | None) -> Mapping[str, str]:
    """Request the server's version and return it: a short request that proves TLS and credentials.

    Raises Refusal if the server does not answer, refuses the credentials or is no API server.
    """
    named = f"of kubeconfig {kubeconfig}" if kubeconfig else "of the default kubeconfig"
    try:
        answer = await kube.call(
            "GET", "/version", decode=as_api_answer, timeout=HELLO_SECONDS, attempts=1
        )
        # /version is public on most clusters; /api is not.
        await kube.call("GET", "/api", timeout=HELLO_SECONDS, attempts=1)
    except ServerUnreachable as error:
        raise Refusal(
            f"the cluster {named} does not answer: {error}; is the server address right, and is"
            " there a way to it (VPN, proxy)?",
            Exit.UNREACHABLE,
        ) from error
    except Unauthorized as error:
        raise Refusal(
            f"the cluster {named} refuses the credentials: {error}; renew them, or name others with"
            " --kubeconfig or --context",
            Exit.UNREACHABLE,
        ) from error
    except Forbidden:
        raise
    except KubeError as error:
        raise Refusal(
            f"the server {named} does not answer as a Kubernetes API server does: {error}; does"
            " --kubeconfig or --context name another server, or a proxy that needs a login?",
            Exit.UNREACHABLE,
        ) from error
    return answer


async def require_crds(kube: Kube, needed: AbstractSet[str] = NEEDED) -> None:
    """Raise Refusal unless the cluster serves our kinds `needed`, given by plural."""
    try:
        answer = await kube.get(GROUP_PATH)
        there = {resource["name"] for resource in answer.get("resources", ())}
    except NotFound:
        there = set()
    if missing := sorted(needed - there):
        raise Refusal(
            "the custom resource definitions of kubenode.io are not installed in this cluster"
            f" (missing: {', '.join(missing)}); run `kubenode install` with the same --kubeconfig"
        )


async def require_namespace(kube: Kube, namespace: str) -> None:
    """Raise Refusal if the namespace of our Leases does not exist."""
    try:
        await kube.get(paths.namespace(namespace))
    except NotFound as error:
        raise Refusal(
            f"namespace {namespace}, where our Leases live, does not exist; run `kubenode install`"
            " with the same --kubeconfig, or name another one with --namespace"
        ) from error


def crds() -> list[dict[str, Any]]:
    """Build the CustomResourceDefinitions from the models: a package contains no charts."""
    from kubenode.api.crd import definition
    from kubenode.api.v1alpha1 import KINDS

    return [definition(kind) for kind in KINDS]


def require_engine() -> None:
    """Raise Refusal if durable_rules is not installed: no rule can act without both engines."""
    from importlib.util import find_spec

    try:
        there = find_spec("durable_rules_engine") is not None
    except ImportError:
        there = False
    if not there:
        raise Refusal(
            "the rule engine durable_rules is not installed (module durable_rules_engine), and"
            " nothing may act on the reference engine alone; run `make venv`, or"
            " `pip install durable-rules==2.0.28` with a C compiler and, on CPython 3.13 and later,"
            " CPPFLAGS=-DPyEval_CallObject=PyObject_CallObject"
        )
