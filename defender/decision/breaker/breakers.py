"""Breakers of all policies: they stop acts in a scope when too much is wrong at once.

The cost of a change of a node or job does not grow with the number of nodes. No breaker opens on a
change alone, because while caches fill, the first three nodes may all be down. Breakers step in
`advance` and before a verdict, once everything is loaded.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from datetime import datetime

from defender.decision.breaker.cause import causes_of
from defender.decision.breaker.control_path import SCOPE, SHUT_DOWN, ControlPath, Thaw
from defender.decision.breaker.faults import (
    JobReport,
    excused,
    fault_of,
    not_ready_since,
    report_job,
)
from defender.decision.breaker.group import BreakerNode
from defender.decision.breaker.step import PACE, BreakerTimes
from defender.decision.breaker.watch import BreakerWatch
from defender.decision.census import CLUSTER, Census, CensusMember
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import PermitLedger
from defender.decision.limits.breaker import breaker_open, frozen, passes_by_reserve
from defender.decision.limits.case import LimitCase, LimitRefusal
from defender.decision.limits.common_cause import common_cause
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerChange, BreakerState, BreakerStatus
from kubenode.runtime.kube.objects import Node


class BreakerRegistry:
    """Breakers of all policies.

    `defender.decision.verdict` calls `refuse` for each policy of an act.

    version: grows with each change of a breaker, a common cause or the control path.
    loaded: False while nodes or jobs are not loaded. Then no breaker steps, and all refuse.
    """

    def __init__(self, census: Census, ledger: PermitLedger, pace: BreakerTimes = PACE) -> None:
        self.version = 0
        self.loaded = True
        self.pace = pace
        self.control_path = ControlPath(pace.together)
        self._census, self._ledger = census, ledger
        self._watches: dict[str, BreakerWatch] = {}
        self._views: dict[str, BreakerNode] = {}
        self._jobs: dict[str, dict[str, JobReport]] = {}
        self._last_ready: dict[str, tuple[str, datetime]] = {}
        self._down: dict[str, datetime] = {}
        self._excused: set[str] = set()
        self._due: dict[str, datetime] = {}
        self._members = 0
        self._touched = False
        self._looked: datetime | None = None
        self._reported_version = 0

    # -- what happens -------------------------------------------------------------------------

    def govern(self, policies: Sequence[LoadedPolicy], now: datetime) -> None:
        """Replace the policies. The breakers of a new one start from its status.

        The breakers of a policy that became unreadable keep their states.
        """
        before, self._watches = self._watches, {}
        for policy in policies:
            known = before.get(policy.name)
            spec = policy.spec
            if spec is None:
                if known is not None:
                    self._watches[policy.name] = known
                continue
            if known is not None and (known.spec.breaker, known.spec.nodes) == (
                spec.breaker,
                spec.nodes,
            ):
                known.policy, known.spec = policy, spec
                self._watches[policy.name] = known
                continue
            self._watches[policy.name] = self._new(
                policy, BreakerWatch(policy, spec, self.pace), known
            )
        for name in before.keys() - self._watches.keys():
            self._census.darken(name, frozenset())
        self._touched = True

    def _new(
        self, policy: LoadedPolicy, watch: BreakerWatch, known: BreakerWatch | None
    ) -> BreakerWatch:
        if known is not None:
            watch.inherit(known)
        else:
            watch.recall()
            self.control_path.recall(policy.status.breaker)
        for name, view in self._views.items():
            watch.put(name, view)
        self._census.darken(policy.name, watch.dark)
        return watch

    def adopt(self, policy: LoadedPolicy, now: datetime) -> None:
        """Take over newer states from the status that another replica wrote."""
        watch = self._watches.get(policy.name)
        if watch is None:
            return
        known, watch.policy = watch.dark, policy
        watch.recall()
        if watch.dark != known:
            for name, view in self._views.items():
                watch.put(name, view)
            self._census.darken(policy.name, watch.dark)
            self._touched = True

    def node_changed(self, name: str, now: datetime) -> None:
        """Update a node that the census has counted already, or that is gone."""
        member, node = self._census.member(name), self._census.node(name)
        view = self._view(member, node, now) if member is not None and node is not None else None
        if view is None:
            for known in (self._last_ready, self._down, self._due):
                known.pop(name, None)
            self._excused.discard(name)
        before = self._views.get(name)
        if view == before:
            return
        self._members += (view is not None and view.counted) - (
            before is not None and before.counted
        )
        if view is None:
            del self._views[name]
        else:
            self._views[name] = view
        self._listen(name, node, view)
        for watch in self._watches.values():
            watch.put(name, view)
        self._touched = True

    def _view(self, member: CensusMember, node: Node, now: datetime) -> BreakerNode:
        name, uid = member.name, member.uid
        if member.until is not None:
            self._due[name] = member.until
        ready = node.is_ready
        if ready:
            self._last_ready[name] = uid, now
        ready_uid, last_ready = self._last_ready.get(name, ("", None))
        down = not_ready_since(
            node, now, last_ready if ready_uid == uid else None, self._down.get(name)
        )
        (self._down.pop(name, None) if down is None else self._down.__setitem__(name, down))
        ours = down is not None and excused(down, self._ledger.open_on(name))
        (self._excused.add if ours else self._excused.discard)(name)
        jobs = self._jobs.get(name, {})
        return BreakerNode(
            labels=member.labels,
            counted=member.counted,
            ready=ready,
            fault=fault_of(None if ours else down, jobs.values()),
            climbs=tuple(climb for report in jobs.values() for climb in report.climbs),
            causes=causes_of(node),
        )

    def _listen(self, name: str, node: Node | None, view: BreakerNode | None) -> None:
        """Record whether the node's heartbeat has stopped: Ready is Unknown."""
        silent = (
            node is not None
            and view is not None
            and view.counted
            and (ready := node.ready_condition) is not None
            and ready.status == "Unknown"
        )
        self.control_path.node(name, self._down.get(name) if silent else None)

    def job_changed(self, old: ObservedJob | None, new: ObservedJob | None, now: datetime) -> None:
        job = new or old
        if job is None:
            return
        node, name = job.spec.node_name, job.metadata.name
        report = report_job(new, now) if new is not None else None
        jobs = self._jobs.setdefault(node, {})
        if report is not None:
            jobs[name] = report
        else:
            jobs.pop(name, None)
        if not jobs:
            del self._jobs[node]
        self.node_changed(node, now)

    def evaluate_signs(self, signs: Mapping[str, datetime], now: datetime) -> None:
        """Evaluate when hosts last showed that they run, by signs other than kubelet heartbeats."""
        if self.control_path.evaluate_signs(signs, self._members, now):
            self.version += 1

    def lift(self, thaw: Thaw) -> bool:
        """Apply a person's thaw of the control path. Return whether it is new."""
        if not self.control_path.lift(thaw):
            return False
        self.version += 1
        return True

    def suspicious(self) -> Collection[str]:
        """Return the nodes whose hosts should be checked for other signs of life, see `heard`."""
        return self.control_path.suspicious(self._members)

    # -- time ---------------------------------------------------------------------------------

    def advance(self, now: datetime) -> bool:
        """Let time pass. Return whether a breaker has changed since the last call."""
        self._advance_watches(now)
        changed, self._reported_version = self._reported_version != self.version, self.version
        return changed

    def _advance_watches(self, now: datetime) -> None:
        if not self.loaded:
            return
        for name in [name for name, at in self._due.items() if at <= now]:
            del self._due[name]
            self.node_changed(name, now)
        for name in list(self._excused):
            self.node_changed(name, now)
        in_time = self._looked is None or not (
            self._looked <= now < self._looked + self.pace.check_interval
        )
        if not (self._touched or in_time):
            return
        self._touched, self._looked = False, now if in_time else self._looked
        if self.control_path.thaws(self._members, self._accounted):
            self.version += 1
        for watch in self._watches.values():
            if watch.advance(now, all_=in_time):
                self.version += 1
                self._census.darken(watch.policy.name, watch.dark)

    def _accounted(self, name: str) -> bool:
        """Return whether the node's silence has a reason of its own.

        The node is gone, its machine is off, or the breaker of its zone or rack is open and stops
        acts.
        """
        node, view = self._census.node(name), self._views.get(name)
        if node is None or view is None:
            return True
        if any(taint.key in SHUT_DOWN for taint in node.spec.taints):
            return True
        watches = self._watches.values()
        return any(s in watch.dark for watch in watches for s in watch.scopes(view.labels))

    # -- reading ------------------------------------------------------------------------------

    def refuse(self, case: LimitCase) -> LimitRefusal | None:
        """Return why a breaker forbids the act, None if none does."""
        if not self.loaded:
            message = "nodes and jobs are not all loaded yet"
            return LimitRefusal(Reason.STALE_DATA, message, case.later())
        self._advance_watches(case.now)
        watch = self._watches.get(case.policy.name)
        if watch is None:
            return None
        return (
            frozen(case, self.control_path, self.pace)
            or breaker_open(case, watch)
            or common_cause(case, watch)
        )

    def exempt(self, case: LimitCase, scope: str) -> bool:
        """Return whether the act has a reserved slot, so that `minHealthy` of the scope does not
        hold it.
        """
        watch = self._watches.get(case.policy.name)
        return watch is not None and passes_by_reserve(case, watch, scope)

    def opened(self) -> list[tuple[str, str]]:
        """Return the groups (policy, scope) whose breaker is open."""
        if self.control_path.frozen is not None:
            return [(name, CLUSTER) for name in self._watches]
        return [(name, scope) for name, watch in self._watches.items() for scope in watch.open()]

    def watches(self) -> Iterator[BreakerWatch]:
        return iter(self._watches.values())

    def status(self, policy: str) -> list[BreakerStatus]:
        """Return the breakers of the policy's status: those that are not closed, the latest change
        first.
        """
        watch = self._watches.get(policy)
        if watch is None:
            return []
        frozen = self.control_path.frozen
        if frozen is None:
            return watch.status()
        entry = BreakerStatus(
            scope=SCOPE, state=BreakerState.OPEN, since=frozen.since, why=frozen.why
        )
        return [entry, *watch.status()][:64]

    def history(self, policy: str) -> list[BreakerChange]:
        """Return the stored changes of the policy's breakers, oldest first."""
        watch = self._watches.get(policy)
        return list(watch.changes) if watch is not None else []

    def causes(self, policy: str) -> dict[tuple[str, str], str]:
        """Return what faults have in common: (cause, value), with the message."""
        watch = self._watches.get(policy)
        return dict(watch.causes) if watch is not None else {}
