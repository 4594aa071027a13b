"""The observer's own arithmetic of breakers: it says so when a breaker let something through."""

import pytest

from kubenode.api.v1alpha1 import default_policy
from simulation.demo.books import PermitView
from simulation.demo.breakers import CONFIRM, STALE, JobView
from simulation.demo.faults import Kind
from simulation.demo.fleet import places
from simulation.demo.ledger import EndedBy, Ledger
from simulation.demo.observer import NodeView, Observer
from simulation.demo.summary import storms

PLACES = {p.name: p for p in places(300)}
WORKERS = [p for p in PLACES.values() if not p.control_plane]
ZONE_A, ZONE_B = ([p.name for p in WORKERS if p.zone == zone] for zone in ("zone-a", "zone-b"))
SCOPE = "topology.kubernetes.io/zone=zone-a"
STORM = 1000.0
OPEN, CALM, EVERY = 600.0, 300.0, 300.0


class Scene:
    """An observer with the storm's history in it; times are seconds of a real fleet."""

    def __init__(self) -> None:
        self.ledger = Ledger()
        self.observer = Observer(default_policy(), self.ledger)
        self.observer.listed(0.0, {name: view(name) for name in PLACES})

    def fail(self, names: list[str], at: float = STORM) -> None:
        for name in names:
            self.observer.node(at, name, view(name, ready=False))

    def recover(self, names: list[str], at: float) -> None:
        for name in names:
            self.observer.node(at, name, view(name))

    def told(self, at: float, state: str) -> None:
        self.observer.record_breakers(at, [(SCOPE, state)] if state != "Closed" else [])

    def storm(self, names: list[str]) -> None:
        self.fail(names)
        self.told(STORM + 0.5, "Open")
        self.observer.settle(STORM + 10)

    def job(self, node: str, fault_class: str, *sources: str) -> None:
        job = JobView(node, True, True, fault_class, frozenset(sources))
        self.observer.job(STORM + 5, f"j-{node}", job)

    def grant(self, node: str, at: float, class_: str = "Host") -> None:
        self.observer.permit(at, f"p-{node}", PermitView(node, class_, True, f"j-{node}"))

    def release(self, node: str, at: float, class_: str = "Host") -> None:
        self.observer.permit(at, f"p-{node}", PermitView(node, class_, False, f"j-{node}"))

    @property
    def wrong(self) -> list[str]:
        return [f.what for f in self.observer.limit_violations]


def view(name: str, *, ready: bool = True) -> NodeView:
    return NodeView(PLACES[name].labels(), ready, False, False)


@pytest.fixture
def scene() -> Scene:
    return Scene()


def test_a_permit_in_a_zone_whose_breaker_must_be_open_is_counted(scene: Scene) -> None:
    scene.storm(ZONE_A[:45])
    scene.grant(ZONE_A[0], STORM + 20)
    assert scene.wrong == [f"{SCOPE}: a permit while the breaker is open"]
    assert scene.observer.resuming.while_open == 1


def test_a_permit_elsewhere_is_none_although_the_cluster_has_too_few_healthy(scene: Scene) -> None:
    """70 of 300 are down: below minHealthy 80%, but for the zone that is left out."""
    scene.storm(ZONE_A[:70])
    scene.grant(ZONE_B[0], STORM + 20, "Pods")
    assert scene.wrong == []


def test_as_many_spread_thinly_open_no_zone_and_forbid_every_permit(scene: Scene) -> None:
    thin = [p.name for p in WORKERS][:69]
    for at, name in enumerate(thin):
        scene.fail([name], 60.0 * at)
    scene.observer.settle(5000.0)
    scene.grant(ZONE_B[-1], 5001.0, "Pods")
    assert scene.wrong == ["cluster: 230 others healthy, 240 must be"]


def test_nobody_is_blamed_for_a_permit_of_the_moment_of_the_storm(scene: Scene) -> None:
    scene.fail(ZONE_A[:45])
    scene.grant(ZONE_A[0], STORM + STALE / 2)
    scene.told(STORM + STALE, "Open")
    scene.observer.settle(STORM + 10)
    assert scene.wrong == []


def test_faults_one_after_the_other_trip_by_their_number_within_ten_minutes(scene: Scene) -> None:
    for i, name in enumerate(ZONE_A[:11]):
        scene.fail([name], STORM + 20 * i)
        scene.recover([name], STORM + 20 * i + 500)
    scene.told(STORM + 220, "Open")
    scene.observer.settle(STORM + 230)
    scene.grant(ZONE_A[0], STORM + 240)
    assert scene.observer.resuming.while_open == 1


def test_as_many_over_an_hour_trip_nothing(scene: Scene) -> None:
    for i, name in enumerate(ZONE_A[:11]):
        scene.fail([name], STORM + 300 * i)
        scene.recover([name], STORM + 300 * i + 250)
    scene.grant(ZONE_A[0], STORM + 3600)
    assert scene.wrong == []


def test_a_breaker_that_had_to_open_and_did_not_is_counted_once(scene: Scene) -> None:
    scene.fail(ZONE_A[:45])
    for seconds in range(1, 30):
        scene.observer.settle(STORM + seconds)
    assert scene.wrong == ["the breaker did not open"]
    assert STORM + STALE + CONFIRM < STORM + 30


def test_an_opening_that_nothing_explains_is_told(scene: Scene) -> None:
    scene.told(STORM, "Open")
    told = storms(scene.ledger, scene.observer, STORM + 60)
    assert (told["breakerOpened"], told["breakerUnexplained"]) == (0, 1)


