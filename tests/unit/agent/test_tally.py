"""Events are counted, bounded, and what was left out is owned up to."""

from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0

from agent.detectors import EventReport, EventSeverity
from agent.nodestatus.tally import COMBINED, EVENTS_DROPPED, SIMILAR, EventEntry, EventTally

SECOND = timedelta(seconds=1)


def report(message: str = "m", reason: str = "TaskHung", after: int = 0) -> EventReport:
    at = T0 + after * SECOND
    return EventReport(reason, message, EventSeverity.WARNING, at, "kernel-monitor")


def put(tally: EventTally, made: EventReport) -> EventEntry:
    return tally.put(made, T0 + timedelta(hours=3))


def test_the_same_again_is_a_count_with_the_first_and_the_last_time() -> None:
    tally = EventTally()
    for after in (0, 7, 3):
        put(tally, report(after=after))
    (entry,) = tally.waiting()
    assert (entry.count, entry.first, entry.last) == (3, T0, T0 + 7 * SECOND)


def test_what_was_told_is_counted_on_and_forgotten_after_an_hour() -> None:
    tally = EventTally()
    first = put(tally, report())
    tally.mark_published(first, 1)
    assert tally.waiting() == []
    assert put(tally, report(after=60)) is first
    assert (first.count, first.told) == (2, 1)
    tally.mark_published(first, 2)
    later = put(tally, report(after=3600))
    assert later is not first and later.name != first.name and later.count == 1


def test_what_is_counted_while_it_is_told_still_waits() -> None:
    tally = EventTally()
    entry = put(tally, report())
    put(tally, report(after=1))
    tally.mark_published(entry, 1)
    assert tally.waiting() == [entry]


def test_many_messages_of_one_reason_become_one_entry_with_the_newest() -> None:
    tally = EventTally()
    for number in range(SIMILAR + 5):
        put(tally, report(f"task {number} hung", after=number))
    entries = tally.waiting()
    assert len(entries) == SIMILAR + 1
    assert (entries[-1].message, entries[-1].count) == (COMBINED + "task 14 hung", 5)


def test_what_is_too_much_is_left_out_counted_and_told() -> None:
    tally = EventTally(most_waiting=3)
    for number in range(5):
        put(tally, report(reason=f"R{number}", after=number))
    assert [e.reason for e in tally.waiting()] == ["R2", "R3", "R4"]
    tally.own_up("kubenode-agent")
    first, *others = tally.waiting()
    assert first.reason == EVENTS_DROPPED
    assert first.message.startswith("2 events of this node between 2026-01-01T12:00:00Z and ")
    assert [e.reason for e in others] == ["R3", "R4"]
    assert tally.dropped.count == 1


def test_no_event_is_in_the_future() -> None:
    entry = EventTally().put(report(after=9), T0)
    assert entry.first == entry.last == T0


_REPORTS = st.lists(
    st.builds(
        report,
        message=st.sampled_from(["a", "b", "x" * 2000, "\0", COMBINED]) | st.text(max_size=5),
        reason=st.sampled_from(["R1", "R2", ""]),
        after=st.integers(0, 9000),
    ),
    max_size=60,
)


@given(reports=_REPORTS, told=st.lists(st.booleans(), max_size=60))
def test_nothing_is_lost_without_being_counted(
    reports: list[EventReport], told: list[bool]
) -> None:
    tally, heard = EventTally(most_waiting=4), 0
    for number, one in enumerate(reports):
        put(tally, one)
        waiting = tally.waiting()
        if waiting and number < len(told) and told[number]:
            heard += waiting[0].count - waiting[0].told
            tally.mark_published(waiting[0], waiting[0].count)
        assert len(tally.waiting()) <= 4
    waits = sum(entry.count - entry.told for entry in tally.waiting())
    assert heard + waits + tally.dropped.count == len(reports)
