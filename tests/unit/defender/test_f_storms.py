"""Storms: too much wrong at once, and what goes on all the same, under the policy that ships."""

from itertools import pairwise

import pytest
from support.defender_core import a_policy
from support.storm import OTHER, PROBE, STORM, Zones

from kubenode.api.v1alpha1 import Disruption, Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState

HOST, PODS, NODE = Disruption.HOST, Disruption.PODS, Disruption.NODE
OPEN, HALF_OPEN, CLOSED = BreakerState.OPEN, BreakerState.HALF_OPEN, BreakerState.CLOSED


class TestZoneOutage:
    @pytest.fixture
    def dark(self) -> Zones:
        """70 of 100 nodes of zone a are gone: 23% of the cluster, whose minHealthy is 80%."""
        zones = Zones()
        zones.down(zones.names["a"][:70])
        return zones

    def test_the_zone_is_open_and_nothing_else(self, dark: Zones) -> None:
        assert (dark.breaker("a"), dark.breaker("b"), dark.breaker("cluster")) == (
            OPEN, CLOSED, CLOSED,
        )  # fmt: skip

    @pytest.mark.parametrize("class_", [HOST, PODS, NODE])
    def test_no_act_in_the_zone_is_allowed_on_ill_or_well_nodes(
        self, dark: Zones, class_: Disruption
    ) -> None:
        for node in ("a0", "a99"):
            verdict = dark.asks(node, class_)
            assert verdict.reason is Reason.BREAKER_OPEN
            assert verdict.scope.endswith("zone=a")
            assert verdict.look_again_at is not None and verdict.look_again_at > dark.now

    @pytest.mark.parametrize("class_", [HOST, PODS, NODE])
    def test_single_faults_elsewhere_are_allowed(self, dark: Zones, class_: Disruption) -> None:
        dark.down(["b0"])
        assert dark.asks("b0", class_).allowed

    def test_the_two_other_zones_keep_the_limits_of_two_zones(self, dark: Zones) -> None:
        """2% of the 200 nodes that are left is 4 at once, 2 in each zone."""
        got = [dark.asks(f"{zone}{i}", NODE).allowed for i in range(3) for zone in "bc"]
        assert got == [True, True, True, True, False, False]

    def test_a_second_zone_going_dark_leaves_the_third_one_working(self, dark: Zones) -> None:
        dark.down(dark.names["b"][:70])
        assert (dark.breaker("b"), dark.breaker("cluster")) == (OPEN, CLOSED)
        dark.down(["c0"])
        assert dark.asks("c0", NODE).allowed

    def test_faults_of_all_zones_at_once_open_the_cluster_s(self) -> None:
        zones = Zones()
        zones.down([n for zone in "abc" for n in zones.names[zone][:40]])
        assert not any(zones.asks(f"{zone}0").allowed for zone in "abc")


class TestFalsePositives:
    """A detector errs on half of a zone: jobs are made, nodes are Ready all the while."""

    @pytest.fixture
    def wave(self) -> Zones:
        zones = Zones()
        for node in zones.names["a"][:50]:
            zones.job(node, STORM, "NPD")
        return zones

    def test_the_wave_is_held(self, wave: Zones) -> None:
        assert wave.breaker("a") is OPEN
        assert {wave.asks(node).reason for node in wave.names["a"][:50]} == {Reason.BREAKER_OPEN}

    @pytest.mark.parametrize("class_", [HOST, NODE])
    def test_a_real_fault_with_independent_evidence_takes_the_reserved_slot(
        self, wave: Zones, class_: Disruption
    ) -> None:
        wave.job("a80", OTHER, "NPD", PROBE)
        assert wave.asks("a80", class_, OTHER, ["NPD", PROBE]).allowed

    def test_it_does_although_too_few_of_the_zone_are_healthy(self) -> None:
        zones = Zones()
        zones.down(zones.names["a"][:70])
        zones.job("a80", OTHER, PROBE)
        assert zones.asks("a80", NODE, OTHER, [PROBE]).allowed

    def test_one_at_a_time(self, wave: Zones) -> None:
        for node in ("a80", "a90"):
            wave.job(node, OTHER, PROBE)
        first = wave.asks("a80", NODE, OTHER, [PROBE])
        assert wave.asks("a90", NODE, OTHER, [PROBE]).reason is Reason.BREAKER_OPEN
        wave.gives_back(first)
        assert wave.asks("a90", NODE, OTHER, [PROBE]).allowed

    @pytest.mark.parametrize(
        ("fault_class", "evidence"),
        [(STORM, [PROBE]), (OTHER, ["NPD"]), (OTHER, []), ("unknown", [PROBE])],
        ids=["the wave's own", "a node's word alone", "no evidence", "no class"],
    )
    def test_anything_less_is_held_with_the_wave(
        self, wave: Zones, fault_class: str, evidence: list[str]
    ) -> None:
        wave.job("a80", fault_class, *evidence)
        assert wave.asks("a80", NODE, fault_class, evidence).reason is Reason.BREAKER_OPEN

    def test_a_second_wave_with_proof_is_a_wave_too(self, wave: Zones) -> None:
        """What nearly as many have is no single fault, whoever says so."""
        for node in wave.names["a"][50:90]:
            wave.job(node, OTHER, PROBE)
        assert wave.asks("a60", NODE, OTHER, [PROBE]).reason is Reason.BREAKER_OPEN

    def test_when_the_detector_takes_it_back_all_goes_on_without_an_act(self, wave: Zones) -> None:
        for node in wave.names["a"][:50]:
            wave.job(node, phase="Cancelled")
        wave.pass_(10.5)
        assert wave.breaker("a") is HALF_OPEN
        assert wave.ledger.open() == []


