"""The limit on nodes that a new rule may match holds at load too: the webhook may be away."""

import asyncio
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0, settle
from support.remedy_hand import RULE, Hands
from support.revisions_world import Operator, RevisionApi
from support.running import running
from support.size_limit import bounded

from remedy.registry.registry import RECOUNT_SECONDS

SINCE = T0 - timedelta(minutes=5)
LABEL = [{"name": "mark", "steps": [{"label": {"key": "kubenode.io/suspect"}}]}]
TELL = [{"name": "tell", "steps": [{"notify": {"message": "look"}}]}]
ACCEPT = "kubenode.io/accept-blast-radius"


def fleet(hands: Hands, sick: int, size: int = 30) -> None:
    for n in range(size):
        hands.node(f"n{n}", Sick=("True" if n < sick else "False", SINCE))


@pytest.fixture
def hands(threads: ThreadPoolExecutor) -> Hands:
    return bounded(Hands(), threads)


def active(hands: Hands) -> list[str]:
    return sorted(hands.operator.rules.active())


def why(hands: Hands, name: str = "runtime") -> str:
    return hands.operator.rules.standing(hands.remediers.cache[name]).why


@pytest.mark.parametrize("ladder", [RULE["ladder"], LABEL, TELL], ids=["host", "label", "tell"])
async def test_a_new_rule_of_any_class_over_the_limit_is_not_loaded_and_says_why(
    hands: Hands, ladder: list[dict[str, Any]]
) -> None:
    fleet(hands, sick=30)
    await hands.rule("other", when={"condition": {"type": "Odd"}})
    await hands.rule(ladder=ladder)
    assert active(hands) == ["other@1"]
    assert why(hands).startswith("spec.when: it would match more than 10% of the nodes")
    assert "set annotation kubenode.io/accept-blast-radius" in why(hands)
    assert hands.operator.rules.standing(hands.remediers.cache["runtime"]).phase == "Rejected"
    assert "RuleRejected" in hands.events_told()


@pytest.mark.parametrize(("sick", "loaded"), [(3, True), (4, False)])
async def test_a_tenth_of_the_fleet_is_the_limit(hands: Hands, sick: int, loaded: bool) -> None:
    fleet(hands, sick)
    await hands.rule()
    assert bool(active(hands)) is loaded


@pytest.mark.parametrize("mode", ["DryRun", "Approve"])
async def test_a_rule_that_does_nothing_by_itself_is_loaded(hands: Hands, mode: str) -> None:
    fleet(hands, sick=30)
    await hands.rule(mode=mode)
    assert active(hands) == ["runtime@1"]


@pytest.mark.parametrize(("accept", "loaded"), [("30", True), ("29", False), ("all", False)])
async def test_the_authors_word_lets_it_load_also_when_it_comes_later(
    hands: Hands, accept: str, loaded: bool
) -> None:
    fleet(hands, sick=30)
    await hands.rule()
    rule, rules = hands.remediers.cache["runtime"].to_dict(), hands.operator.rules
    rules._dirty.clear()
    metadata = {**rule["metadata"], "annotations": {ACCEPT: accept}}
    hands.remediers.put({**rule, "metadata": metadata})
    assert rules._dirty.is_set(), "a change of the word alone is looked at"
    await rules.reload()
    assert bool(active(hands)) is loaded


@pytest.mark.parametrize(("by", "who"), [("bob", "bob"), ("", "somebody")])
async def test_an_acceptance_is_told_once_and_from_the_stored_rule(
    hands: Hands, by: str, who: str
) -> None:
    fleet(hands, sick=30)
    await hands.rule()
    rule, rules = hands.remediers.cache["runtime"].to_dict(), hands.operator.rules
    signed = {ACCEPT: "30", **({"kubenode.io/accepted-by": by} if by else {})}
    hands.remediers.put({**rule, "metadata": {**rule["metadata"], "annotations": signed}})
    pending_events(hands)
    await rules.reload()
    [(reason, message)] = pending_events(hands)
    assert reason == "BlastRadiusAccepted"
    assert message.startswith(f"{who} accepted with {ACCEPT}: 30 that rule runtime would match 30")
    await rules.reload()
    assert pending_events(hands) == []


