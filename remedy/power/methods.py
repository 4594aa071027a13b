"""Methods to replace a node's machine, through the API of the system that created it.

Each method finds out whether it applies, sends one request, and later reports the progress. What it
needs when the Node is gone fits into `target` and `group`, which the job records.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

import msgspec

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound, TooManyRequests
from kubenode.runtime.kube.lists import RecentList
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.kube.paths import resource
from remedy.job.model import JobActResult
from remedy.job.steps.replace import ReplaceAct
from remedy.power.claims import REPLACES
from remedy.power.observation import ReplacementObservation, RequestOutcome

RECENT_SECONDS = 10.0
"""Oldest list that jobs waiting for a new machine share, in seconds."""
MOST_UIDS = 50
"""Most members of one second that a job's status lists; a larger scale-up is compared by time
alone.
"""
CLOCKS = timedelta(seconds=30)
"""How much the API server's clock may be behind ours: objects created since our request count as
new.
"""


@dataclass(frozen=True, slots=True)
class ReplacementTarget:
    """A method that applies. `target` names what is given up, `group` its group, `newest` the
    youngest members of the group as `newest_of` writes them; "" is unknown.
    """

    target: str
    group: str
    newest: str = ""


@dataclass(frozen=True, slots=True)
class ReplacementRequest:
    """What the job recorded before its request.

    operation: name of the request for people and the executing system: the job and the attempt
    permit: permit of the job
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
    newest: str = ""

    def is_new(self, made: datetime, uid: str) -> bool:
        """Return whether the API server made an object after the request.

        `newest` of an earlier version has no UIDs, or is missing: then the time alone decides,
        and without `newest` the operator's own clock.
        """
        if not self.newest:
            return made >= self.at - CLOCKS
        time, _, uids = self.newest.partition(" ")
        last = datetime.fromisoformat(time)
        return made > last or (made == last and uids != "" and uid not in uids.split(","))


BootOf = Callable[[Node, str], str]
"""Returns the boot ID of a node's host, by Node and agent; "" is unknown."""


class NodeCache(Protocol):
    """The part of the cache of Nodes that is read."""

    @property
    def cache(self) -> Mapping[str, Node]: ...
    def get(self, key: str) -> Node | None: ...


class ReplacementMethod(Protocol):
    """A method to replace machines. Every method raises KubeError."""

    name: ReplacePath

    async def find(self, node: Node) -> ReplacementTarget | str:
        """Return the target, or why the method does not apply."""
        ...

    async def ask(self, request: ReplacementRequest) -> JobActResult: ...
    async def far(self, request: ReplacementRequest) -> ReplacementObservation: ...


def taken() -> JobActResult:
    return JobActResult(ReplaceAct.REPLACE, outcome=RequestOutcome.TAKEN)


def to_failed_result(error: KubeError) -> JobActResult:
    """Return the outcome of a failed write to the API server."""
    outcome, after = outcome_of(error)
    return JobActResult(ReplaceAct.REPLACE, outcome=outcome, error=str(error), after=after)


def outcome_of(error: KubeError) -> tuple[RequestOutcome, timedelta | None]:
    if isinstance(error, TooManyRequests):
        return RequestOutcome.LATER, timedelta(seconds=error.retry_after or 1.0)
    if error.status == 0 or error.status >= 500:
        return RequestOutcome.UNCLEAR, None
    return RequestOutcome.REFUSED, None


