"""The independent observer: counts what KubeNode should never do.

It is told what the API server showed, change by change in the order in which the server made the
changes (`watching.py`), and what the simulated hosts know was done to them. It knows the truth
(`ledger.py`) and works out limits by itself (`budgets.py`); it shares no code with Kube Defender or
the controllers. It records, and prevents nothing.

- A *false action* is an act of ours (a cordon, an eviction, a request to an agent) on a node with
  nothing really wrong, a person's cordon taken off, or one request carried out twice.
- A *limit violation* is an instant at which a disruption began (a permit, or our cordon without
  one) although that put a group of nodes beyond its limit.

A node is disrupted while a permit for it is open. A cordon that stays after its job gave the permit
back (a person is needed, or a PodDisruptionBudget blocks) counts against health: the node is not
schedulable.
"""

from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Protocol

from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.cli.demo.budgets import CONTROL_PLANE_LABEL, Budget, budgets

STALE = 1.0
"""Seconds. A grant is judged by the best health that its group had this recently: nobody can know
of a node's trouble before the watch has brought it."""
COVERED = 1.0
"""Seconds within which a cordon must have a permit on either side."""
ROUNDING = 1.0
"""Grants above the rate that are no violation: our clock and Kube Defender's differ."""


class Truth(Protocol):
    def faulty(self, node: str, at: float) -> bool: ...


@dataclass(frozen=True, slots=True)
class NodeView:
    labels: Mapping[str, str]
    ready: bool
    unschedulable: bool
    ours: bool
    """It carries our cordon mark."""


@dataclass(frozen=True, slots=True)
class PermitView:
    node: str
    class_: str
    open: bool


@dataclass(frozen=True, slots=True)
class Finding:
    at: float
    node: str
    what: str


@dataclass(slots=True)
class _Health:
    """How many nodes of one group were healthy, over the last STALE seconds."""

    seen: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, at: float, healthy: int) -> None:
        self.seen.append((at, healthy))
        self._forget(at)

    def _forget(self, at: float) -> None:
        """The newest value older than STALE is kept: it held until the next one."""
        while len(self.seen) > 1 and self.seen[1][0] <= at - STALE:
            self.seen.popleft()

    def best(self, at: float) -> int:
        self._forget(at)
        return max((healthy for _, healthy in self.seen), default=0)


