"""F15: every heartbeat stops at once while the hosts run: an outage of the API, not of nodes."""

from datetime import timedelta

import pytest
from support.storm import OTHER, PROBE, Zones

from kubenode.api.v1alpha1 import Disruption, Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.api.v1alpha1.permit import Operation

NODE = Disruption.NODE


@pytest.fixture
def outage() -> Zones:
    """All kubelets stopped reporting a minute ago; agents of most hosts are heard all the while."""
    zones = Zones()
    zones.hush(zones.every)
    zones.step(seconds=20)
    hear(zones, zones.every[::2])
    return zones


def hear(zones: Zones, names: list[str]) -> None:
    zones.control.breakers.evaluate_signs(dict.fromkeys(names, zones.now), zones.now)
    zones.step(seconds=0)


def reason(zones: Zones, node: str) -> Reason:
    return zones.asks(node, NODE, OTHER, [PROBE]).reason


def test_f15_nothing_is_done_to_any_node_whatever_its_evidence(outage: Zones) -> None:
    for node in ("a0", "b50", "c99"):
        verdict = outage.asks(node, NODE, OTHER, [PROBE])
        assert verdict.reason is Reason.BREAKER_OPEN
        assert "control path" in verdict.message


def test_f15_it_lasts_as_long_as_the_heartbeats_are_away(outage: Zones) -> None:
    for _ in outage.minutes(120, every=5):
        hear(outage, outage.every[::2])
        assert reason(outage, "a0") is Reason.BREAKER_OPEN


def test_f15_it_thaws_by_itself_on_fresh_heartbeats_and_by_nothing_else(outage: Zones) -> None:
    hear(outage, [])
    outage.pass_(30)
    assert reason(outage, "a0") is Reason.BREAKER_OPEN
    outage.up(outage.every)
    outage.pass_(30)
    outage.down(["a0"])
    assert reason(outage, "a0") is Reason.GRANTED


def test_f15_nothing_that_was_planned_meanwhile_happens_at_once(outage: Zones) -> None:
    """The API is back: nodes are Ready before any breaker lets anybody do more than one thing."""
    outage.pass_(20)
    outage.up(outage.every[:-1])
    granted = [n for n in outage.every[:40] if outage.asks(n, NODE).allowed]
    assert len(granted) <= 1


def test_f15_all_silent_and_no_other_way_to_hear_of_them_is_no_leave_to_act() -> None:
    """Nobody knows that the hosts run: then the breaker of the cluster holds all."""
    zones = Zones()
    zones.hush(zones.every)
    zones.step(minutes=1)
    assert reason(zones, "a0") is Reason.BREAKER_OPEN


def test_f15_nodes_that_fall_silent_over_an_hour_are_no_outage_of_the_api() -> None:
    zones = Zones()
    for i, name in enumerate(zones.every):
        zones.hush([name])
        zones.step(seconds=12)
        if i % 30 == 0:
            hear(zones, zones.every[: i + 1])
    assert zones.control.breakers.control_path.frozen is None


def test_f15_one_zone_silent_with_its_agents_alive_holds_that_zone() -> None:
    zones = Zones()
    zones.hush(zones.names["a"])
    zones.step(seconds=20)
    hear(zones, zones.names["a"])
    zones.down(["b0"])
    assert reason(zones, "a0") is Reason.BREAKER_OPEN
    assert reason(zones, "b0") is Reason.GRANTED


def test_f15_a_planned_event_that_comes_anyway_waits_too(outage: Zones) -> None:
    """We do not know any node's state: emptying one could take the last healthy replica."""
    ask = outage.question("a0", NODE).model_copy(
        update={"operation": Operation.EVACUATE, "inevitable": True}
    )
    assert not outage.judge(ask).allowed


def test_f15_the_breakers_say_so(outage: Zones) -> None:
    status = outage.control.breakers.status(outage.policies[0].name)
    entry = next(b for b in status if b.scope == "control-path")
    assert entry.state is BreakerState.OPEN
    assert entry.since <= outage.now <= entry.since + timedelta(minutes=1)
