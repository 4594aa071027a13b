"""The scenarios: the same from the same seed, mixed, and spread as the demo promises."""

from collections import Counter
from itertools import islice, pairwise, takewhile

import pytest

from kubenode.api.v1alpha1 import default_policy
from simulation.demo.faults import Kind, Plan, Planned
from simulation.demo.fleet import places
from simulation.demo.scenarios import MIXED, OF_ITS_OWN, OPENING, SCENARIOS, STORM, Scenario

FLEET = places(300)
ZONE = {p.name: p.zone for p in FLEET}
FAULTY = [scenario for scenario in SCENARIOS.values() if not scenario.quiet]
EVERY = pytest.mark.parametrize("scenario", FAULTY, ids=[s.name for s in FAULTY])


def plan(seed: int, scenario: Scenario = MIXED) -> Plan:
    return scenario.plan(seed, FLEET, scenario.speed)


def singles(seed: int, scenario: Scenario = MIXED) -> Plan:
    """Without storms, and without what comes with them."""
    with_storm = -1.0
    for planned in plan(seed, scenario):
        if planned.kind.outside:
            with_storm = planned.at + OF_ITS_OWN / scenario.speed
        elif planned.at != with_storm:
            yield planned


def storm_of(scenario: Scenario) -> list[Planned]:
    """The parts of the first storm."""
    found = (p for p in plan(7, scenario) if p.kind.outside)
    first = next(found)
    return [first, *takewhile(lambda p: p.at == first.at, found)]


@EVERY
def test_same_seed_gives_the_same_faults_and_another_seed_others(scenario: Scenario) -> None:
    assert list(islice(plan(7, scenario), 200)) == list(islice(plan(7, scenario), 200))
    assert list(islice(plan(7, scenario), 50)) != list(islice(plan(8, scenario), 50))


@EVERY
def test_faults_come_in_the_order_of_time(scenario: Scenario) -> None:
    times = [p.at for p in islice(plan(7, scenario), 500)]
    assert times == sorted(times)


def test_every_sort_opens_the_run() -> None:
    assert tuple(p.kind for p in islice(plan(3), len(OPENING))) == OPENING


def test_a_minute_holds_enough_to_heal_eighteen() -> None:
    minute = list(takewhile(lambda p: p.at < 36, plan(7)))
    curable = [p for p in minute if p.kind.real and not p.kind.boots and not p.kind.outside]
    assert len(curable) >= 18


def test_one_more_node_of_the_stormy_zone_has_a_fault_of_its_own() -> None:
    storm = storm_of(STORM)
    hit = [n for p in storm for n in p.nodes]
    other = next(p for p in plan(7, STORM) if p.at > storm[0].at and p.kind is Kind.CLOCK_PROVEN)
    assert ZONE[other.nodes[0]] == ZONE[hit[0]]
    assert other.nodes[0] not in hit


@pytest.mark.parametrize("scenario", [MIXED, STORM], ids=["mixed", "storm"])
def test_a_storm_hits_one_zone_hard_enough_to_open_its_breaker(scenario: Scenario) -> None:
    storm = storm_of(scenario)
    hit = [n for p in storm for n in p.nodes]
    assert len({ZONE[n] for n in hit}) == 1
    assert len(hit) == len(set(hit)) > 0.3 * 100
    assert all(p.lasts is not None for p in storm)


def test_a_storm_takes_more_of_the_cluster_than_may_be_unhealthy() -> None:
    """Else it would prove nothing that the others go on being healed."""
    hit = sum(len(p.nodes) for p in storm_of(STORM))
    assert default_policy().spec.limits[0].min_healthy == "80%"
    assert hit > 0.2 * len(FLEET)


def test_what_a_storm_leaves_behind_half_opens_the_breaker() -> None:
    left = next(p for p in storm_of(STORM) if p.kind is Kind.STORM_REMNANT)
    assert 3 <= len(left.nodes) < 0.15 * 100


@EVERY
@pytest.mark.parametrize("seed", range(5))
def test_single_faults_come_too_slowly_to_open_a_breaker(scenario: Scenario, seed: int) -> None:
    """newFaultsPer10m is 10%: of any ten minutes and of any zone."""
    window = 600 / scenario.speed
    some = takewhile(lambda p: p.at < 20 * window, singles(seed, scenario))
    real = [p for p in some if p.kind.real]
    for first in real:
        within = [p for p in real if first.at <= p.at < first.at + window]
        zones = Counter(ZONE[p.nodes[0]] for p in within)
        assert max(zones.values()) < 10
        assert len(within) < 30


def test_no_node_has_a_second_fault_before_every_node_had_one() -> None:
    """In each round anew: a fault that comes while the last one is being proven gone looks like a
    repair that did not hold, and is rightly left to a person.
    """
    workers = sum(not p.control_plane for p in FLEET)
    names = [p.nodes[0] for p in islice(singles(7), 3 * workers)]
    for first in range(2 * workers):
        assert len(set(names[first : first + workers])) == workers


def test_neighbours_in_time_are_in_different_zones() -> None:
    zones = [ZONE[p.nodes[0]] for p in islice(singles(7), 100)]
    assert all(a != b for a, b in pairwise(zones))


def test_a_flap_is_shorter_than_any_rule_waits() -> None:
    flap = next(p for p in plan(7) if p.kind is Kind.FLAP)
    check_interval = 10 / 20
    assert flap.lasts is not None
    assert flap.lasts + check_interval < 30 / 20


@pytest.mark.parametrize("seed", range(3))
def test_a_quiet_scenario_has_no_faults(seed: int) -> None:
    assert list(plan(seed, SCENARIOS["quiet"])) == []
