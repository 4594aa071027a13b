"""ControllerRevisions in memory, over the hand-fed operator: restarts, and death at any write."""

from collections.abc import Callable
from typing import Any

from support.remedy_hand import RULE, Hands

from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube, as_dict
from kubenode.runtime.kube.errors import AlreadyExists, NotFound
from remedy.registry.revisions import Revisions

NOWHERE: Any = None
BAD = [{"name": "boot", "steps": [{"cordon": {}}, {"replace": {"surge": "First"}}]}]
"""A ladder of a step that this version refuses."""


class Died(Exception):
    """The process died here."""


class RevisionApi(Kube):
    def __init__(self, die_at: int = 0, applied: bool = False) -> None:
        super().__init__(NOWHERE)
        self.there: dict[str, dict[str, Any]] = {}
        self.writes: list[str] = []
        self.failing: list[Exception] = []
        self.die_at, self.applied = die_at, applied

    def _write(self, what: str, apply: Callable[[], Any]) -> None:
        self.writes.append(what)
        dies = len(self.writes) == self.die_at
        if self.applied or not dies:
            apply()
        if dies:
            raise Died

    async def get(
        self, path: str, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        assert path.endswith("/namespaces/kubenode-system/controllerrevisions")
        if self.failing:
            raise self.failing.pop(0)
        items = sorted(self.there)
        begin = int(query["continue"] or 0)
        more = str(begin + 1) if begin + 1 < len(items) else ""  # pages of one
        page = [self.there[name] for name in items[begin : begin + 1]]
        return {"items": page, "metadata": {"continue": more}}

    async def create(
        self, path: str, body: Any, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        name = body["metadata"]["name"]
        if name in self.there:
            raise AlreadyExists(409, "AlreadyExists", name)
        self._write(f"create {body['revision']}", lambda: self.there.update({name: body}))

    async def delete(self, path: str, **options: Any) -> Any:
        name = path.rpartition("/")[2]
        if name not in self.there:
            raise NotFound(404, "NotFound", name)
        revision = self.there[name]["revision"]
        self._write(f"delete {revision}", lambda: self.there.pop(name))

    def generations(self) -> list[int]:
        return sorted(body["revision"] for body in self.there.values())


class Operator:
    """A process: the operator and the keeper of revisions. `old` hands its objects on."""

    def __init__(self, api: RevisionApi, old: "Operator | None" = None) -> None:
        self.hands: Hands = Hands(old.hands.clock if old else None, old.hands if old else None)
        self.rules = self.hands.operator.rules
        self.revisions = Revisions(api, "kubenode-system", AlwaysLeader(), self.rules.good)
        self.rules.remember = self.revisions.read
        self.woken: set[str] = set()
        self.rules.on_standing.append(self.woken.add)

    def write(self, generation: int, name: str = "runtime", **spec: Any) -> None:
        """As a person: a new version of the rule."""
        old = self.hands.remediers.cache.get(name)
        metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
        status = old.status.to_dict() if old is not None else {}
        self.hands.remediers.put({"metadata": metadata, "spec": {**RULE, **spec}, "status": status})

    async def turn(self) -> None:
        """Load, report and keep, once each."""
        await self.rules.reload()
        for name in sorted(self.woken):
            if name in self.hands.remediers.cache:
                await self.hands.operator.reports.reconcile(name)
            await self.revisions.reconcile(name)

    def active(self) -> list[str]:
        return sorted(self.rules.active())
