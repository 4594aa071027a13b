"""Ways to have a node's machine replaced: by whoever made it, in the words of its own API.

Each way finds out whether it applies, asks once, and later says how far that is. What it needs to
know afterwards, when the Node is gone, fits into `target` and `group`, which the job writes down.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound, Throttled
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.kube.paths import resource
from remedy.job.model import Act, Heard
from remedy.power.seen import Outcome, ReplaceSeen

CLOCKS = timedelta(seconds=30)
"""How much the API server's clock may be behind ours: what it made since we asked is new."""


@dataclass(frozen=True, slots=True)
class Found:
    """A way that applies. `target` names what is given up, `group` what it is one of."""

    target: str
    group: str


@dataclass(frozen=True, slots=True)
class Asked:
    """What the job wrote down before it asked.

    operation  names the request to people and to whoever does it: the job, and which of its tries
    permit     under which the job acts
    """

    node: str
    node_uid: str
    target: str
    group: str
    at: datetime
    request: str
    boot_id: str = ""
    agent: str = ""
    operation: str = ""
    permit: str = ""


BootOf = Callable[[Node, str], str]
"""The boot ID that the host of a node runs, by the name of its agent; "" is unknown."""


class Nodes(Protocol):
    """Of the cache of Nodes what is read."""

    @property
    def cache(self) -> Mapping[str, Node]: ...
    def get(self, key: str) -> Node | None: ...


class Way(Protocol):
    """Every method raises KubeError."""

    name: ReplacePath

    async def find(self, node: Node) -> Found | str:
        """Or why it does not apply."""
        ...

    async def ask(self, asked: Asked) -> Heard: ...
    async def far(self, asked: Asked) -> ReplaceSeen: ...


def taken() -> Heard:
    return Heard(Act.REPLACE, outcome=Outcome.TAKEN)


def heard(error: KubeError) -> Heard:
    """What came of a write to the API server that failed."""
    outcome, after = outcome_of(error)
    return Heard(Act.REPLACE, outcome=outcome, error=str(error), after=after)


def outcome_of(error: KubeError) -> tuple[Outcome, timedelta | None]:
    if isinstance(error, Throttled):
        return Outcome.LATER, timedelta(seconds=error.retry_after or 1.0)
    if error.status == 0 or error.status >= 500:
        return Outcome.UNCLEAR, None
    return Outcome.REFUSED, None


class Made:
    """What the ways through other controllers' objects share: their newest API, and Nodes."""

    group: str
    plural: str

    def __init__(self, kube: Kube, nodes: Nodes) -> None:
        self._kube, self._nodes = kube, nodes

    async def base(self) -> str | None:
        """Path of the version that the server prefers, None if it has no such group."""
        try:
            found = await self._kube.get(f"/apis/{self.group}")
        except NotFound:
            return None
        return f"/apis/{self.group}/{found['preferredVersion']['version']}"

    async def path(self, name: str, namespace: str | None = None) -> str | None:
        """Of one object, None if the server has no such group."""
        base = await self.base()
        return base and resource(base, self.plural, name=name, namespace=namespace)

    async def all(self, namespace: str | None = None) -> list[dict[str, Any]]:
        base = await self.base()
        if base is None:
            return []
        found = await self._kube.get(resource(base, self.plural, namespace=namespace))
        return list(found["items"])

    async def read(self, path: str) -> dict[str, Any] | None:
        try:
            return await self._kube.get(path)
        except NotFound:
            return None

    async def delete(self, path: str, uid: str) -> Heard:
        """Gone, or another one by now, is what was asked for."""
        try:
            await self._kube.delete(path, uid=uid)
        except (NotFound, Conflict):
            return taken()
        except KubeError as error:
            return heard(error)
        return taken()

    def ready(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.is_ready


def young(obj: dict[str, Any], asked: Asked) -> bool:
    made = datetime.fromisoformat(obj["metadata"]["creationTimestamp"])
    return made >= asked.at - CLOCKS


def controller_of(obj: dict[str, Any]) -> dict[str, Any] | None:
    owners = obj["metadata"].get("ownerReferences") or []
    return next((o for o in owners if o.get("controller")), None)
