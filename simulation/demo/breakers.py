"""What the breakers of a policy must do, computed in a different way than Kube Defender does.

The observer asks here whether a permit may have been granted. Nothing here may import `defender`.
The rules are those of `breaker` in docs/reference/api.md, DefenderPolicy:

- a node is faulty while it is not Ready, or while a job that acts is open for it;
- a scope is beyond its trip when enough of its nodes are faulty, or became faulty within ten
  minutes; faulty nodes of a zone whose breaker is open do not count for the cluster;
- open for at least `open`, and until few enough nodes are faulty for five minutes;
- half-open: `start` permits at once, then `factor` times as many after each `every`.

The state that Kube Defender reports is only compared. Escalations, as Kube Defender counts them,
may open a breaker too: they explain an opening here, and never require one.
"""

import math
from collections import Counter, deque
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from enum import StrEnum

from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.api.v1alpha1.defenderpolicy import Breaker
from simulation.demo.budgets import budgets

STALE = 1.0
"""Seconds by which Kube Defender and the observer may differ in when they see a change."""
CONFIRM = 3.0
"""Seconds within which the policy's status must report a change of a breaker."""
RECENT = timedelta(minutes=10)
CALM = timedelta(minutes=5)
CLUSTER = "cluster"


class DemoBreakerState(StrEnum):
    CLOSED = "Closed"
    OPEN = "Open"
    HALF_OPEN = "HalfOpen"


@dataclass(frozen=True, slots=True)
class JobView:
    """A job as the observer sees it.

    acts: whether it may disrupt its node, unlike a job of a rule in mode DryRun.
    sources: reporters of the facts that started it.
    """

    node: str
    open: bool
    acts: bool
    fault_class: str
    sources: frozenset[str]
    rule: str = ""
    rung: int = 0


@dataclass(slots=True)
class Episode:
    """A time for which Kube Defender reported a breaker as open. Times are in seconds.

    explained: whether by the observer's count the breaker had to open, or might open.
    """

    scope: str
    nodes: frozenset[str]
    opened: float
    explained: bool
    half_open: float | None = None
    closed: float | None = None


