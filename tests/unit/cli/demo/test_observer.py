"""The observer counts: fed a history that breaks a rule it says so, fed a clean one nothing."""

from collections.abc import Iterator

import pytest

from kubenode.api.v1alpha1 import default_policy
from kubenode.api.v1alpha1.defenderpolicy import Trip
from simulation.demo.books import PermitView
from simulation.demo.faults import Kind
from simulation.demo.fleet import places
from simulation.demo.ledger import EndedBy, Ledger
from simulation.demo.observer import NodeView, Observer

PLACES = {p.name: p for p in places(300)}
ZONE_A = [p.name for p in PLACES.values() if p.zone == "zone-a" and not p.control_plane]


def view(
    name: str, *, ready: bool = True, unschedulable: bool = False, ours: bool = False
) -> NodeView:
    return NodeView(PLACES[name].labels(), ready, unschedulable, ours)


@pytest.fixture
def ledger() -> Ledger:
    return Ledger()


@pytest.fixture
def observer(ledger: Ledger) -> Observer:
    policy = default_policy()
    never = Trip(unhealthy_ratio="100%", new_faults_per10m="100%")
    policy.spec.breaker = policy.spec.breaker.model_copy(update={"trip": never})
    watching = Observer(policy, ledger)
    watching.listed(0.0, {name: view(name) for name in PLACES})
    return watching


def apart() -> Iterator[str]:
    """Workers of different racks and zones, so that only the cluster's limits bind."""
    racks = set()
    for place in PLACES.values():
        if not place.control_plane and place.rack not in racks:
            racks.add(place.rack)
            yield place.name


def grant(observer: Observer, node: str, at: float, class_: str = "Pods") -> None:
    observer.permit(at, f"p-{node}", PermitView(node, class_, True))


def release(observer: Observer, node: str, at: float, class_: str = "Pods") -> None:
    observer.permit(at, f"p-{node}", PermitView(node, class_, False))


class TestFalseActions:
    def test_cordon_of_a_node_with_a_real_fault_is_none(
        self, observer: Observer, ledger: Ledger
    ) -> None:
        ledger.inject("n00010", Kind.RUNTIME_HUNG, 1.0)
        grant(observer, "n00010", 2.0)
        observer.node(2.1, "n00010", view("n00010", unschedulable=True, ours=True))
        observer.settle(9.0)
        assert (observer.acts, observer.false_actions, observer.limit_violations) == (1, [], [])

    def test_cordon_of_a_healthy_node_is_counted(self, observer: Observer) -> None:
        observer.node(2.0, "n00010", view("n00010", unschedulable=True, ours=True))
        assert [f.what for f in observer.false_actions] == ["cordoned"]

    def test_a_person_s_cordon_is_not_ours(self, observer: Observer) -> None:
        observer.node(2.0, "n00010", view("n00010", unschedulable=True))
        observer.settle(9.0)
        assert (observer.acts, observer.false_actions, observer.limit_violations) == (0, [], [])

    def test_taking_off_a_person_s_cordon_is_counted(
        self, observer: Observer, ledger: Ledger
    ) -> None:
        ledger.inject("n00010", Kind.RUNTIME_HUNG, 1.0)
        observer.node(2.0, "n00010", view("n00010", unschedulable=True))
        observer.node(3.0, "n00010", view("n00010"))
        assert [f.what for f in observer.false_actions] == ["took off a person's cordon"]

    def test_noise_justifies_no_act(self, observer: Observer, ledger: Ledger) -> None:
        ledger.inject("n00010", Kind.FLAP, 1.0)
        observer.request(1.5, "job", "n00010", "r0s0a1", "RestartUnit kubelet.service")
        assert len(observer.false_actions) == 1

    def test_an_act_long_after_the_fault_is_counted_and_one_right_after_is_not(
        self, observer: Observer, ledger: Ledger
    ) -> None:
        ledger.inject("n00010", Kind.KUBELET_DOWN, 1.0)
        ledger.end("n00010", [Kind.KUBELET_DOWN], 5.0, EndedBy.ITSELF)
        observer.request(5.5, "job", "n00010", "r0s0a1", "RestartUnit kubelet.service")
        assert observer.false_actions == []
        observer.request(9.0, "job", "n00010", "r1s0a1", "RestartUnit kubelet.service")
        assert len(observer.false_actions) == 1

    def test_an_eviction_is_counted_once_however_often_it_is_seen(self, observer: Observer) -> None:
        for at in (1.0, 1.1, 1.2):
            observer.pod_leaving(at, "uid-1", "n00010")
        assert len(observer.false_actions) == 1

    def test_another_act_under_the_same_request_was_asked_for(
        self, observer: Observer, ledger: Ledger
    ) -> None:
        """A job whose status was wiped between off and on counts its requests anew."""
        ledger.inject("n00010", Kind.KUBELET_DOWN, 1.0)
        for at, what in ((2.0, "power off"), (3.0, "power on")):
            observer.request(at, "job", "n00010", "r0s0a1", what)
            observer.host_act(at, "n00010", what)
        observer.settle(9.0)
        assert observer.false_actions == []

    def test_a_request_carried_out_twice_is_counted(
        self, observer: Observer, ledger: Ledger
    ) -> None:
        ledger.inject("n00010", Kind.KUBELET_DOWN, 1.0)
        observer.request(2.0, "job", "n00010", "r0s0a1", "RestartUnit kubelet.service")
        observer.host_act(2.1, "n00010", "RestartUnit kubelet.service")
        observer.settle(4.0)
        assert observer.false_actions == []
        observer.host_act(5.0, "n00010", "RestartUnit kubelet.service")
        observer.settle(7.0)
        assert [f.what for f in observer.false_actions] == [
            "RestartUnit kubelet.service done 2 times, asked 1 times"
        ]


