"""Members whose operator gathers evidence about rules in DryRun, without a server."""

import copy
from collections.abc import Callable, Mapping
from datetime import datetime, timedelta
from typing import Any

from support.clock import FakeClock
from support.release_world import MemberDouble, Raw

from kubenode.api.meta import format_time
from kubenode.runtime.kube.errors import Conflict

SELECTED = 1000
"""Nodes that a rule selects."""


class RuleMemberDouble(MemberDouble):
    """A member with the evidence of `status.dryRun`.

    firings, alone, conflicts: numbers that its operator reports of every rule in DryRun.
    soak: time in DryRun without which no rule may act here.
    approved: whether a person approved Enforce here.
    intruder: whether a person changes a rule just before it is applied in mode Enforce.
    answer: parts of a rule that it answers reads with instead of its own.
    violations: rules that were written in mode Enforce without evidence.
    """

    def __init__(self, name: str, stage: str, clock: FakeClock) -> None:
        super().__init__(name, stage)
        self.clock, self.soak = clock, timedelta(seconds=10)
        self.firings, self.alone, self.conflicts = 1, 0, 0
        self.approved: Callable[[], bool] = lambda: True
        self.intruder = False
        self.answer: Raw = {}
        self.violations: list[str] = []
        self.standing: dict[str, Any] = {}
        """Specs before the release."""
        self._stopped_at: datetime | None = None
        self._since: dict[str, datetime] = {}
        self._version = 0

    def set_observing(self, observing: bool) -> None:
        """Stop or start the operator. Its evidence begins anew after an interruption."""
        now = self.clock.now()
        if observing:
            self._since = dict.fromkeys(self._since, now)
        self._stopped_at = None if observing else self._stopped_at or now

    def put(self, obj: Mapping[str, Any]) -> Raw:
        key = f"{obj['kind']}/{obj['metadata']['name']}"
        before = self.objects.get(key)
        super().put(obj)
        stored = self.objects[key]
        self._version += 1
        stored["metadata"]["resourceVersion"] = str(self._version)
        if before is None or before["metadata"]["generation"] != stored["metadata"]["generation"]:
            self._since[key] = self._stopped_at or self.clock.now()
        return copy.deepcopy(stored)

    def _with_status(self, stored: Raw | None) -> Raw | None:
        live = super()._with_status(stored)
        if live is not None and live["spec"].get("mode") == "DryRun":
            live["status"] |= {
                "wouldReach": {"nodes": SELECTED},
                "dryRun": self._build_evidence(f"{live['kind']}/{live['metadata']['name']}", live),
            }
        return live

    async def read(self, kind: str, name: str) -> Raw | None:
        live = await super().read(kind, name)
        return None if live is None else {**live, **self.answer}

    def _build_evidence(self, key: str, live: Raw) -> Raw:
        return {
            "generation": live["metadata"]["generation"],
            "since": format_time(self._since[key]),
            "until": format_time(self._stopped_at or self.clock.now()),
            "firings": self.firings,
            "nodes": self.firings,
            "recoveredAlone": self.alone,
            "conflicts": self.conflicts,
            "nodeNames": [f"node-{number}" for number in range(min(self.alone, 20))],
        }

    async def apply(self, obj: Mapping[str, Any], *, manager: str, force: bool) -> Raw:
        key = f"{obj['kind']}/{obj['metadata']['name']}"
        if obj["spec"].get("mode") == "Enforce" and self.reachable:
            self._intrude(key)
            wanted = obj["metadata"].get("resourceVersion", "")
            if wanted and wanted != self.objects[key]["metadata"]["resourceVersion"]:
                raise Conflict(409, "Conflict", "the object has been modified")
            if not self._may_act(key, obj["spec"]):
                self.violations.append(key)
        return await super().apply(obj, manager=manager, force=force)

    def _intrude(self, key: str) -> None:
        live = self.objects.get(key)
        if self.intruder and live is not None:
            self.intruder = False
            self.put({**live, "spec": {**live["spec"], "priority": self._version}})

    def _may_act(self, key: str, spec: Mapping[str, Any]) -> bool:
        """Judge the write without the code under test."""
        live = self.objects.get(key)
        if self.standing.get(key) == spec or (live is not None and live["spec"] == spec):
            return True
        if live is None or {**live["spec"], "mode": "Enforce"} != {**live["spec"], **spec}:
            return False
        if live["spec"]["mode"] == "Enforce":
            return True  # a person let it act
        observed = (self._stopped_at or self.clock.now()) - self._since[key]
        good = not self.alone and not self.conflicts and self.firings <= 1
        return good and observed >= self.soak and (bool(self.firings) or self.approved())