async def test_an_acceptance_that_nothing_needs_is_not_told(hands: Hands) -> None:
    fleet(hands, sick=3)
    await hands.rule(mode="Off")
    rule = hands.remediers.cache["runtime"].to_dict()
    metadata = {**rule["metadata"], "annotations": {ACCEPT: "30"}, "generation": 2}
    hands.remediers.put({**rule, "metadata": metadata, "spec": {**rule["spec"], "mode": "Enforce"}})
    await hands.operator.rules.reload()
    assert active(hands) == ["runtime@2"] and pending_events(hands) == []


def pending_events(hands: Hands) -> list[tuple[str, str]]:
    """Reason and message of the Events that wait to be written, taken out."""
    pending = hands.operator.recorder._pending
    found = [pending.get_nowait() for _ in range(pending.qsize())]
    return [(event["reason"], event["message"]) for event in found]


async def test_the_last_good_version_stays_where_the_new_one_is_too_wide(hands: Hands) -> None:
    fleet(hands, sick=30)
    await hands.rule(when={"condition": {"type": "Odd"}})
    await hands.rule(generation=2)
    assert active(hands) == ["runtime@1"] and why(hands)


async def test_a_good_rule_that_matches_a_whole_fleet_later_goes_on_also_after_a_restart(
    threads: ThreadPoolExecutor,
) -> None:
    api = RevisionApi()
    process = Operator(api)
    bounded(process.hands, threads)
    fleet(process.hands, sick=0)
    process.write(1)
    await process.turn()
    fleet(process.hands, sick=30)
    await process.turn()
    assert process.active() == ["runtime@1"] and not why(process.hands)
    restarted = Operator(api, process)
    bounded(restarted.hands, threads)
    await restarted.turn()
    assert restarted.active() == ["runtime@1"] and not why(restarted.hands)


async def test_a_fact_is_held_by_the_rules_that_act_on_it(hands: Hands) -> None:
    fleet(hands, sick=30)
    fact: dict[str, Any] = {"ladder": None, "infer": {"fact": "my.fact"}}
    await hands.rule("base", when={"condition": {"type": "Odd"}}, **fact)
    await hands.rule("reader", when={"fact": {"name": "my.fact"}})
    assert active(hands) == ["base@1", "reader@1"]
    await hands.rule("base", generation=2, **fact)
    assert active(hands) == ["base@1", "reader@1"]
    assert "rule reader, which reads its fact, would match" in why(hands, "base")


async def test_while_the_fleet_is_not_known_a_new_rule_that_acts_waits(hands: Hands) -> None:
    fleet(hands, sick=0)
    hands.current(False)
    await hands.rule()
    assert active(hands) == [] and "not known yet" in why(hands)
    hands.current()
    await hands.operator.rules.reload()
    assert active(hands) == ["runtime@1"]


async def pass_a_second(hands: Hands, threads: ThreadPoolExecutor) -> None:
    """Let a second pass: the caches stay current, and no thread counts at its end."""
    hands.current()
    await hands.clock.advance(timedelta(seconds=1))
    await asyncio.get_running_loop().run_in_executor(threads, int)
    await settle()


async def test_a_held_rule_is_counted_again_and_loaded_once_fewer_nodes_match(
    hands: Hands, threads: ThreadPoolExecutor
) -> None:
    fleet(hands, sick=30)
    await hands.rule()
    held = timedelta(seconds=RECOUNT_SECONDS)
    loads: list[datetime] = []
    hands.operator.rules.on_load.append(lambda: loads.append(hands.clock.now()))
    async with running(hands.operator.rules.run()), asyncio.timeout(60):
        # What the first load wrote may lead to another; then the count alone is left to cause one.
        while len(loads) < 2 or loads[-1] - loads[-2] < held:
            await pass_a_second(hands, threads)
        assert active(hands) == []
        fleet(hands, sick=1)
        before = len(loads)
        while len(loads) == before:
            await pass_a_second(hands, threads)
    assert active(hands) == ["runtime@1"]
    assert loads[before] - loads[before - 1] >= held
