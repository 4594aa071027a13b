"""The independent observer: counts what KubeNode should never do.

It receives every change that the API server stored, in the server's order (`watches.py`), and every
act that the simulated hosts know of. It knows the real faults (`ledger.py`) and computes limits by
itself (`budgets.py`). It shares no code with Kube Defender or the controllers. It records, and
prevents nothing.

- A *false action* is an act of ours (a cordon, an eviction, a request to an agent) on a node
  without a real fault, the removal of a person's cordon, or one request carried out twice.
- A *limit violation* is an instant at which a disruption began (a permit, or our cordon without
  one) although it put a group of nodes beyond its limit or a breaker had to forbid it
  (`breakers.py`), and a breaker that had to open and did not.

A node is disrupted while a permit for it is open. A cordon that stays after its job has released
the permit (a person is needed, or a PodDisruptionBudget blocks) counts against health, since the
node is not schedulable. Nodes of a zone whose breaker is open leave the budgets of wider scopes. If
that has just changed, or if Kube Defender's status differs from our count, a permit is a violation
only if it exceeds the limits by both counts.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from kubenode.api.v1alpha1 import DefenderPolicy
from simulation.demo.books import STALE, Books, PermitView
from simulation.demo.breaker_permits import Resuming
from simulation.demo.breakers import JobView, PolicyBreakerSet
from simulation.demo.budgets import CONTROL_PLANE_LABEL, Budget

COVERED = 1.0
"""Seconds before or after a cordon within which its permit must exist."""
SETTLED = 3 * STALE
"""Seconds after the change of a zone's breaker in which either count is accepted."""