class TestLimits:
    def test_six_at_once_are_allowed_and_the_seventh_is_counted(self, observer: Observer) -> None:
        nodes = list(apart())
        chosen: list[str] = []
        for zone in ("zone-a", "zone-b", "zone-c"):
            chosen += [n for n in nodes if PLACES[n].zone == zone][:2]
        for i, node in enumerate(chosen):
            grant(observer, node, 100.0 * i)
        assert observer.limit_violations == []
        seventh = next(n for n in nodes if n not in chosen)
        grant(observer, seventh, 1000.0)
        assert "cluster: 7 nodes disrupted at once, 6 allowed" in [
            f.what for f in observer.limit_violations
        ]

    def test_third_of_a_zone_is_counted(self, observer: Observer) -> None:
        for i, node in enumerate([n for n in apart() if PLACES[n].zone == "zone-a"][:3]):
            grant(observer, node, 100.0 * i)
        (found,) = observer.limit_violations
        assert found.what.startswith("topology.kubernetes.io/zone=zone-a: 3 nodes")

    def test_second_of_a_rack_is_counted(self, observer: Observer) -> None:
        first, second = [n for n in ZONE_A if PLACES[n].rack == PLACES[ZONE_A[0]].rack][:2]
        grant(observer, first, 1.0)
        grant(observer, second, 100.0)
        assert [f.what.partition(":")[0] for f in observer.limit_violations] == [
            f"kubenode.io/rack={PLACES[first].rack}"
        ]

    def test_a_released_permit_no_longer_counts(self, observer: Observer) -> None:
        first, second = [n for n in ZONE_A if PLACES[n].rack == PLACES[ZONE_A[0]].rack][:2]
        grant(observer, first, 1.0)
        release(observer, first, 50.0)
        grant(observer, second, 100.0)
        assert observer.limit_violations == []

    def test_host_permits_have_their_own_limit(self, observer: Observer) -> None:
        nodes = list(apart())
        for i, node in enumerate(nodes[:15]):
            grant(observer, node, 100.0 * i, "Host")
        assert observer.limit_violations == []
        grant(observer, nodes[15], 2000.0, "Host")
        assert [f.what for f in observer.limit_violations] == [
            "cluster: 16 nodes disrupted at once, 15 allowed"
        ]

    def test_an_upgrade_to_pods_is_a_grant_of_its_own(self, observer: Observer) -> None:
        first, second = [n for n in ZONE_A if PLACES[n].rack == PLACES[ZONE_A[0]].rack][:2]
        grant(observer, first, 1.0)
        grant(observer, second, 100.0, "Host")
        assert observer.limit_violations == []
        grant(observer, second, 200.0)
        assert len(observer.limit_violations) == 1

    def test_grant_below_min_healthy_of_the_zone_is_counted(self, observer: Observer) -> None:
        for name in ZONE_A[:45]:
            observer.node(10.0, name, view(name, ready=False))
        grant(observer, ZONE_A[0], 20.0)
        assert [f.what for f in observer.limit_violations] == [
            "topology.kubernetes.io/zone=zone-a: 55 others healthy, 60 must be"
        ]

    def test_nobody_is_blamed_for_what_the_watch_had_not_brought_yet(
        self, observer: Observer
    ) -> None:
        for name in ZONE_A[:45]:
            observer.node(10.0, name, view(name, ready=False))
        grant(observer, ZONE_A[0], 10.5)
        assert observer.limit_violations == []

    def test_a_cordon_without_a_permit_is_counted_after_a_moment(
        self, observer: Observer, ledger: Ledger
    ) -> None:
        ledger.inject("n00010", Kind.RUNTIME_HUNG, 1.0)
        observer.node(5.0, "n00010", view("n00010", unschedulable=True, ours=True))
        observer.settle(5.5)
        assert observer.limit_violations == []
        observer.settle(6.5)
        assert [f.what for f in observer.limit_violations] == ["cordoned without a permit"]

    def test_more_permits_than_the_rate_gives_are_counted(self, observer: Observer) -> None:
        nodes = list(apart())
        for i, node in enumerate(nodes[:8]):
            grant(observer, node, 0.1 * i)
            release(observer, node, 0.1 * i + 0.05)
        assert [f.node for f in observer.limit_violations] == nodes[6:8]
