"""Who else is at work on a node, deadlines that passed, pauses without gaps."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.defender_core import ZONE, Core, a_node, a_policy, an_ask

from kubenode.api.foreign import (
    DESIRED_DRAIN,
    FOREIGN_ANNOTATIONS,
    FOREIGN_LABELS,
    FOREIGN_TAINTS,
    SHUTDOWN,
)
from kubenode.api.v1alpha1 import Disruption, Operation, Reason

LIMITS = [{"scope": "Cluster", "maxConcurrent": 1}]


def a_core(**spec: Any) -> Core:
    core = Core(a_policy(limits=LIMITS, **spec))
    core.fleet(20)
    return core


@pytest.mark.parametrize("taint", sorted(FOREIGN_TAINTS))
def test_a_node_with_the_taint_of_another_owner_is_left_to_it(taint: str) -> None:
    core = a_core()
    core.nodes(a_node("n0", taints=(taint,)))
    refused = core.judge(an_ask("n0"))
    assert refused.reason is Reason.FOREIGN_OWNER and taint in refused.message
    core.nodes(a_node("n0"))
    assert core.judge(an_ask("n0")).allowed


@pytest.mark.parametrize(("key", "values"), sorted(FOREIGN_ANNOTATIONS.items()))
def test_annotations_of_other_owners_count_while_they_say_that_it_works(
    key: str, values: frozenset[str]
) -> None:
    core = a_core()
    busy, idle = a_node("n0"), a_node("n1")
    busy.metadata.annotations = {key: min(values, default="x")}
    idle.metadata.annotations = {key: "Done"} if values else {}
    core.nodes(busy, idle)
    assert core.judge(an_ask("n0")).reason is Reason.FOREIGN_OWNER
    assert core.judge(an_ask("n1")).allowed


@pytest.mark.parametrize(("key", "values"), sorted(FOREIGN_LABELS.items()))
def test_labels_of_other_owners_count_while_they_say_that_it_works(
    key: str, values: frozenset[str]
) -> None:
    core = a_core()
    busy, idle = a_node("n0"), a_node("n1")
    busy.metadata.labels |= {key: min(values, default="x")}
    idle.metadata.labels |= {key: "upgrade-done"} if values else {}
    core.nodes(busy, idle)
    refused = core.judge(an_ask("n0"))
    assert refused.reason is Reason.FOREIGN_OWNER and key in refused.message
    assert core.judge(an_ask("n1")).allowed


@pytest.mark.parametrize(("wanted", "allowed"), [("drain-x", False), ("uncordon-x", True)])
def test_drain_that_openshift_asks_for_is_another_owners_work(wanted: str, allowed: bool) -> None:
    core = a_core()
    node = a_node("n0")
    node.metadata.annotations |= {DESIRED_DRAIN: wanted}
    core.nodes(node)
    assert core.judge(an_ask("n0")).allowed is allowed


def test_a_node_that_is_being_deleted_is_somebodys() -> None:
    core = a_core()
    core.nodes(a_node("n0", leaving=True))
    assert core.judge(an_ask("n0")).reason is Reason.FOREIGN_OWNER


@pytest.mark.parametrize("operation", [Operation.DELETE, Operation.SCALE_IN])
def test_whoever_set_the_mark_may_go_on_within_the_budget(operation: Operation) -> None:
    core = a_core()
    core.nodes(a_node("n0", taints=("ToBeDeletedByClusterAutoscaler",)))
    assert core.ask(an_ask("n0", operation=operation)).allowed
    assert core.judge(an_ask("n1")).reason is Reason.CONCURRENCY_LIMIT


def test_a_machine_that_its_holder_switched_off_may_be_replaced_by_it() -> None:
    core = a_core()
    assert core.ask(an_ask("n0", Disruption.PODS)).allowed
    core.nodes(a_node("n0", taints=(SHUTDOWN,), ready=False))
    assert core.judge(an_ask("n0", Disruption.NODE)).allowed


def evacuation(node: str, minutes: float = 10, **fields: Any) -> Any:
    deadline = T0 + timedelta(minutes=minutes)
    return an_ask(node, operation=Operation.EVACUATE, deadline=deadline, **fields)


def answered(core: Core, ask: Any) -> None:
    core.control.answered(ask, core.ask(ask), core.now)


def test_an_evacuation_that_waited_until_its_deadline_is_counted_once() -> None:
    core = a_core()
    assert core.ask(an_ask("n19")).allowed
    for _ in range(12):
        answered(core, evacuation("n0"))
        core.step(minutes=1)
    answered(core, evacuation("n0"))
    core.step(hours=1)
    assert core.control.missed("default") == 1


def test_who_got_its_permit_or_gave_up_before_missed_nothing() -> None:
    core = a_core()
    answered(core, evacuation("n0"))  # granted
    answered(core, evacuation("n1"))  # refused, and never asks again
    answered(core, evacuation("n2", dry_run=True))
    core.step(hours=1)
    assert core.control.missed("default") == 0


def test_a_pause_of_every_policy_has_no_gaps_where_none_rules() -> None:
    zone_a = {"selector": {"matchLabels": {ZONE: "a"}}}
    paused = a_policy("a", nodes=zone_a, limits=LIMITS, pauses=[{}])
    core = Core(paused)
    core.fleet(9, {ZONE: "b"}, "b")
    assert core.judge(an_ask("b0")).reason is Reason.PAUSED
    core.control.govern([a_policy("a", nodes=zone_a, limits=LIMITS)], core.now)
    assert core.judge(an_ask("b0")).allowed


def test_a_pause_that_is_over_stops_nothing_and_of_several_the_longest_is_told() -> None:
    def until(minutes: int) -> str:
        return (T0 + timedelta(minutes=minutes)).isoformat()

    core = a_core(pauses=[{"until": until(-5)}, {"until": until(5)}, {"until": until(9)}])
    assert core.judge(an_ask("n0")).look_again_at == T0 + timedelta(minutes=9)
    core.step(minutes=9)
    assert core.judge(an_ask("n0")).allowed
