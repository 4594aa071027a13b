"""F15: heartbeats that stop while hosts run are an outage of the control path, not of nodes."""

from datetime import timedelta
from typing import Any

import pytest
from support.breaker_core import Fleet, a_job
from support.clock import T0
from support.defender_core import ZONE, a_policy, an_ask

from defender.decision.breaker.control_path import Thaw
from kubenode.api.v1alpha1 import Operation, Reason
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.runtime.kube.objects import Taint

SECOND = timedelta(seconds=1)


def fleet_of(nodes: int, **breaker: Any) -> Fleet:
    """Only a frozen control path is in the way: breakers stay closed."""
    limits = [{"scope": "Cluster", "maxConcurrent": 1000}]
    fleet = Fleet(a_policy(limits=limits, breaker={"trip": {"minNodes": 1_000_000}} | breaker))
    for number in range(nodes):
        fleet.put(f"n{number}")
    return fleet


def silent(fleet: Fleet, count: int, first: int = 0) -> None:
    fleet.down("n", count, first, ready="Unknown")


def alive(fleet: Fleet, count: int, ago: timedelta = -SECOND) -> dict[str, Any]:
    """Signs of the first hosts, by default from after their heartbeats stopped."""
    return {f"n{number}": fleet.now - ago for number in range(count)}


def test_f15_heartbeats_that_stop_while_agents_go_on_freeze_everything() -> None:
    fleet = fleet_of(100)
    silent(fleet, 60)
    breakers = fleet.control.breakers
    assert set(breakers.suspicious()) == {f"n{number}" for number in range(60)}
    assert fleet.judge(an_ask("n1")).allowed  # nobody has looked yet: the breaker's own affair
    breakers.evaluate_signs(alive(fleet, 20), fleet.now)
    for ask in (
        an_ask("n1"),
        an_ask("n80", operation=Operation.SCALE_IN),
        an_ask("n1", operation=Operation.EVACUATE, inevitable=True),
        an_ask("n1", fault_class="host_retire", evidence=["HostEvent"]),
    ):
        no = fleet.judge(ask)
        assert (no.reason, no.scope) == (Reason.BREAKER_OPEN, "cluster")
        assert "control path: heartbeats of 60 of 100 nodes stopped at once" in no.message
        assert "20 of 20 hosts" in no.message
    (told,) = breakers.status("default")
    assert (told.scope, told.state) == ("control-path", BreakerState.OPEN)
    assert breakers.opened() == [("default", "cluster"), ("built-in default", "cluster")]


def test_it_thaws_on_fresh_heartbeats_and_not_by_time() -> None:
    fleet = fleet_of(100)
    silent(fleet, 60)
    breakers = fleet.control.breakers
    breakers.evaluate_signs(alive(fleet, 20), fleet.now)
    fleet.step(hours=24)
    breakers.evaluate_signs({}, fleet.now)
    assert fleet.judge(an_ask("n1")).reason is Reason.BREAKER_OPEN
    fleet.up("n", 34)
    assert fleet.judge(an_ask("n99")).reason is Reason.BREAKER_OPEN  # 26 still silent
    version = breakers.version
    fleet.up("n", 2, first=34)
    assert fleet.judge(an_ask("n99")).allowed
    assert breakers.version > version and breakers.status("default") == []


def test_nodes_that_died_are_no_outage_of_the_control_path() -> None:
    fleet = fleet_of(100)
    silent(fleet, 60)
    fleet.control.breakers.evaluate_signs(alive(fleet, 60, ago=40 * SECOND), fleet.now)
    assert fleet.judge(an_ask("n1")).allowed
    half_alive = alive(fleet, 29) | {f"n{n}": fleet.now - 40 * SECOND for n in range(29, 60)}
    fleet.control.breakers.evaluate_signs(half_alive, fleet.now)
    assert fleet.judge(an_ask("n1")).allowed
    fleet.control.breakers.evaluate_signs(alive(fleet, 2), fleet.now)  # too few witnesses
    assert fleet.judge(an_ask("n1")).allowed


