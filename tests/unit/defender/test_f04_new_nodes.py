"""F04: a node that is still starting looks broken; it does not count towards storms."""

from datetime import timedelta

import pytest
from support.clock import T0
from support.defender_core import ZONE, a_node
from support.storm import Zones

from kubenode.api.v1alpha1 import Disruption, Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState

OPEN, CLOSED = BreakerState.OPEN, BreakerState.CLOSED
NODE = Disruption.NODE


def newborn(
    zones: Zones, count: int, *, ready: bool = False, schedulable: bool = True
) -> list[str]:
    """New nodes of zone a that register now."""
    names = [f"new{i}" for i in range(count)]
    for name in names:
        node = a_node(
            name,
            {ZONE: "a"},
            ready=ready,
            schedulable=schedulable,
            born=zones.now,
            since=zones.now,
        )
        zones.nodes(node)
    zones.step(seconds=0)
    return names


def test_f04_a_hundred_new_nodes_that_are_not_ready_yet_open_no_breaker() -> None:
    zones = Zones()
    newborn(zones, 100)
    assert (zones.breaker("a"), zones.breaker("cluster")) == (CLOSED, CLOSED)
    zones.down(["a0"])
    assert zones.asks("a0", NODE).allowed


def test_f04_nodes_that_were_never_ready_open_none_after_their_grace_either() -> None:
    zones = Zones()
    newborn(zones, 100)
    zones.pass_(30)
    assert (zones.breaker("a"), zones.breaker("cluster")) == (CLOSED, CLOSED)


def test_f04_a_jobs_word_on_a_starting_node_is_not_counted() -> None:
    """Rules have a grace of their own; one without it must not make a storm of a scale-out."""
    zones = Zones()
    for name in newborn(zones, 50):
        zones.job(name)
    assert zones.breaker("a") is CLOSED


def test_f04_starting_nodes_are_no_reserve_for_faults_of_others() -> None:
    """35 of 100 are down. Fifty nodes that are coming up do not thin the ratio out."""
    zones = Zones()
    newborn(zones, 50)
    zones.down(zones.names["a"][:30])
    assert zones.breaker("a") is OPEN


@pytest.mark.parametrize("cordoned", [False, True])
def test_f04_a_young_node_that_was_ready_and_failed_is_a_fault(cordoned: bool) -> None:
    """Also one on which nothing might be scheduled while it was ready."""
    zones = Zones(10, "a")
    young = newborn(zones, 10, ready=True, schedulable=not cordoned)
    zones.pass_(1)
    zones.nodes(*(a_node(n, {ZONE: "a"}, ready=False, born=T0, since=zones.now) for n in young[:6]))
    zones.step(seconds=0)
    assert zones.breaker("a") is OPEN


@pytest.mark.parametrize("ready", [True, False], ids=["came up", "did not"])
def test_f04_a_storm_of_joining_nodes_is_none_after_a_restart_either(ready: bool) -> None:
    """What was true of them is read from the objects again."""
    zones = Zones()
    names = newborn(zones, 60)
    zones.pass_(3)
    if ready:
        since = zones.now
        zones.nodes(*(a_node(n, {ZONE: "a"}, born=T0, since=since) for n in names))
        zones.step(seconds=0)
    nodes = [node for name in zones.every + names if (node := zones.census.node(name))]
    again = Zones(0)
    again.now = zones.now + timedelta(seconds=5)
    again.nodes(*nodes)
    again.step(seconds=0)
    assert again.breaker("a") is CLOSED
    assert again.asks("a0", NODE).reason is Reason.GRANTED