@dataclass(slots=True)
class DemoBreaker:
    """One breaker. Times are in seconds.

    faulty: nodes that are faulty now.
    fresh: when nodes became faulty.
    escalated: when jobs escalated, with rule and rung.
    beyond_since: since when the breaker had to open; None if it does not have to.
    calm_since: since when few enough nodes are faulty; None if too many are.
    reported: the state that Kube Defender reports.
    """

    name: str
    rules: Breaker
    speed: float
    members: frozenset[str] = frozenset()
    counted: frozenset[str] = frozenset()
    """The members whose faults count."""
    most: int = 0
    """When half-open lets through this many permits at once, only the limits apply."""
    faulty: set[str] = field(default_factory=set)
    fresh: deque[tuple[float, str]] = field(default_factory=deque)
    escalated: deque[tuple[float, str]] = field(default_factory=deque)
    state: DemoBreakerState = DemoBreakerState.CLOSED
    since: float = 0.0
    beyond_since: float | None = None
    near: bool = False
    """Whether the breaker may open."""
    near_at: float = -math.inf
    """When the breaker might last open."""
    calm_since: float | None = None
    reported: DemoBreakerState = DemoBreakerState.CLOSED
    missing: bool = False
    """The breaker had to be open, and the status did not report it in time."""

    def fault(self, at: float, node: str, faulty: bool) -> None:
        if faulty:
            self.fresh.append((at, node))
        (self.faulty.add if faulty else self.faulty.discard)(node)

    def advance(self, at: float) -> None:
        """Update the state to the time `at`."""
        trip = self.rules.trip
        recent, hour = RECENT.total_seconds() / self.speed, trip.escalations.per.total_seconds()
        while self.fresh and self.fresh[0][0] < at - recent:
            self.fresh.popleft()
        while self.escalated and self.escalated[0][0] < at - hour:
            self.escalated.popleft()
        faulty = len(self.faulty & self.counted)
        ratio = _share(trip.unhealthy_ratio, len(self.counted))
        self.calm_since = (
            (at if self.calm_since is None else self.calm_since) if faulty < ratio / 2 else None
        )
        beyond, self.near = self._trips(faulty, ratio)
        self.beyond_since = (
            (at if self.beyond_since is None else self.beyond_since) if beyond else None
        )
        if self.near:
            self.near_at = at
        if self.state is DemoBreakerState.OPEN and (due := self.half_open_due()) <= at:
            self._turn(DemoBreakerState.HALF_OPEN, due)
        elif self.state is not DemoBreakerState.OPEN and self.must_be_open(at):
            self._turn(DemoBreakerState.OPEN, self.beyond_since or at)

    def _trips(self, faulty: int, ratio: float) -> tuple[bool, bool]:
        """Return whether the breaker must open, and whether it may open."""
        trip = self.rules.trip
        began = self.since if self.state is DemoBreakerState.HALF_OPEN else -math.inf
        fresh = len({n for at, n in self.fresh if at > began and n in self.counted})
        new = _share(trip.new_faults_per10m, len(self.counted))
        enough = faulty >= trip.min_nodes
        often = Counter(kind for _, kind in self.escalated).most_common(1)
        climbing = bool(often) and often[0][1] >= trip.escalations.count
        return (
            enough and (faulty > ratio or fresh > new),
            (enough and (faulty >= ratio or fresh >= new)) or climbing,
        )

    def must_be_open(self, at: float) -> bool:
        return self.beyond_since is not None and self.beyond_since <= at - STALE

    def half_open_due(self) -> float:
        if self.calm_since is None:
            return math.inf
        calm = CALM.total_seconds() / self.speed
        return max(self.since + self.rules.open.total_seconds(), self.calm_since + calm)

    def resumes_at(self) -> float:
        return self.since if self.state is DemoBreakerState.HALF_OPEN else self.half_open_due()

    def allowance(self, at: float) -> float:
        """Return the most permits at once since half-open; inf while closed."""
        if self.state is DemoBreakerState.CLOSED:
            return math.inf
        began = self.resumes_at()
        if began > at:
            return 0
        resume = self.rules.resume
        steps = min(64, int((at - began) / resume.every.total_seconds()))
        return float(resume.start * resume.factor**steps)

    def _turn(self, state: DemoBreakerState, at: float) -> None:
        self.state, self.since, self.missing = state, at, False

    def hear(self, at: float, reported: DemoBreakerState) -> None:
        """Record the state that Kube Defender reports.

        An opening without an explanation is followed.
        """
        before, self.reported = self.reported, reported
        if (
            reported is DemoBreakerState.OPEN
            and before is not reported
            and self.state is not DemoBreakerState.OPEN
        ):
            self._turn(DemoBreakerState.OPEN, at)
        if (
            reported is DemoBreakerState.CLOSED
            and before is not reported
            and self.allowance(at + STALE) >= self.most
        ):
            self._turn(DemoBreakerState.CLOSED, at)

    @property
    def common(self) -> bool:
        return self.name == CLUSTER


def _share(share: int | str, size: int) -> float:
    return float(share) if isinstance(share, int) else size * float(share.removesuffix("%")) / 100


