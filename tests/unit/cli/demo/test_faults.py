"""The plan of faults: the same from the same seed, mixed, and spread as the demo promises."""

from itertools import islice, takewhile

from kubenode.cli.demo.faults import OPENING, Kind, Pace, plan
from kubenode.cli.demo.fleet import places

FLEET = places(300)
PACE = Pace.at_speed(20, 300)


def test_same_seed_gives_the_same_faults_and_another_seed_others() -> None:
    assert list(islice(plan(7, FLEET, PACE), 200)) == list(islice(plan(7, FLEET, PACE), 200))
    assert list(islice(plan(7, FLEET, PACE), 50)) != list(islice(plan(8, FLEET, PACE), 50))


def test_faults_come_in_the_order_of_time() -> None:
    times = [p.at for p in islice(plan(7, FLEET, PACE), 500)]
    assert times == sorted(times)


def test_every_sort_opens_the_run() -> None:
    assert tuple(p.kind for p in islice(plan(3, FLEET, PACE), len(OPENING))) == OPENING


def test_a_minute_holds_enough_to_heal_twenty() -> None:
    minute = list(takewhile(lambda p: p.at < 34, plan(7, FLEET, PACE)))
    curable = [p for p in minute if p.kind.real and not p.kind.for_people and p.lasts is None]
    assert len(curable) >= 24


def test_a_storm_hits_more_of_one_zone_than_min_healthy_allows() -> None:
    zone_of = {p.name: p.zone for p in FLEET}
    storm = next(p for p in plan(7, FLEET, PACE) if p.kind is Kind.STORM)
    assert len({zone_of[n] for n in storm.nodes}) == 1
    assert 40 < len(storm.nodes) < 60
    assert storm.lasts is not None


def test_no_node_has_a_second_fault_before_every_node_had_one() -> None:
    workers = sum(not p.control_plane for p in FLEET)
    singles = (p for p in plan(7, FLEET, PACE) if p.kind is not Kind.STORM)
    names = [p.nodes[0] for p in islice(singles, workers)]
    assert len(set(names)) == workers


def test_a_flap_is_shorter_than_any_rule_waits() -> None:
    flap = next(p for p in plan(7, FLEET, PACE) if p.kind is Kind.FLAP)
    check_interval = 10 / 20
    assert flap.lasts is not None
    assert flap.lasts + check_interval < 30 / 20