class FaultOracle(Protocol):
    def faulty(self, node: str, at: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class NodeView:
    labels: Mapping[str, str]
    ready: bool
    unschedulable: bool
    ours: bool
    """Whether the node has our cordon mark."""


@dataclass(frozen=True, slots=True)
class ObserverFinding:
    at: float
    node: str
    what: str


class Observer:
    """Judges changes that are passed in order. Results are `false_actions` and `limit_violations`.

    policy: the policy in force, with durations already divided by `speed`.
    """

    def __init__(self, policy: DefenderPolicy, truth: FaultOracle, speed: float = 1.0) -> None:
        self.policy = policy
        self.truth = truth
        self.false_actions: list[ObserverFinding] = []
        self.limit_violations: list[ObserverFinding] = []
        self.acts = 0
        """Acts that were judged, true or false. Zero would mean that nothing was observed."""
        self.grants = 0
        self.nodes: dict[str, NodeView] = {}
        self.permits: dict[str, PermitView] = {}
        """Open permits only: over a day there are thousands of others."""
        self.jobs: dict[str, JobView] = {}
        self._at_work: dict[str, set[str]] = {}
        self.breakers = PolicyBreakerSet(policy, speed)
        self.resuming = Resuming(self.breakers, self.permits, self.jobs)
        self._all = Books(policy, self.permits)
        self._lit = Books(policy, self.permits)
        """The same budgets without the nodes of zones whose breaker is open."""
        self._dark: dict[str, frozenset[str]] = {}
        self._dark_since = -1e9
        self._requests: set[tuple[str, str, str]] = set()
        self._requested: Counter[tuple[str, str]] = Counter()
        self._done: Counter[tuple[str, str]] = Counter()
        self._unasked: dict[tuple[str, str], float] = {}
        self._evicted: set[str] = set()
        self._last_permit: dict[str, float] = {}
        self._uncovered: list[ObserverFinding] = []

    # Changes at the API server.

    def listed(self, at: float, nodes: Mapping[str, NodeView]) -> None:
        """Set the nodes that exist at the start. Their state is not judged."""
        self.nodes = dict(nodes)
        self._regroup(at)
        for name in nodes:
            self._fault(at, name)

    def node(self, at: float, name: str, now: NodeView | None) -> None:
        """Record the new state of a node, None if it is deleted."""
        before = self.nodes.get(name)
        if now is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = now
        if now is None or before is None or self._moved(before, now):
            self._regroup(at)
        else:
            self._count(at, name)
        self._fault(at, name)
        if now is not None and before is not None:
            self._judge_cordon(at, name, before, now)

    def job(self, at: float, name: str, now: JobView | None) -> None:
        """Record the new state of a job, None if it is deleted."""
        before = self.jobs.get(name)
        if now is None:
            self.jobs.pop(name, None)
        else:
            self.jobs[name] = now
        if now is not None and before is not None and now.rung > before.rung:
            self.breakers.escalated(at, now.node, now.rule, before.rung)
            self._advance(at)
        if shown := now or before:
            at_work = self._at_work.setdefault(shown.node, set())
            (at_work.add if now and now.open and now.acts else at_work.discard)(name)
            self._fault(at, shown.node)

    def record_breakers(self, at: float, breakers: Sequence[tuple[str, str]]) -> None:
        """Record (scope, state) of the breakers in the policy's status."""
        self.breakers.hear(at, breakers)
        self._lights(at)

    def permit(self, at: float, name: str, now: PermitView | None) -> None:
        before = self.permits.get(name)
        if now is None or not now.open:
            self.permits.pop(name, None)
        else:
            self.permits[name] = now
        node = now.node if now is not None else before.node if before is not None else ""
        if before is not None:
            self._last_permit[before.node] = at
        taken = now is not None and now.open
        if now is not None and taken and (before is None or before.class_ != now.class_):
            self._last_permit[now.node] = at
            self._judge_grant(at, name, now)
        self.resuming.changed(name)
        self._count(at, node)

    def pod_leaving(self, at: float, uid: str, node: str) -> None:
        """Record the deletion of a pod of `node`.

        The simulation itself deletes none, so it is an eviction.
        """
        if uid in self._evicted:
            return
        self._evicted.add(uid)
        self._act(at, node, "evicted a pod")

    def request(self, at: float, job: str, node: str, request: str, what: str) -> None:
        """Record that a job requests `what` on `node`, from its agent or the provider.

        Repeated calls for the same request are ignored.
        """
        if (job, request, what) in self._requests:
            return
        self._requests.add((job, request, what))
        self._requested[node, what] += 1
        self._act(at, node, f"asked for {what}")

    # Acts on hosts.

    def host_act(self, at: float, node: str, what: str) -> None:
        """Record that `what` was done to the host of `node`."""
        self._done[node, what] += 1
        self._unasked[node, what] = at

    def settle(self, at: float) -> None:
        """Judge what had to wait for other watches. Must be called periodically."""
        self._advance(at)
        waiting, self._uncovered = self._uncovered, []
        for violation in waiting:
            if (
                self._open(violation.node)
                or self._last_permit.get(violation.node, -1e9) >= violation.at - COVERED
            ):
                continue
            if at < violation.at + COVERED:
                self._uncovered.append(violation)
            else:
                self.limit_violations.append(violation)
        for key, done_at in list(self._unasked.items()):
            if at < done_at + COVERED:
                continue
            del self._unasked[key]
            if self._done[key] > self._requested[key]:
                node, what = key
                why = f"{what} done {self._done[key]} times, asked {self._requested[key]} times"
                self.false_actions.append(ObserverFinding(done_at, node, why))
                self._requested[key] = self._done[key]

    # Judging.

    def _act(self, at: float, node: str, what: str) -> None:
        self.acts += 1
        if not self.truth.faulty(node, at):
            self.false_actions.append(ObserverFinding(at, node, what))

    def _judge_cordon(self, at: float, name: str, before: NodeView, now: NodeView) -> None:
        if now.unschedulable and now.ours and not before.unschedulable:
            self._act(at, name, "cordoned")
            self._uncovered.append(ObserverFinding(at, name, "cordoned without a permit"))
        if before.unschedulable and not before.ours and not now.unschedulable:
            self.false_actions.append(ObserverFinding(at, name, "took off a person's cordon"))

    def _judge_grant(self, at: float, name: str, now: PermitView) -> None:
        self.grants += 1
        self._advance(at)
        why, reserved = self.resuming.granted(at, name, now)
        if why:
            self.limit_violations.append(ObserverFinding(at, now.node, why))
        both = [books.judge(at, now, reserved=reserved) for books in (self._all, self._lit)]
        exceeded = both[1] if self._dark else both[0]
        if at < self._dark_since + SETTLED or self.breakers.disputed():
            exceeded = {
                key: why for key, why in exceeded.items() if all(key in each for each in both)
            }
        self.limit_violations += [ObserverFinding(at, now.node, why) for why in exceeded.values()]

    def _advance(self, at: float) -> None:
        self.breakers.advance(at)
        self._lights(at)
        late, self.breakers.late = self.breakers.late, []
        for since, scope in late:
            self.limit_violations.append(ObserverFinding(since, scope, "the breaker did not open"))

    # For the terminal view.

    def disrupted(self, budget: Budget) -> set[str]:
        return self._books.disrupted(budget)

    @property
    def budgets(self) -> list[Budget]:
        return self._books.budgets

    def healthy(self, budget: Budget) -> int:
        return self._books.healthy(budget)

    # Counting.

    @property
    def _books(self) -> Books:
        return self._lit if self._dark else self._all

    def _open(self, node: str) -> bool:
        return any(p.node == node for p in self.permits.values())

    def _is_healthy(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.ready and not node.unschedulable and not self._open(name)

    def _count(self, at: float, name: str) -> None:
        well = self._is_healthy(name)
        self._all.count(at, name, well)
        self._lit.count(at, name, well)

    def _fault(self, at: float, name: str) -> None:
        node = self.nodes.get(name)
        unready = node is not None and not node.ready
        if self.breakers.fault(at, name, unready or bool(self._at_work.get(name))):
            self._advance(at)

    def _moved(self, before: NodeView, now: NodeView) -> bool:
        """Return whether a label changed by which a limit or breaker groups nodes."""
        if before.labels == now.labels:
            return False
        spec = self.policy.spec
        keys = {CONTROL_PLANE_LABEL, *(limit.label for limit in spec.limits)}
        keys |= {scope.label for scope in spec.breaker.scopes}
        return any(before.labels.get(k or "") != now.labels.get(k or "") for k in keys)

    def _regroup(self, at: float) -> None:
        """Compute all budgets again after nodes were added, deleted or moved to other groups."""
        labels = {name: view.labels for name, view in self.nodes.items()}
        self.breakers.regroup(labels)
        self._all.regroup(at, labels, self._is_healthy, {})
        self._dark = self.breakers.dark()
        self._lit.regroup(at, labels, self._is_healthy, self._dark)

    def _lights(self, at: float) -> None:
        """Compute budgets again if a zone's breaker opened or closed, which moves its nodes."""
        dark = self.breakers.dark()
        if dark.keys() != self._dark.keys():
            labels = {name: view.labels for name, view in self.nodes.items()}
            self._dark, self._dark_since = dark, at
            self._lit.regroup(at, labels, self._is_healthy, dark)
