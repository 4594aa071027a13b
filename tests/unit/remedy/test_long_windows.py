"""Windows of over a day: "three times in ten days", although Events are deleted after an hour."""

from datetime import datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.clock import T0
from support.remedy_hand import Hands
from support.rules_builders import a_node, a_rule
from support.rules_oracle import Oracle

from kubenode.api.v1alpha1.noderecord import MOST_PAST_EVENTS, EventMemory
from remedy.noderecord.events import from_stored, to_stored
from rules.diagnose import Diagnoser
from rules.history import EventWindow
from rules.program import compile_program
from rules.truth import Truth

HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LONG_AGO = T0 - 2 * DAY
RARE: dict[str, Any] = {"event": {"reason": "DiskReset", "count": 3, "within": "240h"}}


async def a_cluster(**rule: Any) -> Hands:
    hands = Hands()
    await hands.rule(when=RARE, **rule)
    hands.node(Ready=("True", LONG_AGO))
    return hands


def tells(hands: Hands, uid: str, *, count: int = 1, first: datetime | None = None) -> None:
    at = hands.clock.now()
    event = {
        "metadata": {"name": uid, "namespace": "default", "uid": uid},
        "involvedObject": {"kind": "Node", "name": "n1"},
        "reason": "DiskReset",
        "message": f"reset of {uid}",
        "firstTimestamp": (first or at).isoformat(),
        "lastTimestamp": at.isoformat(),
        "count": count,
    }
    hands.events.put(event)


async def looks(hands: Hands, pause: timedelta = HOUR) -> None:
    await hands.later(pause)
    await hands.record()


async def anew(hands: Hands) -> Hands:
    """After a restart of the operator, by which the API server has deleted all Events."""
    for name in list(hands.events.cache):
        hands.events.remove(name)
    again = Hands(hands.clock, hands)
    await again.operator.rules.reload()
    return again


async def test_three_events_in_ten_days_count_although_each_object_is_gone_and_we_restart() -> None:
    hands = await a_cluster()
    for day in range(3):
        assert not hands.made()
        tells(hands, f"e{day}")
        await looks(hands)
        hands = await anew(hands)
        await looks(hands, 3 * DAY)
    assert len(hands.made()) == 1


async def test_events_that_are_too_far_apart_do_not_count() -> None:
    hands = await a_cluster()
    for day in range(6):
        tells(hands, f"e{day}")
        await looks(hands)
        hands = await anew(hands)
        await looks(hands, 5 * DAY)
    assert not hands.made()


async def test_an_event_that_is_counted_is_not_counted_again_by_the_next_process() -> None:
    hands = await a_cluster()
    tells(hands, "e1", count=2, first=hands.clock.now() - HOUR)
    await looks(hands)
    for _ in range(3):
        again = Hands(hands.clock, hands)  # the object is still there
        await again.operator.rules.reload()
        await looks(again)
        hands = again
    assert not hands.made()
    tells(hands, "e1", count=3, first=T0 - HOUR)
    await looks(hands)
    assert len(hands.made()) == 1


async def test_a_standby_goes_by_what_the_last_leader_stored_and_by_what_it_heard_itself() -> None:
    leader = await a_cluster()
    standby = Hands(leader.clock, leader)
    for number in range(2):  # three days apart: the standby has forgotten the first
        tells(leader, f"e{number}")
        tells(standby, f"e{number}")
        await looks(leader)
        leader.clock.step(3 * DAY if number == 0 else HOUR)
    for name, record in leader.records.cache.items():
        standby.records._store.put(name, record)
    standby.current()
    await standby.operator.rules.reload()
    await looks(standby)
    assert not standby.made()  # the second one is stored, and was heard: it counts once
    tells(standby, "e2")
    await looks(standby)
    assert len(standby.made()) == 1


async def test_events_of_the_last_day_count_for_a_rule_that_is_loaded_later() -> None:
    hands = Hands()
    await hands.rule()
    hands.node(Ready=("True", LONG_AGO))
    for number in range(3):
        tells(hands, f"e{number}")
        await looks(hands)
    await hands.rule("rare", when=RARE)
    await looks(hands)
    assert len(hands.made()) == 1


async def test_nothing_is_stored_for_rules_whose_windows_are_short() -> None:
    hands = Hands()
    await hands.rule(when={"event": {"reason": "DiskReset", "count": 9, "within": "24h"}})
    hands.node(Ready=("True", LONG_AGO))
    tells(hands, "e1")
    await looks(hands)
    assert (await hands.record()).past_events is None


