"""Gauges of Kube Defender, read when they are scraped.

The number of series is bounded: of a label with more than MANY values (such as racks) only the
tightest value is shown, as `LABEL=*`, with the number of values without room.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from math import nan
from typing import TypeVar

from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

from defender.decision.budgets import LimitBudget, budgets
from defender.decision.control import RiskControl
from defender.decision.coverage import CLUSTER
from defender.decision.jobs import ObservedJob
from defender.decision.pauses import lasting
from defender.decision.policies import LoadedPolicy
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.api.v1alpha1.permit import PermitState
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.runtime.clock import Clock

MANY = 20
"""Values of one label that are shown separately."""
MOST_POLICIES = 32
"""Policies whose budgets and breakers are shown. A cluster has a few."""
MOST_GROUPS, MOST_CLUSTERS = 8, 32
"""Groups of clusters, and silent clusters of each, that are shown: the first by name."""
BUDGET = ("policy", "limit", "scope", "kind")
PERMITS_STORE = "permits"
K = TypeVar("K", bound=str)


class Gauges(Collector):
    """Collector of the gauges."""

    def __init__(
        self,
        control: RiskControl,
        ready: Callable[[], bool],
        clock: Clock,
        stores: Mapping[str, Callable[[], bool]],
        jobs: Callable[[], Iterable[ObservedJob]],
    ) -> None:
        self._control, self._ready, self._clock, self._stores = control, ready, clock, stores
        self._jobs = jobs

    def collect(self) -> Iterator[Metric]:
        control, ready = self._control, self._ready()
        yield _single_gauge("ready", "1 if requests can be answered, otherwise 0.", ready)
        yield self._up(ready)
        yield self._permits()
        yield self._unreadable()
        yield _by(
            "nodes",
            "Number of nodes, by health as limits count it.",
            "health",
            control.census.counts(),
        )
        pending = nan if control.displaced is None else control.displaced
        yield _single_gauge("displaced_pods", "Number of displaced pods that are pending.", pending)
        yield from self._budgets()
        yield from self._breakers()
        yield from self._queue()
        yield self._fleet()
        yield from self._policies()
        yield self._open_jobs()

    def describe(self) -> Iterable[Metric]:
        """Return nothing, so that registration reads nothing."""
        return ()

    def _up(self, ready: bool) -> Metric:
        up: dict[str, float] = {PERMITS_STORE: ready}
        up |= {name: float(answers()) for name, answers in self._stores.items()}
        return _by("store_up", "1 if a store of permits responds, otherwise 0.", "store", up)

    def _permits(self) -> Metric:
        permits = dict.fromkeys(PermitState, 0)
        for permit in self._control.ledger:
            permits[permit.state] += 1
        return _by("permits", "Number of permits, by state.", "state", permits)

    def _unreadable(self) -> Metric:
        permits = {"open": 0, "released": 0}
        for permit in self._control.ledger:
            if permit.unreadable:
                permits["open" if permit.open else "released"] += 1
        text = (
            "Number of permits that cannot be decoded. An open one blocks its node and"
            " counts in every scope."
        )
        return _by("unreadable_permits", text, "state", permits)

    # -- budgets ------------------------------------------------------------------------------

    def _budgets(self) -> Iterator[Metric]:
        used = _family(
            "budget_used", "Number of used permits of a limit, or number of healthy nodes.", BUDGET
        )
        limit = _family(
            "budget_limit",
            "Maximum number of permits of a limit, or minimum number of healthy nodes.",
            BUDGET,
        )
        room = _family(
            "budget_room", "Number of acts that a limit currently allows in addition.", BUDGET
        )
        full = _family(
            "budget_scopes_full", "Number of scopes in which a limit allows no further act.", BUDGET
        )
        all_budgets = budgets(self._control, self._clock.now())
        some = {policy.name for policy in self._shown()}
        by = sorted((b for b in all_budgets if b.policy in some), key=_line)
        for (policy, index, kind, label), group in groupby(by, _line):
            scopes = list(group)
            known = (policy, str(index))
            for budget in _few(scopes):
                values = [*known, budget.scope, kind]
                used.add_metric(values, budget.used)
                limit.add_metric(values, budget.limit)
                room.add_metric(values, budget.room)
            full.add_metric([*known, label, kind], sum(not budget.room for budget in scopes))
        yield from (used, limit, room, full)

    def _shown(self) -> list[LoadedPolicy]:
        control = self._control
        rulers = control.policies or (control.fallback,)
        return sorted(rulers, key=lambda policy: policy.name)[:MOST_POLICIES]

    # -- breakers -----------------------------------------------------------------------------

    def _breakers(self) -> Iterator[Metric]:
        labels = ("policy", "scope", "state")
        state = _family(
            "breaker_state",
            "1 for the current state of the breaker of a scope, otherwise 0.",
            labels,
        )
        faults = _family(
            "breaker_faults", "Number of nodes with a fault in the scope of a breaker.", labels[:2]
        )
        nodes = _family(
            "breaker_nodes",
            "Number of nodes in the scope of a breaker, of which its percentages are taken.",
            labels[:2],
        )
        causes = _family(
            "common_causes", "Number of common causes of faults that stop acts.", labels[:1]
        )
        groups = sorted(self._control.census.groups())
        some = {policy.name for policy in self._shown()}
        for watch in self._control.breakers.watches():
            name = watch.policy.name
            if name not in some:
                continue
            causes.add_metric([name], len(watch.causes))
            for label in watch.labels:
                scopes = [s for p, s in groups if p == name and _is_of(s, label)]
                if len(scopes) > MANY:
                    scopes = [s for s in scopes if watch.state(s).state is not BreakerState.CLOSED]
                for scope in scopes[: 3 * MANY]:
                    now = watch.state(scope).state
                    for each in BreakerState:
                        state.add_metric([name, scope, each.value], float(now is each))
                    faults.add_metric([name, scope], watch.group(scope).unhealthy)
                    nodes.add_metric([name, scope], watch.group(scope).members)
        yield from (state, faults, nodes, causes)
        frozen = self._control.breakers.control_path.frozen is not None
        yield _single_gauge(
            "frozen", "1 during a control path outage, in which no act starts, otherwise 0.", frozen
        )

    def _fleet(self) -> Metric:
        labels = ("group", "cluster")
        silent = _family(
            "fleet_silent", "1 for a cluster that shares limits and does not report.", labels
        )
        view = self._control.fleet
        groups = sorted(view.groups.items()) if view is not None else []
        for name, group in groups[:MOST_GROUPS]:
            untold = group.silent | group.last_claims().keys() | {*group.missing()} - {group.me}
            for cluster in sorted(untold)[:MOST_CLUSTERS]:
                silent.add_metric([name, cluster], 1.0)
        return silent

    # -- queue --------------------------------------------------------------------------------

    def _queue(self) -> Iterator[Metric]:
        now = self._clock.now()
        waiting = dict.fromkeys(Reason, 0)
        oldest = dict.fromkeys(Reason, 0.0)
        for place in self._control.queue.waiting():
            waiting[place.reason] += 1
            seconds = (now - place.since).total_seconds()
            oldest[place.reason] = max(oldest[place.reason], seconds)
        yield _by(
            "waiting", "Number of holders that wait after a denial, by reason.", "reason", waiting
        )
        yield _by(
            "waiting_oldest_seconds",
            "Longest current wait of a holder in seconds, by reason.",
            "reason",
            oldest,
        )

    def _policies(self) -> Iterator[Metric]:
        labels = ("policy",)
        pauses = _family("pauses", "Number of active pauses.", labels)
        broken = _family(
            "policy_problems",
            "Number of parts of a policy that cannot be enforced, for which requests are denied.",
            labels,
        )
        missed = CounterMetricFamily(
            "kubenode_defender_missed_deadlines",
            "Number of planned events that started before a permit was granted.",
            labels=labels,
        )
        now = self._clock.now()
        for policy in self._shown():
            active = lasting(policy.spec.pauses, now) if policy.spec is not None else ()
            pauses.add_metric([policy.name], len(active))
            broken.add_metric([policy.name], len(policy.problems))
            missed.add_metric([policy.name], self._control.missed(policy.name))
        yield from (pauses, broken, missed)

    def _open_jobs(self) -> Metric:
        phases = {phase.value: 0 for phase in JobPhase if not phase.closed}
        for job in self._jobs():
            if job.status.phase in phases:
                phases[job.status.phase] += 1
        return _by(
            "jobs", "Number of open jobs in the cache of Kube Defender, by phase.", "phase", phases
        )


def _line(budget: LimitBudget) -> tuple[str, int, str, str]:
    return budget.policy, budget.index, budget.kind, budget.label


def _few(scopes: list[LimitBudget]) -> list[LimitBudget]:
    if len(scopes) <= MANY:
        return scopes
    tightest = min(scopes, key=lambda budget: (budget.room, -budget.used, budget.scope))
    any_of = f"{tightest.label}=*"
    return [replace(tightest, scope=any_of)]


def _is_of(scope: str, label: str | None) -> bool:
    return scope == CLUSTER if label is None else scope.startswith(f"{label}=")


def _family(what: str, text: str, labels: Iterable[str]) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kubenode_defender_{what}", text, labels=list(labels))


def _single_gauge(what: str, text: str, value: float) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"kubenode_defender_{what}", text, value=float(value))


def _by(what: str, text: str, label: str, counts: Mapping[K, float]) -> GaugeMetricFamily:
    family = _family(what, text, (label,))
    for value, count in counts.items():
        family.add_metric([str(value)], float(count))
    return family