class ObjectReplacement:
    """Common part of methods that use objects of other controllers.

    recent: seconds for which jobs waiting for a new machine share one list
    """

    group: str
    plural: str

    def __init__(self, kube: Kube, nodes: NodeCache, recent: float = RECENT_SECONDS) -> None:
        self._kube, self._nodes = kube, nodes
        self._recent = RecentList(kube, _compared, recent)

    async def base(self) -> str | None:
        """Return the path of the API server's preferred version; None if it does not have the
        group.
        """
        try:
            api_group = await self._kube.get(f"/apis/{self.group}")
        except NotFound:
            return None
        return f"/apis/{self.group}/{api_group['preferredVersion']['version']}"

    async def path(self, name: str, namespace: str | None = None) -> str | None:
        """Return the path of one object; None if the API server does not have the group."""
        base = await self.base()
        return base and resource(base, self.plural, name=name, namespace=namespace)

    async def is_there(self, name: str, uid: str, namespace: str | None = None) -> bool:
        """Report whether the object exists with this uid."""
        path = await self.path(name, namespace)
        obj = None if path is None else await self.read(path)
        return obj is not None and bool(obj["metadata"]["uid"] == uid)

    async def all(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return the compared fields of all objects, read now."""
        return await self._list(namespace, anew=True)

    async def recent(self, namespace: str | None = None) -> list[dict[str, Any]]:
        """Return the compared fields of all objects, read at most RECENT_SECONDS ago."""
        return await self._list(namespace, anew=False)

    async def _list(self, namespace: str | None, *, anew: bool) -> list[dict[str, Any]]:
        base = await self.base()
        if base is None:
            return []
        path = resource(base, self.plural, namespace=namespace)
        return await self._recent.get(path, anew=anew)

    async def read(self, path: str) -> dict[str, Any] | None:
        try:
            return await self._kube.get(path)
        except NotFound:
            return None

    async def delete(self, path: str, uid: str) -> JobActResult:
        """Delete the object. If it is gone or has another uid, that is success."""
        try:
            await self._kube.delete(path, uid=uid)
        except (NotFound, Conflict):
            return taken()
        except KubeError as error:
            return to_failed_result(error)
        return taken()

    def ready(self, name: str) -> bool:
        node = self._nodes.get(name)
        return node is not None and node.is_ready

    def is_taken(self, name: str, request: ReplacementRequest) -> bool:
        return is_taken(self._nodes.get(name), request)


def is_taken(node: Node | None, request: ReplacementRequest) -> bool:
    """Report whether the Node is another request's replacement, as far as the cache shows."""
    holder = node.metadata.annotations.get(REPLACES, "") if node is not None else ""
    return holder not in ("", request.request)


class _Compared(msgspec.Struct, omit_defaults=True, rename="camel"):
    """The compared fields of another controller's object: a cluster may have ten thousand."""

    metadata: "_ComparedMeta"
    status: "_ComparedStatus | None" = None


class _ComparedMeta(msgspec.Struct, omit_defaults=True, rename="camel"):
    uid: str
    creation_timestamp: str
    labels: dict[str, str] | None = None
    owner_references: list[dict[str, Any]] | None = None


class _ComparedStatus(msgspec.Struct, omit_defaults=True, rename="camel"):
    node_ref: dict[str, Any] | None = None
    node_name: str | None = None


_decode_compared = msgspec.json.Decoder(_Compared).decode


def _compared(raw: bytes) -> dict[str, Any]:
    fields: dict[str, Any] = msgspec.to_builtins(_decode_compared(raw))
    return fields


def young(obj: dict[str, Any], request: ReplacementRequest) -> bool:
    return request.is_new(*created(obj))


def created(obj: dict[str, Any]) -> tuple[datetime, str]:
    """Return the creation time and the UID of an object."""
    meta = obj["metadata"]
    return datetime.fromisoformat(meta["creationTimestamp"]), meta["uid"]


def newest_of(members: Iterable[tuple[datetime, str]]) -> str:
    """Return the time of the youngest members of a group and their UIDs: "TIME UID,UID".

    Creation times are whole seconds: only the UIDs tell these members from a replacement that is
    made within the same second. Above MOST_UIDS the UIDs are left out. "" for an empty group.
    """
    members = list(members)
    last = max((made for made, _ in members), default=None)
    if last is None:
        return ""
    uids = sorted(uid for made, uid in members if made == last)
    time = format_time(last)
    return f"{time} {','.join(uids)}" if len(uids) <= MOST_UIDS else time


def controller_of(obj: dict[str, Any]) -> dict[str, Any] | None:
    owners = obj["metadata"].get("ownerReferences") or []
    return next((o for o in owners if o.get("controller")), None)