async def test_events_are_forgotten_with_the_record_and_with_the_machine() -> None:
    hands = await a_cluster()
    for number in range(2):
        tells(hands, f"e{number}")
        await looks(hands)
        hands.events.remove(f"e{number}")
    hands.records.remove("n1")
    tells(hands, "e2")
    await looks(hands)
    assert not hands.made()
    memory = (await hands.record()).past_events
    assert memory is not None
    assert [event.message for event in memory.events] == ["reset of e2"]


async def test_a_noisy_event_is_stored_once_a_minute_at_most() -> None:
    hands = await a_cluster(unless={"condition": {"type": "Ready"}})
    tells(hands, "e1", count=1)
    await looks(hands)
    before = hands.records.cache["n1"].metadata.resource_version
    for count in range(2, 60):
        tells(hands, "e1", count=count, first=T0)
        again = await hands.later(timedelta(seconds=1))
        await hands.record()
        assert again is not None
    after = hands.records.cache["n1"].metadata.resource_version
    assert int(after) - int(before) <= 1


def lasting() -> EventWindow:
    return EventWindow(lambda event: event.reason == "DiskReset")


def hear(window: EventWindow, uid: str, at: datetime, count: int = 1) -> None:
    told = {"reason": "DiskReset", "message": uid, "source": "", "severity": "Warning"}
    window.hear(uid, **told, count=count, at=at, first=at if count == 1 else None)  # type: ignore[arg-type]


def reopened(window: EventWindow, now: datetime) -> EventWindow:
    """As a restart leaves it."""
    memory = to_stored(window.lasting(now), lambda at: True)
    again = lasting()
    if memory is not None:
        read = EventMemory.model_validate_json(memory.model_dump_json(by_alias=True))
        again.recall(from_stored(read))
    return again


def test_memory_of_events_is_bounded_and_what_is_lost_makes_no_answer_false() -> None:
    window = lasting()
    for number in range(1000):
        hear(window, f"e{number}", T0 + number * timedelta(minutes=1))
    now = T0 + 1000 * timedelta(minutes=1)
    memory = to_stored(window.lasting(now), lambda at: True)
    assert memory is not None
    assert len(memory.events) <= MOST_PAST_EVENTS + 1
    assert len(memory.model_dump_json()) < 64_000
    assert evidence(reopened(window, now), now, 1000) is Truth.UNKNOWN


def evidence(window: EventWindow, now: datetime, count: int, within: str = "240h") -> Truth:
    """What the engine says, and the oracle with it."""
    event = {"reason": "DiskReset", "count": count, "within": within}
    rule = a_rule("rare@1", when={"event": event})
    diagnoser, facts = Diagnoser(), a_node(events=window.facts(now))
    assert not diagnoser.load([rule]).rejected
    (match,) = diagnoser.diagnose([facts], now)[0].matches
    assert match.evidence is Truth.of(Oracle([rule], facts, now).evidence(rule))
    return match.evidence


MOVES = st.lists(
    st.tuples(st.sampled_from(["hear", "again", "restart", "wait"]), st.integers(1, 400)),
    max_size=40,
)


@settings(deadline=None, max_examples=150)
@given(MOVES, st.integers(1, 6))
@pytest.mark.exhaustive
def test_no_answer_contradicts_what_occurred_whenever_we_restart(
    moves: list[tuple[str, int]], count: int
) -> None:
    window, now = lasting(), T0
    occurred: list[datetime] = []
    told: dict[str, int] = {}
    for kind, hours in moves:
        now += timedelta(hours=hours) / 4
        if kind == "hear":
            uid = f"e{len(told)}"
            told[uid] = 1
            hear(window, uid, now)
            occurred.append(now)
        elif kind == "again" and told:
            uid = sorted(told)[-1]
            told[uid] += 1
            hear(window, uid, now, told[uid])
            occurred.append(now)
        elif kind == "restart":
            window = reopened(window, now)
        sure = sum(now - timedelta(hours=240) < at <= now for at in occurred)
        truth = evidence(window, now, count)
        assert truth is Truth.UNKNOWN or (truth is Truth.TRUE) is (sure >= count)


@pytest.mark.parametrize(
    ("when", "refused"),
    [
        ({"event": {"reason": "X", "within": "720h"}}, False),
        ({"event": {"reason": "X", "within": "721h"}}, True),
        ({"absent": {"event": {"reason": "X", "within": "12h"}, "for": "12h"}}, False),
        ({"absent": {"event": {"reason": "X", "within": "24h"}, "for": "1h"}}, True),
    ],
)
def test_windows_longer_than_what_is_remembered_are_refused(
    when: dict[str, Any], refused: bool
) -> None:
    assert bool(compile_program([a_rule("r@1", when=when)]).rejected) is refused