def test_only_half_of_all_nodes_at_once_is_suspicious() -> None:
    fleet = fleet_of(100)
    silent(fleet, 49)
    assert not fleet.control.breakers.suspicious()
    slowly = fleet_of(100)
    for number in range(100):
        slowly.step(seconds=10)
        silent(slowly, 1, first=number)
    assert not slowly.control.breakers.suspicious()
    slowly.control.breakers.evaluate_signs(alive(slowly, 100), slowly.now)
    assert slowly.judge(an_ask("n1")).allowed
    not_ready = fleet_of(100)
    not_ready.down("n", 100)  # kubelets say so themselves: their heartbeats go on
    assert not not_ready.control.breakers.suspicious()


def test_when_the_control_path_is_back_the_breaker_resumes_gradually() -> None:
    fleet = fleet_of(100, trip={"minNodes": 3})
    silent(fleet, 100)
    fleet.control.breakers.evaluate_signs(alive(fleet, 100), fleet.now)
    assert fleet.states() == {"control-path": BreakerState.OPEN, "cluster": BreakerState.OPEN}
    fleet.step(minutes=20)
    fleet.up("n", 100)
    assert fleet.states() == {"cluster": BreakerState.OPEN}
    fleet.step(minutes=5)
    assert fleet.states() == {"cluster": BreakerState.HALF_OPEN}


def test_a_restart_stays_frozen_until_heartbeats_are_back() -> None:
    fleet = fleet_of(100)
    silent(fleet, 60)
    fleet.control.breakers.evaluate_signs(alive(fleet, 20), fleet.now)
    policy = fleet.policies[0]
    status = policy.status.model_copy(update={"breaker": fleet.control.breakers.status("default")})
    again = fleet.restarted(type(policy)(policy.metadata, policy.spec, status))
    assert again.judge(an_ask("n1")).reason is Reason.BREAKER_OPEN
    again.up("n", 60)
    assert again.judge(an_ask("n1")).allowed


def test_jobs_of_the_outage_change_nothing() -> None:
    fleet = fleet_of(100)
    silent(fleet, 60)
    for number in range(60):
        fleet.job(a_job(f"n{number}", created=T0))
    fleet.control.breakers.evaluate_signs(alive(fleet, 60), fleet.now)
    assert fleet.judge(an_ask("n99")).reason is Reason.BREAKER_OPEN


# -- a part that stays away -------------------------------------------------------------------


def frozen_zones(each: int = 30) -> Fleet:
    """Three zones whose heartbeats all stopped while hosts ran; breakers of zones may open."""
    spec: dict[str, Any] = {
        "limits": [{"scope": "Cluster", "maxConcurrent": 1000}],
        "breaker": {"scopes": [{"scope": "Label", "label": ZONE}]},
    }
    fleet = Fleet(a_policy(**spec))
    fleet.zones(each)
    for zone in "abc":
        fleet.down(zone, each, ready="Unknown")
    names = list(fleet.objects)
    fleet.control.breakers.evaluate_signs(dict.fromkeys(names, fleet.now + SECOND), fleet.now)
    assert frozen(fleet)
    return fleet


def frozen(fleet: Fleet) -> bool:
    fleet.control.advance(fleet.now)
    return fleet.control.breakers.control_path.frozen is not None


def calm(fleet: Fleet) -> None:
    for _ in range(60):
        fleet.step(minutes=1)
        fleet.control.advance(fleet.now)


def test_it_thaws_when_the_breaker_of_the_zone_that_stays_away_holds_it() -> None:
    fleet = frozen_zones()
    calm(fleet)
    assert frozen(fleet)
    fleet.up("a", 30)
    fleet.up("b", 30)
    calm(fleet)
    assert not frozen(fleet)
    fleet.down("a", 1)
    assert fleet.judge(an_ask("a0")).allowed
    held = fleet.judge(an_ask("c0"))
    assert held.reason is Reason.BREAKER_OPEN
    assert "control path" not in held.message