class TestStaggeredRecovery:
    """40 nodes of zone a fail; 30 come back within a minute, 10 need a repair."""

    @pytest.fixture
    def after(self) -> Zones:
        zones = Zones()
        zones.down(zones.names["a"][:40])
        zones.pass_(1)
        zones.up(zones.names["a"][10:40])
        return zones

    def test_half_open_after_ten_minutes_and_not_before(self, after: Zones) -> None:
        after.pass_(8.5)
        assert after.breaker("a") is OPEN
        assert not after.asks("a0").allowed
        after.pass_(1)
        assert after.breaker("a") is HALF_OPEN

    def test_a_longer_storm_needs_five_quiet_minutes(self) -> None:
        zones = Zones()
        zones.down(zones.names["a"][:40])
        zones.pass_(20)
        zones.up(zones.names["a"][10:40])
        zones.pass_(4.5)
        assert zones.breaker("a") is OPEN
        zones.pass_(1)
        assert zones.breaker("a") is HALF_OPEN

    def test_one_at_once_then_twice_as_many_every_five_minutes(self, after: Zones) -> None:
        most = []
        while after.breaker("a") is OPEN:
            after.pass_(0.5)
        for _ in range(3):
            got = [v for node in after.names["a"][:10] if (v := after.asks(node)).allowed]
            most.append(len(got))
            for verdict in got:
                after.gives_back(verdict)
            after.pass_(5)
        assert most[0] == 1
        assert all(now <= 2 * before for before, now in pairwise(most))
        assert most[-1] > 1

    def test_limits_rule_again_in_the_end(self, after: Zones) -> None:
        after.pass_(60)
        assert after.breaker("a") is CLOSED
        assert after.asks("a0", NODE).allowed
        assert after.asks("a1", NODE).allowed
        assert after.asks("a2", NODE).reason is not Reason.BREAKER_OPEN

    def test_nobody_s_turn_is_kept_over_the_storm(self, after: Zones) -> None:
        """Nodes that are well again have nothing to ask; who asks is judged by what is so now."""
        after.pass_(10)
        assert after.ledger.open() == []
        assert after.asks("a0").allowed

    def test_another_storm_while_half_open_opens_it_again(self, after: Zones) -> None:
        after.pass_(10)
        assert after.breaker("a") is HALF_OPEN
        after.down(after.names["a"][40:80])
        assert after.breaker("a") is OPEN
        after.pass_(9)
        assert after.breaker("a") is OPEN

    def test_faults_of_the_storm_open_nothing_again_once_it_is_over(self) -> None:
        """A storm that rolls over a zone for nine minutes: at half-open its last faults are young
        still. They are no news, not for the zone and not for the cluster that it rejoins."""
        zones = Zones()
        hit = zones.names["a"][:72]
        for i in range(18):
            for node in hit[4 * i : 4 * i + 4]:
                zones.down([node])
                zones.job(node)
            zones.pass_(0.5)
        zones.up(hit)
        for node in hit:
            zones.job(node, phase="Cancelled")
        opened_again = []
        for _ in zones.minutes(40):
            opened_again.append(zones.breaker("cluster"))
        assert set(opened_again) == {CLOSED}
        assert zones.breaker("a") is CLOSED


class TestSmallPools:
    @pytest.mark.parametrize(("failed", "state"), [(1, CLOSED), (2, CLOSED), (3, OPEN)])
    def test_fewer_than_three_faults_open_no_breaker_of_ten(
        self, failed: int, state: BreakerState
    ) -> None:
        """30% of few nodes is one or two: `minNodes` keeps single faults healable."""
        zones = Zones(10, "a")
        zones.down(zones.names["a"][:failed])
        assert zones.breaker("a") is state

    @pytest.mark.parametrize("nodes", range(1, 6))
    def test_a_pool_of_up_to_five_is_guarded_by_its_neighbours_health(self, nodes: int) -> None:
        """One at a time, all others healthy: with two down nothing is done, breaker or not."""
        zones = Zones(nodes, "a")
        zones.down(["a0"])
        assert zones.breaker("a") is CLOSED
        verdict = zones.asks("a0", NODE)
        assert verdict.allowed
        zones.gives_back(verdict)
        if nodes > 1:
            zones.down(["a1"])
            assert not zones.asks("a0", NODE).allowed

    def test_a_small_pool_that_is_all_gone_does_not_stop_a_large_fleet(self) -> None:
        policy = a_policy(
            breaker={"scopes": [{"scope": "Cluster"}, {"scope": "Label", "label": "pool"}]},
            limits=[{"scope": "Cluster", "maxConcurrent": "2%", "minHealthy": "80%"}],
        )
        zones = Zones(100, "abc", policy)
        zones.down(["a0", "a1", "a2"])
        assert zones.breaker("cluster") is CLOSED
        assert zones.asks("b0", NODE).allowed