class Observer:
    """Feed it changes in order; read `false_actions` and `limit_violations`."""

    def __init__(self, policy: DefenderPolicy, truth: Truth) -> None:
        self.policy = policy
        self.truth = truth
        self.false_actions: list[Finding] = []
        self.limit_violations: list[Finding] = []
        self.acts = 0
        """All acts judged, true or false: a count of zero would mean that nothing was looked at."""
        self.grants = 0
        self.nodes: dict[str, NodeView] = {}
        self.permits: dict[str, PermitView] = {}
        self._budgets: list[Budget] = []
        self._groups: dict[str, list[Budget]] = {}
        self._health: dict[str, _Health] = {}
        self._healthy: dict[str, set[str]] = {}
        self._grants_at: dict[str, deque[float]] = {}
        self._requests: set[tuple[str, str]] = set()
        self._asked: Counter[tuple[str, str]] = Counter()
        self._done: Counter[tuple[str, str]] = Counter()
        self._unasked: dict[tuple[str, str], float] = {}
        self._evicted: set[str] = set()
        self._last_permit: dict[str, float] = {}
        self._uncovered: list[Finding] = []

    # What the API server shows.

    def listed(self, at: float, nodes: Mapping[str, NodeView]) -> None:
        """All nodes there are, at the start: nothing in them is an act that we saw."""
        self.nodes = dict(nodes)
        self._regroup(at)

    def node(self, at: float, name: str, now: NodeView | None) -> None:
        """A node as it is now, None when it is gone."""
        before = self.nodes.get(name)
        if now is None:
            self.nodes.pop(name, None)
        else:
            self.nodes[name] = now
        if now is None or before is None or self._moved(before, now):
            self._regroup(at)
        else:
            self._count(at, name)
        if now is not None and before is not None:
            self._judge_cordon(at, name, before, now)

    def permit(self, at: float, name: str, now: PermitView | None) -> None:
        before = self.permits.get(name)
        if now is None:
            self.permits.pop(name, None)
        else:
            self.permits[name] = now
        node = now.node if now is not None else before.node if before is not None else ""
        if before is not None and before.open:
            self._last_permit[before.node] = at
        taken = now is not None and now.open
        if (
            now is not None
            and taken
            and (before is None or not before.open or before.class_ != now.class_)
        ):
            self._last_permit[now.node] = at
            self._judge_grant(at, name, now)
        self._count(at, node)

    def pod_leaving(self, at: float, uid: str, node: str) -> None:
        """A pod of `node` was told to go, by nothing of the simulation itself: an eviction."""
        if uid in self._evicted:
            return
        self._evicted.add(uid)
        self._act(at, node, "evicted a pod")

    def request(self, at: float, job: str, node: str, request: str, what: str) -> None:
        """A job asks the agent of `node` to do `what`. Seen as often as the job is written."""
        if (job, request) in self._requests:
            return
        self._requests.add((job, request))
        self._asked[node, what] += 1
        self._act(at, node, f"asked the agent: {what}")

    # What a host knows.

    def host_act(self, at: float, node: str, what: str) -> None:
        """`what` was done to the host of `node`."""
        self._done[node, what] += 1
        self._unasked[node, what] = at

    def settle(self, at: float) -> None:
        """Judge what had to wait for other watches. Call it again and again."""
        waiting, self._uncovered = self._uncovered, []
        for found in waiting:
            if (
                self._open(found.node)
                or self._last_permit.get(found.node, -1e9) >= found.at - COVERED
            ):
                continue
            if at < found.at + COVERED:
                self._uncovered.append(found)
            else:
                self.limit_violations.append(found)
        for key, done_at in list(self._unasked.items()):
            if at < done_at + COVERED:
                continue
            del self._unasked[key]
            if self._done[key] > self._asked[key]:
                node, what = key
                why = f"{what} done {self._done[key]} times, asked {self._asked[key]} times"
                self.false_actions.append(Finding(done_at, node, why))
                self._asked[key] = self._done[key]

    # Judging.

    def _act(self, at: float, node: str, what: str) -> None:
        self.acts += 1
        if not self.truth.faulty(node, at):
            self.false_actions.append(Finding(at, node, what))

    def _judge_cordon(self, at: float, name: str, before: NodeView, now: NodeView) -> None:
        if now.unschedulable and now.ours and not before.unschedulable:
            self._act(at, name, "cordoned")
            self._uncovered.append(Finding(at, name, "cordoned without a permit"))
        if before.unschedulable and not before.ours and not now.unschedulable:
            self.false_actions.append(Finding(at, name, "took off a person's cordon"))

    def _judge_grant(self, at: float, permit: str, now: PermitView) -> None:
        self.grants += 1
        for budget in self._groups.get(now.node, ()):
            if now.class_ not in budget.classes:
                continue
            if why := self._beyond(at, budget, now.node):
                self.limit_violations.append(Finding(at, now.node, f"{budget.name}: {why}"))

    def _beyond(self, at: float, budget: Budget, node: str) -> str:
        """Why the permit just taken for `node` is beyond `budget`, "" if it is not."""
        taken = self.disrupted(budget)
        if budget.at_most is not None and len(taken) > budget.at_most:
            return f"{len(taken)} nodes disrupted at once, {budget.at_most} allowed"
        if budget.keep:
            others = self._health[budget.key].best(at) - (node in self._healthy[budget.key])
            if others < budget.keep:
                return f"{others} others healthy, {budget.keep} must be"
        if budget.rate is not None:
            return self._too_fast(at, budget, budget.rate)
        return ""

    def _too_fast(self, at: float, budget: Budget, rate: float) -> str:
        """Whether some span up to now held more grants than a token bucket can give."""
        grants = self._grants_at.setdefault(budget.key, deque(maxlen=4096))
        grants.append(at)
        for count, began in enumerate(reversed(grants), start=1):
            most = budget.burst + rate * (at - began) + ROUNDING
            if count > most:
                return f"{count} permits in {at - began:.1f} s, {most:.0f} allowed"
        return ""

    def disrupted(self, budget: Budget) -> set[str]:
        """Nodes of the budget's group with an open permit that counts in it."""
        return {
            p.node
            for p in self.permits.values()
            if p.open and p.class_ in budget.classes and p.node in budget.members
        }

    @property
    def budgets(self) -> list[Budget]:
        return self._budgets

    def healthy(self, budget: Budget) -> int:
        return len(self._healthy[budget.key])

    # Keeping count.

    def _open(self, node: str) -> bool:
        return any(p.open and p.node == node for p in self.permits.values())

    def _is_healthy(self, name: str) -> bool:
        node = self.nodes.get(name)
        return node is not None and node.ready and not node.unschedulable and not self._open(name)

    def _count(self, at: float, name: str) -> None:
        well = self._is_healthy(name)
        for budget in self._groups.get(name, ()):
            healthy = self._healthy[budget.key]
            if well == (name in healthy):
                continue
            (healthy.add if well else healthy.discard)(name)
            self._health[budget.key].note(at, len(healthy))

    def _moved(self, before: NodeView, now: NodeView) -> bool:
        """Whether a label changed that some limit groups by."""
        if before.labels == now.labels:
            return False
        keys = {CONTROL_PLANE_LABEL, *(limit.label for limit in self.policy.spec.limits)}
        return any(before.labels.get(k or "") != now.labels.get(k or "") for k in keys)

    def _regroup(self, at: float) -> None:
        """Nodes came, went or moved to other groups: work all budgets out anew."""
        self._budgets = budgets(self.policy, {n: v.labels for n, v in self.nodes.items()})
        self._groups, self._healthy = {}, {}
        for budget in self._budgets:
            healthy = {name for name in budget.members if self._is_healthy(name)}
            self._healthy[budget.key] = healthy
            self._health.setdefault(budget.key, _Health()).note(at, len(healthy))
            for name in budget.members:
                self._groups.setdefault(name, []).append(budget)