def test_it_stays_frozen_while_no_zone_is_back() -> None:
    fleet = frozen_zones()
    for zone in "abc":
        fleet.up(zone, 10)
    calm(fleet)
    assert frozen(fleet)


def test_it_stays_frozen_when_only_zones_that_never_fell_silent_are_heard() -> None:
    healthy = Fleet(*frozen_zones(4).policies)
    healthy.zones(10)
    for zone in "ab":
        healthy.down(zone, 10, ready="Unknown")
    signs = dict.fromkeys(list(healthy.objects), healthy.now + SECOND)
    healthy.control.breakers.evaluate_signs(signs, healthy.now)
    calm(healthy)
    assert frozen(healthy)


def test_it_thaws_when_those_that_stay_away_are_gone() -> None:
    fleet = fleet_of(100)
    silent(fleet, 100)
    fleet.control.breakers.evaluate_signs(alive(fleet, 100), fleet.now)
    fleet.up("n", 60)
    assert frozen(fleet)
    for number in range(60, 100):
        fleet.control.node_changed(f"n{number}", None, fleet.now)
    assert not frozen(fleet)


def test_it_thaws_when_the_provider_says_that_those_that_stay_away_are_off() -> None:
    fleet = fleet_of(100)
    silent(fleet, 100)
    fleet.control.breakers.evaluate_signs(alive(fleet, 100), fleet.now)
    fleet.up("n", 60)
    assert frozen(fleet)
    for number in range(60, 100):
        node = fleet.objects[f"n{number}"]
        node.spec.taints.append(Taint("node.cloudprovider.kubernetes.io/shutdown"))
        fleet.control.node_changed(f"n{number}", node, fleet.now)
    fleet.step(minutes=1)
    assert not frozen(fleet)


@pytest.mark.exhaustive
def test_after_a_restart_it_thaws_when_the_breaker_of_what_stays_away_holds_it() -> None:
    fleet = frozen_zones()
    policy = fleet.policies[0]
    fleet.up("a", 30)
    fleet.up("b", 30)
    status = policy.status.model_copy(update={"breaker": fleet.control.breakers.status("default")})
    again = fleet.restarted(type(policy)(policy.metadata, policy.spec, status))
    assert again.control.breakers.control_path.frozen is not None
    calm(again)
    assert not frozen(again)
    assert again.judge(an_ask("c0")).reason is Reason.BREAKER_OPEN


def test_a_person_thaws_it_and_the_same_silence_does_not_freeze_it_again() -> None:
    fleet = fleet_of(100)
    silent(fleet, 100)
    breakers = fleet.control.breakers
    breakers.evaluate_signs(alive(fleet, 100), fleet.now)
    path = breakers.control_path
    assert path.frozen is not None
    thaw = Thaw(path.frozen.since, "ada", "the rack was sold")
    assert breakers.lift(thaw)
    assert not frozen(fleet)
    fleet.step(minutes=5)
    breakers.evaluate_signs(alive(fleet, 100), fleet.now)
    assert not frozen(fleet)
    assert not breakers.lift(thaw)


def test_a_later_outage_freezes_again_whatever_a_person_thawed_before() -> None:
    fleet = fleet_of(100)
    silent(fleet, 100)
    breakers = fleet.control.breakers
    breakers.evaluate_signs(alive(fleet, 100), fleet.now)
    path = breakers.control_path
    assert path.frozen is not None
    thaw = Thaw(path.frozen.since, "ada", "known")
    breakers.lift(thaw)
    fleet.step(hours=1)
    fleet.up("n", 100)
    fleet.step(minutes=10)
    silent(fleet, 100)
    breakers.evaluate_signs(alive(fleet, 100), fleet.now)
    breakers.lift(thaw)  # an old word that is read again
    assert frozen(fleet)
