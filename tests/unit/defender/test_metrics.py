"""Every figure is there, at zero, before anything happened: a rate over a birth is no rate."""

from collections.abc import Iterator
from datetime import timedelta

from prometheus_client import CollectorRegistry
from support.clock import T0, FakeClock
from support.defender_core import ZONE, Core, a_policy, an_ask

from defender.decision.jobs import JobViewStatus, ObservedJob
from defender.gauges import MANY
from defender.metrics import FREED, REVOKED, DefenderMetrics
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.api.v1alpha1.permit import PermitState
from kubenode.runtime.kube.objects import KubeObjectMeta

Labels = dict[str, str]


class Page:
    """The figures of a registry; all names begin with `kubenode_defender_`."""

    def __init__(self, core: Core) -> None:
        self.clock = FakeClock()
        self.registry = CollectorRegistry()
        self.jobs: list[ObservedJob] = []
        self.metrics = DefenderMetrics(
            self.registry, core.control, lambda: True, self.clock, lambda: self.jobs
        )

    def series(self, name: str) -> Iterator[tuple[Labels, float]]:
        for family in self.registry.collect():
            for sample in family.samples:
                if sample.name == f"kubenode_defender_{name}":
                    yield sample.labels, sample.value

    def value(self, name: str, **labels: str) -> float:
        (found,) = [v for had, v in self.series(name) if labels.items() <= had.items()]
        return found


def test_all_series_of_closed_sets_start_at_zero() -> None:
    page = Page(Core())
    for reason in Reason:
        for call in ("ask", "check", "renew"):
            assert page.value("verdicts_total", call=call, reason=reason) == 0
        assert page.value("waiting", reason=reason) == 0
        assert page.value("waiting_oldest_seconds", reason=reason) == 0
    for state in PermitState:
        assert page.value("permits", state=state) == 0
    for why in FREED:
        assert page.value("freed_total", why=why) == 0
    for why in REVOKED:
        assert page.value("revoked_total", why=why) == 0
    assert page.value("nodes", health="Healthy") == 0
    assert page.value("frozen") == page.value("displaced_pods") == 0
    assert page.value("ready") == page.value("store_up", store="permits") == 1


def test_budgets_are_told_by_policy_limit_and_scope() -> None:
    limits = [{"scope": "Label", "label": ZONE, "maxConcurrent": 2, "minHealthy": 3}]
    core = Core(a_policy(limits=limits))
    core.fleet(8, {ZONE: "a"}, "a")
    core.fleet(8, {ZONE: "b"}, "b")
    assert core.ask(an_ask("a0")).allowed
    page = Page(core)
    about = {"policy": "default", "limit": "0", "scope": f"{ZONE}=a"}
    assert page.value("budget_used", kind="maxConcurrent", **about) == 1
    assert page.value("budget_limit", kind="maxConcurrent", **about) == 2
    assert page.value("budget_room", kind="maxConcurrent", **about) == 1
    assert page.value("budget_used", kind="minHealthy", **about) == 7
    assert page.value("budget_scopes_full", kind="maxConcurrent", scope=ZONE) == 0


def test_a_label_of_many_values_shows_the_tightest_alone_and_how_many_are_full() -> None:
    core = Core(a_policy(limits=[{"scope": "Label", "label": "rack", "maxConcurrent": 1}]))
    for rack in range(MANY + 5):
        core.fleet(3, {"rack": f"r{rack}"}, f"r{rack}n")
    assert core.ask(an_ask("r7n0")).allowed
    assert core.ask(an_ask("r9n0")).allowed
    page = Page(core)
    shown = [labels["scope"] for labels, _ in page.series("budget_used")]
    assert shown == ["rack=*"]
    assert page.value("budget_room", scope="rack=*") == 0
    assert page.value("budget_scopes_full", scope="rack") == 2


def test_a_breaker_is_in_one_state_and_tells_what_it_counts() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 5}]))
    core.fleet(10, {ZONE: "a"}, "a")
    core.fleet(30, {ZONE: "b"}, "b")
    core.step(minutes=1)
    core.fail(*(f"a{i}" for i in range(5)))
    core.step(minutes=1)
    page = Page(core)
    for zone, state in (("a", BreakerState.OPEN), ("b", BreakerState.CLOSED)):
        for each in BreakerState:
            value = page.value(
                "breaker_state", policy="default", scope=f"{ZONE}={zone}", state=each
            )
            assert value == (each is state)
    assert page.value("breaker_faults", policy="default", scope=f"{ZONE}=a") == 5
    assert page.value("breaker_nodes", policy="default", scope=f"{ZONE}=b") == 30
    assert page.value("common_causes", policy="default") == 0


def test_who_waits_is_counted_by_why_and_since_when() -> None:
    core = Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1}]))
    core.fleet(10)
    for node in ("n0", "n1", "n2"):
        ask = an_ask(node)
        core.control.queue.answered(ask, core.ask(ask), core.now)
    page = Page(core)
    page.clock.step(timedelta(minutes=2))
    assert page.clock.now() == T0 + timedelta(minutes=2)
    assert page.value("waiting", reason=Reason.CONCURRENCY_LIMIT) == 2
    assert page.value("waiting_oldest_seconds", reason=Reason.CONCURRENCY_LIMIT) == 120


def test_pauses_that_hold_problems_of_policies_and_stores_are_told() -> None:
    over = {"scope": "Cluster", "until": "2025-12-31T00:00:00Z"}
    page = Page(Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1}],
                              pauses=[over, {"scope": "Node", "value": "n1"}])))  # fmt: skip
    assert page.value("pauses", policy="default") == 1
    assert page.value("policy_problems", policy="default") == 0
    page.metrics.stores["redis"] = lambda: False
    assert page.value("store_up", store="redis") == 0


def test_jobs_that_are_not_over_are_counted_by_phase_and_missed_deadlines_by_policy() -> None:
    page = Page(Core(a_policy(limits=[{"scope": "Cluster", "maxConcurrent": 1}])))
    for phase in ("NeedsHuman", "NeedsHuman", "Running", "Succeeded"):
        page.jobs.append(ObservedJob(KubeObjectMeta(), status=JobViewStatus(phase=phase)))
    assert page.value("jobs", phase="NeedsHuman") == 2
    assert page.value("jobs", phase="Running") == 1
    assert page.value("jobs", phase="AwaitingApproval") == 0
    assert not [labels for labels, _ in page.series("jobs") if labels["phase"] == "Succeeded"]
    assert page.value("missed_deadlines_total", policy="default") == 0
