"""A rule that acts without a permit marks a bounded number of nodes at once, also at run time.

Kube Defender does not count its nodes: a rule that was small when it was loaded may match a fleet.
"""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_hand import RULE, Hands
from support.size_limit import bounded

from kubenode.cli.rules_outlook import waits_of
from remedy.registry.status import is_crowded, status_of
from remedy.remedier.decide import RuleWait, WaitReason

SINCE = T0 - timedelta(minutes=5)
LABEL = {"name": "mark", "steps": [{"label": {"key": "kubenode.io/suspect"}}]}
TELL = {"name": "tell", "steps": [{"notify": {"message": "look"}}]}
HAND = {"name": "hand", "steps": [{"createObject": {"template": "t"}}]}
ACCEPT = "kubenode.io/accept-blast-radius"


@pytest.fixture
def hands(threads: ThreadPoolExecutor) -> Hands:
    return bounded(Hands(), threads)


def fleet(hands: Hands, sick: int, size: int = 50) -> None:
    for n in range(size):
        hands.node(f"n{n:02}", Sick=("True" if n < sick else "False", SINCE))


async def decide(hands: Hands) -> None:
    """Every node is judged twice: a node that is held is looked at again."""
    for _ in range(2):
        for name in list(hands.nodes.cache):
            await hands.decide(name)


def marked(hands: Hands) -> int:
    return len(hands.jobs.cache)


async def grown(hands: Hands, sick: int, **spec: Any) -> None:
    """A rule that matched no node when it was loaded, and then as many as `sick`."""
    fleet(hands, sick=0)
    await hands.rule(**{"when": {"condition": {"type": "Sick"}}, "groupWait": "0s", **spec})
    await decide(hands)
    fleet(hands, sick)
    await decide(hands)


@pytest.mark.parametrize("rung", [LABEL, HAND], ids=["label", "createObject"])
async def test_a_rule_of_class_none_marks_a_tenth_of_the_fleet_at_most(
    hands: Hands, rung: dict[str, Any]
) -> None:
    await grown(hands, sick=50, ladder=[rung])
    assert marked(hands) == 5


@pytest.mark.exhaustive
async def test_people_are_told_of_every_node(hands: Hands) -> None:
    await grown(hands, sick=50, ladder=[TELL])
    assert marked(hands) == 50


async def test_within_the_limit_every_node_is_marked(hands: Hands) -> None:
    await grown(hands, sick=5, ladder=[LABEL])
    assert marked(hands) == 5


async def test_three_nodes_are_marked_in_a_fleet_of_any_size(hands: Hands) -> None:
    fleet(hands, sick=0, size=4)
    await hands.rule(when={"condition": {"type": "Sick"}}, groupWait="0s", ladder=[LABEL])
    await decide(hands)
    fleet(hands, sick=4, size=4)
    await decide(hands)
    assert marked(hands) == 3


async def test_a_mark_below_a_rung_with_a_permit_is_bounded_too(hands: Hands) -> None:
    await grown(hands, sick=50, ladder=[LABEL, RULE["ladder"][0]])
    assert marked(hands) == 5


async def test_kube_defender_bounds_rules_that_ask_it(hands: Hands) -> None:
    await grown(hands, sick=50)
    assert marked(hands) == 50


async def test_a_rule_goes_on_once_fewer_nodes_match(hands: Hands) -> None:
    await grown(hands, sick=50, ladder=[LABEL])
    for job in list(hands.jobs.cache):
        hands.jobs.remove(job)
    for n in range(50):
        hands.node(f"n{n:02}", Sick=("True" if n in (7, 40) else "False", SINCE))
    await decide(hands)
    assert {job.spec.node_name for job in hands.jobs.cache.values()} == {"n07", "n40"}


@pytest.mark.exhaustive
async def test_an_accepted_number_is_the_limit_without_a_new_generation(hands: Hands) -> None:
    await grown(hands, sick=50, ladder=[LABEL])
    rule = hands.remediers.cache["runtime"].to_dict()
    hands.remediers.put({**rule, "metadata": {**rule["metadata"], "annotations": {ACCEPT: "50"}}})
    await decide(hands)
    assert marked(hands) == 50


async def test_nodes_that_are_not_judged_since_a_restart_count_as_matching(
    hands: Hands, threads: ThreadPoolExecutor
) -> None:
    """Each restart would let a tenth of the fleet more through."""
    await grown(hands, sick=50, ladder=[LABEL])
    after = Hands(hands.clock, store=hands)
    after.operator.rules._now = hands.operator.rules._now
    after.operator.rules._first = False
    bounded(after, threads)
    await after.operator.rules.reload()
    assert list(after.operator.rules.active()) == ["runtime@1"]
    for name in reversed(list(after.nodes.cache)):
        await after.decide(name)
    assert marked(after) == 5


async def test_a_node_that_is_gone_stands_for_none_that_is_new(hands: Hands) -> None:
    await grown(hands, sick=0, ladder=[LABEL])
    for name in list(hands.nodes.cache):
        hands.nodes.remove(name)
        await hands.decide(name)
    for n in range(50):
        hands.node(f"m{n:02}", Sick=("True", SINCE))
    await decide(hands)
    assert marked(hands) == 0


async def test_the_reason_is_in_the_status_and_in_explain(hands: Hands) -> None:
    await grown(hands, sick=50, ladder=[LABEL])
    rules, stored = hands.operator.rules, hands.remediers.cache["runtime"]
    status = status_of(stored, rules.standing(stored), hands.clock.now())
    (condition,) = (c for c in status.conditions if c.type == "SafeSize")
    assert (condition.status, condition.reason) == ("False", "MarksTooMany")
    assert ACCEPT in condition.message
    stored = stored.model_copy(update={"status": status})
    assert is_crowded(stored)
    told = waits_of([RuleWait("runtime", WaitReason.BLAST_RADIUS)])["runtime"]
    assert (
        told.text.startswith("BlastRadius: the rule acts without a permit") and ACCEPT in told.text
    )