class PolicyBreakerSet:
    """All breakers of one policy.

    late: (since, scope) of breakers that had to be open and were not reported so in time.
    """

    def __init__(self, policy: DefenderPolicy, speed: float) -> None:
        self.rules = policy.spec.breaker
        self._policy = policy
        self._speed = speed
        self.scopes: dict[str, DemoBreaker] = {}
        self.episodes: list[Episode] = []
        self.late: list[tuple[float, str]] = []

    def regroup(self, labels: Mapping[str, Mapping[str, str]]) -> None:
        """Set the nodes and their labels."""
        groups: dict[str, set[str]] = {}
        for each in self.rules.scopes:
            for node, own in labels.items():
                if each.label is None:
                    groups.setdefault(CLUSTER, set()).add(node)
                elif each.label in own:
                    groups.setdefault(f"{each.label}={own[each.label]}", set()).add(node)
        for name, members in groups.items():
            if name not in self.scopes:
                self.scopes[name] = DemoBreaker(name, self.rules, self._speed)
            self.scopes[name].members = frozenset(members)
            self.scopes[name].most = self._most(name, labels)
        for name in self.scopes.keys() - groups.keys():
            del self.scopes[name]
        self._recount()

    def _most(self, scope: str, labels: Mapping[str, Mapping[str, str]]) -> int:
        """Return the most permits at once that the limits allow in the scope, of any disruption
        class.
        """
        limits = [
            budget.at_most
            for budget in budgets(self._policy, labels)
            if budget.name in (CLUSTER, scope) and budget.at_most is not None
        ]
        return max(limits, default=len(labels))

    def _recount(self) -> None:
        """Update the members whose faults count.

        Faults that began while a zone's breaker was open are not new to the cluster when it closes.
        """
        dark = self._out()
        for scope in self.scopes.values():
            scope.counted = scope.members - dark if scope.common else scope.members
            if scope.common and dark:
                scope.fresh = deque((at, node) for at, node in scope.fresh if node not in dark)

    def _out(self) -> frozenset[str]:
        """Return nodes of zones whose breaker is open or may open, which do not count for the
        cluster.
        """
        members = [
            scope.members
            for scope in self.scopes.values()
            if not scope.common and (scope.state is DemoBreakerState.OPEN or scope.near)
        ]
        return frozenset().union(*members)

    def dark(self) -> dict[str, frozenset[str]]:
        """Return the scopes with a label, such as zones, with an open breaker, and their nodes."""
        return {
            name: scope.members
            for name, scope in self.scopes.items()
            if not scope.common and scope.state is DemoBreakerState.OPEN
        }

    def disputed(self) -> bool:
        """Return whether Kube Defender reports a breaker as open or not open against our count."""
        return any(
            (s.state is DemoBreakerState.OPEN) != (s.reported is DemoBreakerState.OPEN)
            for s in self.scopes.values()
        )

    def fault(self, at: float, node: str, faulty: bool) -> bool:
        """Record whether a node is faulty. Return whether that is a change."""
        changed = [s for s in self.of(node) if faulty != (node in s.faulty)]
        for scope in changed:
            scope.fault(at, node, faulty)
        return bool(changed)

    def escalated(self, at: float, node: str, rule: str, rung: int) -> None:
        for scope in self.of(node):
            scope.escalated.append((at, f"{rule}/{rung}"))

    def of(self, node: str) -> list[DemoBreaker]:
        return [scope for scope in self.scopes.values() if node in scope.members]

    def advance(self, at: float) -> None:
        """Update all breakers; narrow scopes first, since their nodes may not count for the
        cluster.
        """
        for common in (False, True):
            for scope in self.scopes.values():
                if scope.common is common:
                    scope.advance(at)
            self._recount()
        for scope in self.scopes.values():
            missing = (
                scope.state is DemoBreakerState.OPEN and scope.reported is DemoBreakerState.CLOSED
            )
            if missing and not scope.missing and at > scope.since + STALE + CONFIRM:
                scope.missing = True
                self.late.append((scope.since, scope.name))

    def hear(self, at: float, states: Iterable[tuple[str, str]]) -> None:
        """Record the status of the policy.

        states: (scope, state); a breaker that is not listed is closed.
        """
        named = dict(states)
        for name, scope in self.scopes.items():
            before, now = (
                scope.reported,
                DemoBreakerState(named.get(name, DemoBreakerState.CLOSED.value)),
            )
            if now is not before:
                self._note(at, scope, now)
                scope.hear(at, now)
        self._recount()

    def _note(self, at: float, scope: DemoBreaker, now: DemoBreakerState) -> None:
        if now is DemoBreakerState.OPEN and scope.reported is DemoBreakerState.CLOSED:
            near = scope.state is DemoBreakerState.OPEN or scope.near_at >= at - CONFIRM
            self.episodes.append(Episode(scope.name, scope.members, at, near))
        last = next((e for e in reversed(self.episodes) if e.scope == scope.name), None)
        if last is not None and now is DemoBreakerState.HALF_OPEN and last.half_open is None:
            last.half_open = at
        if last is not None and now is DemoBreakerState.CLOSED:
            last.closed = at
