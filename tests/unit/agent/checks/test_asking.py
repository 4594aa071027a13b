"""When a finding becomes a condition, and that no check ends the agent."""

import asyncio
from collections.abc import Sequence
from datetime import timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import FakeClock, settle
from support.watched import Heard

from agent.detectors import NOT_LOOKED_AT, ReportedStatus
from agent.detectors.checks import CANNOT_RUN, Finding, Findings
from agent.detectors.checks.detector import CheckDetector, Turns
from agent.detectors.checks.steady import UNSEEN, Rounds, SteadyFinding, is_exceeded, weigh
from agent.probes import CannotAnswer

BAD, WELL, UNSURE = (
    Finding(True, "Bad", "it is bad"),
    Finding(False, "Well", "it is well"),
    Finding(None, "Unsure", "nobody knows"),
)


def told(rounds: Rounds, *findings: Finding) -> list[bool | None]:
    held, found = SteadyFinding(), []
    for finding in findings:
        held = weigh(held, finding, rounds)
        found.append(held.last.faulty)
    return found


def test_a_fault_and_its_end_take_their_looks_in_a_row() -> None:
    rounds = Rounds(to_set=3, to_clear=2)
    assert told(rounds, WELL, BAD, BAD, BAD) == [False, False, False, True]
    assert told(rounds, WELL, BAD, BAD, WELL, BAD, BAD) == [False] * 6
    assert told(rounds, BAD, BAD, BAD, WELL, BAD, WELL, WELL)[2:] == [True] * 4 + [False]


def test_what_cannot_be_told_for_a_moment_takes_nothing_back() -> None:
    rounds = Rounds(to_set=2, to_clear=2)
    assert told(rounds, BAD, BAD, UNSURE, BAD, UNSURE, UNSURE) == [None, *[True] * 4, None]


def test_the_first_look_that_finds_nothing_says_so_at_once() -> None:
    assert told(Rounds(3, 3), WELL) == [False]
    assert told(Rounds(3, 3), BAD) == [None]


def test_a_message_does_not_tick_but_a_new_reason_is_told() -> None:
    held = weigh(SteadyFinding(), Finding(True, "Full", "91 %"), Rounds())
    assert weigh(held, Finding(True, "Full", "92 %"), Rounds()).last.message == "91 %"
    assert weigh(held, Finding(True, "Inodes", "99 %"), Rounds()).last.reason == "Inodes"


@given(st.lists(st.sampled_from([BAD, WELL, UNSURE])), st.integers(1, 4), st.integers(1, 4))
def test_no_status_is_told_that_the_last_look_did_not_find(
    looks: list[Finding], to_set: int, to_clear: int
) -> None:
    held = SteadyFinding()
    for finding in looks:
        after = weigh(held, finding, Rounds(to_set, to_clear))
        assert after.last in (held.last, finding)
        if after.last.faulty is not held.last.faulty:
            assert after.last is finding
        held = after
    assert looks or held.last is UNSEEN


def test_a_limit_that_was_exceeded_is_left_well_below_it() -> None:
    assert [is_exceeded(value, 90, False, 5) for value in (89.9, 90.0)] == [False, True]
    assert [is_exceeded(value, 90, True, 5) for value in (85.0, 84.9)] == [True, False]


class Scripted:
    """Implements Check: answers in turn, the last one for ever."""

    name, conditions = "scripted", ("Thing",)

    def __init__(self, answers: Sequence[Finding | Exception]) -> None:
        self.answers, self.looks = list(answers), 0

    async def inspect(self) -> Findings:
        self.looks += 1
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return {"Thing": answer}


async def watched(check: Scripted, steps: int, wake: asyncio.Event | None = None) -> Heard:
    clock, heard = FakeClock(), Heard()
    detector = CheckDetector(check, Turns(clock), 60.0, wake=wake)
    async with asyncio.TaskGroup() as tasks:
        running = tasks.create_task(detector.run(heard))
        await settle()
        for _ in range(steps):
            if wake is not None:
                wake.set()
            await clock.advance(timedelta(seconds=5))
            await clock.advance(timedelta(seconds=6 if wake else 66))
        running.cancel()
    return heard


async def test_nothing_is_known_before_the_first_look() -> None:
    heard = await watched(Scripted([BAD, WELL]), 1)
    assert heard.history("Thing") == [
        (ReportedStatus.UNKNOWN, NOT_LOOKED_AT),
        (ReportedStatus.TRUE, "Bad"),
        (ReportedStatus.FALSE, "Well"),
    ]


@pytest.mark.parametrize("error", [CannotAnswer("no tool"), ZeroDivisionError("no tool")])
async def test_f01_a_check_that_fails_is_unknown_with_an_event_and_goes_on(
    error: Exception,
) -> None:
    heard = await watched(Scripted([BAD, error, error, WELL]), 3)
    assert heard.history("Thing")[1:] == [
        (ReportedStatus.TRUE, "Bad"),
        (ReportedStatus.UNKNOWN, CANNOT_RUN),
        (ReportedStatus.FALSE, "Well"),
    ]
    (event,) = heard.events
    assert event.reason == CANNOT_RUN
    assert "no tool" in event.message


async def test_what_is_watched_wakes_the_check_before_its_interval() -> None:
    check = Scripted([WELL])
    await watched(check, 4, asyncio.Event())
    assert check.looks >= 4  # in 44 s of an interval of 60


async def test_only_a_few_look_at_once() -> None:
    clock, most, now = FakeClock(), 0, 0
    turns = Turns(clock, at_once=2)

    async def work() -> None:
        nonlocal most, now
        now += 1
        most = max(most, now)
        await asyncio.sleep(0)
        now -= 1

    await asyncio.gather(*(turns.take(work) for _ in range(10)))
    assert most == 2


def test_intervals_differ_by_a_tenth() -> None:
    pauses = {round(Turns(FakeClock()).pause(100.0), 3) for _ in range(50)}
    assert len(pauses) > 10
    assert all(90 <= pause <= 110 for pause in pauses)