def test_three_jobs_that_climbed_the_same_rung_explain_an_opening(scene: Scene) -> None:
    for i, node in enumerate(ZONE_A[:3]):
        for rung in (0, 1):
            job = JobView(node, True, True, "runtime", frozenset(), "runtime-unhealthy", rung)
            scene.observer.job(STORM + i, f"j-{node}", job)
    scene.told(STORM + 4, "Open")
    told = storms(scene.ledger, scene.observer, STORM + 60)
    assert told["breakerOpened"] == 1
    assert "breakerUnexplained" not in told


class TestResume:
    """The storm passes 100 s later, but for five nodes: half-open after `open`, ten minutes."""

    @pytest.fixture
    def passed(self, scene: Scene) -> Scene:
        scene.storm(ZONE_A[:45])
        scene.recover(ZONE_A[5:45], STORM + 100)
        return scene

    def test_a_permit_before_it_is_due_is_counted(self, passed: Scene) -> None:
        passed.told(STORM + OPEN - 100, "HalfOpen")
        passed.grant(ZONE_A[0], STORM + OPEN - 99)
        assert passed.wrong == [f"{SCOPE}: a permit while the breaker is open"]

    def test_one_at_once_then_twice_as_many(self, passed: Scene) -> None:
        passed.told(STORM + OPEN + 1, "HalfOpen")
        passed.grant(ZONE_A[0], STORM + OPEN + 2)
        assert passed.wrong == []
        passed.grant(ZONE_A[30], STORM + OPEN + 3)
        assert passed.wrong == [f"{SCOPE}: 2 permits at once while half-open, 1 allowed"]
        passed.release(ZONE_A[0], STORM + OPEN + EVERY)
        passed.grant(ZONE_A[60], STORM + OPEN + EVERY + 5)
        assert len(passed.wrong) == 1
        assert passed.observer.resuming.most == 2

    def test_closing_before_the_limits_rule_lets_no_more_through(self, passed: Scene) -> None:
        passed.told(STORM + OPEN + 1, "HalfOpen")
        passed.told(STORM + OPEN + 2, "Closed")
        passed.grant(ZONE_A[0], STORM + OPEN + 3)
        passed.grant(ZONE_A[30], STORM + OPEN + 4)
        assert len(passed.wrong) == 1

    def test_closed_once_the_limits_rule(self, passed: Scene) -> None:
        """15 at once of class Host are the most that the default policy allows: four doublings."""
        passed.told(STORM + OPEN + 1, "HalfOpen")
        at = STORM + OPEN + 4 * EVERY + 2
        passed.observer.settle(at)
        passed.told(at, "Closed")
        for i, node in enumerate(ZONE_A[10:90:10]):
            passed.grant(node, at + 1 + i)
        assert passed.wrong == []
        told = storms(passed.ledger, passed.observer, at + 60)
        assert (told["breakerOpened"], told["breakerClosed"]) == (1, 1)
        assert told["breakerOpenSeconds"] == pytest.approx(OPEN + 0.5)

    def test_another_storm_while_half_open_opens_it_again(self, passed: Scene) -> None:
        passed.told(STORM + OPEN + 1, "HalfOpen")
        passed.fail(ZONE_A[40:80], STORM + OPEN + 100)
        passed.told(STORM + OPEN + 101, "Open")
        passed.observer.settle(STORM + OPEN + 110)
        passed.grant(ZONE_A[0], STORM + OPEN + 400)
        assert passed.wrong == [f"{SCOPE}: a permit while the breaker is open"]

    def test_what_went_on_elsewhere_is_counted_by_node_and_time(self, passed: Scene) -> None:
        for node, healed in ((ZONE_A[0], 200.0), (ZONE_B[0], 200.0), (ZONE_B[1], -200.0)):
            passed.ledger.inject(node, Kind.CLOCK, STORM - 300)
            passed.ledger.decided(node, f"job-{node}", STORM - 290)
            passed.ledger.end(node, [Kind.CLOCK], STORM + healed - 10, EndedBy.AGENT)
            passed.ledger.succeeded(f"job-{node}", STORM + healed)
        assert storms(passed.ledger, passed.observer, STORM + 300)["healedElsewhere"] == 1


class TestReserve:
    @pytest.fixture
    def stormy(self, scene: Scene) -> Scene:
        scene.storm(ZONE_A[:45])
        for node in ZONE_A[:45]:
            scene.job(node, "runtime_unhealthy", "NPD")
        return scene

    def test_another_fault_with_proof_takes_it(self, stormy: Scene) -> None:
        stormy.job(ZONE_A[50], "readonly_filesystem", "NPD", "probe")
        stormy.grant(ZONE_A[50], STORM + 30, "Node")
        assert stormy.wrong == []
        assert stormy.observer.resuming.reserved == 1

    def test_it_is_one_at_once(self, stormy: Scene) -> None:
        for node in (ZONE_A[50], ZONE_A[70]):
            stormy.job(node, "readonly_filesystem", "probe")
            stormy.grant(node, STORM + 30, "Node")
        assert stormy.observer.resuming.while_open == 1
        stormy.release(ZONE_A[50], STORM + 40, "Node")
        stormy.job(ZONE_A[80], "kernel_deadlock", "probe")
        stormy.grant(ZONE_A[80], STORM + 50, "Node")
        assert stormy.observer.resuming.while_open == 1

    @pytest.mark.parametrize(
        ("fault_class", "source"),
        [("readonly_filesystem", "NPD"), ("runtime_unhealthy", "probe")],
        ids=["no proof", "the storm's own"],
    )
    def test_without_proof_or_with_the_storm_s_own_fault_it_is_refused(
        self, stormy: Scene, fault_class: str, source: str
    ) -> None:
        stormy.job(ZONE_A[50], fault_class, source)
        stormy.grant(ZONE_A[50], STORM + 30, "Node")
        assert stormy.observer.resuming.while_open == 1
