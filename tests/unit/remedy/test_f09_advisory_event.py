"""F09: an advisory event after which nothing happens; a kind of events that is switched off.

The rule is the library's, the decisions are production's, time is ours.
"""

from pathlib import Path
from typing import Any

import pytest
from ruamel.yaml import YAML
from support.replay_world import a_world, ages, at, feed

from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1 import NodeRemedier
from simulation.replay.world import World

RULE = Path(__file__).parents[3] / "rules/library/cloud/host-rebalance.yaml"
MINUTE, HOUR = 60, 3600
ADVICE = {"class": "Rebalance", "phase": "Active", "source": "AWS"}


def the_rule(**spec: Any) -> NodeRemedier:
    data = YAML(typ="safe").load(RULE.read_text())
    return NodeRemedier.from_user({**data, "spec": {**data["spec"], **spec}})


def cordoned(world: World) -> bool:
    node = world.nodes["a"]
    return node.spec.unschedulable or CORDONED_BY in node.metadata.annotations


def test_f09_our_cordon_is_taken_off_when_nothing_follows_the_advice() -> None:
    world = a_world(the_rule())
    feed(world, 0, "a", hostEvent=ADVICE)
    at(world, 2 * MINUTE)
    assert len(world.jobs) == 1 and cordoned(world)
    at(world, HOUR - MINUTE)
    assert cordoned(world)
    at(world, HOUR + 10 * MINUTE)
    assert not cordoned(world)
    at(world, 6 * HOUR)
    assert len(world.jobs) == 1 and not cordoned(world)


@pytest.mark.parametrize("phase", ["Completed", "Cancelled", "Expired"])
def test_f09_advice_that_is_taken_back_gives_the_node_back_at_once(phase: str) -> None:
    world = a_world(the_rule())
    feed(world, 0, "a", hostEvent=ADVICE)
    feed(world, 10 * MINUTE, "a", hostEvent={**ADVICE, "phase": phase})
    at(world, 5 * MINUTE)
    assert cordoned(world)
    at(world, 15 * MINUTE)
    assert not cordoned(world) and world.jobs[0].phase.closed


def test_f09_a_kind_that_is_switched_off_does_nothing_at_all() -> None:
    world = a_world(the_rule(mode="Off"))
    feed(world, 0, "a", hostEvent=ADVICE)
    at(world, 2 * HOUR)
    assert ages(world) == [] and not cordoned(world)


def test_f09_a_cordon_that_was_there_before_the_advice_stays() -> None:
    world = a_world(the_rule())
    feed(world, 0, "a", cordon=True)
    feed(world, 10, "a", hostEvent=ADVICE)
    at(world, 3 * HOUR)
    assert world.jobs[0].phase.closed
    assert world.nodes["a"].spec.unschedulable
