"""absent event: no window of the time asked about had enough occurrences."""

from datetime import datetime

from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import a_condition, a_node, seconds

from kubenode.api.v1alpha1 import Expression
from rules.atoms import LeafReading, read
from rules.facts import EventFact
from rules.truth import Truth

WITHIN, FOR = 60, 40


def an_event(at: float, count: int = 1, first: float | None = None) -> EventFact:
    began = None if first is None else T0 + seconds(first)
    return EventFact("Oops", "text", "kernel-monitor", "Warning", count, T0 + seconds(at), began)


def absent(events: list[EventFact], now: float, count: int) -> LeafReading:
    event = {"reason": "Oops", "count": count, "within": f"{WITHIN}s"}
    leaf = Expression.model_validate({"absent": {"event": event, "for": f"{FOR}s"}}).leaf
    assert leaf is not None
    instant = T0 + seconds(now)
    living = (a_condition("Ready", heard=instant), a_condition("Deadlock", "False", heard=instant))
    facts = a_node(*living, events=tuple(events), watched=T0 - seconds(86_400))
    return read(leaf, facts, instant)


def truly(occurrences: list[int], now: int, count: int) -> bool:
    """Looks at every second of the time asked about, and at the instants between."""
    instants = [now - FOR + n / 2 for n in range(2 * FOR + 1)]
    return all(sum(t - WITHIN < at <= t for at in occurrences) < count for t in instants)


@given(st.lists(st.integers(0, 200), max_size=8), st.integers(1, 4), st.integers(0, 320))
def test_absence_of_single_events_is_what_looking_at_every_second_gives(
    history: list[int], count: int, now: int
) -> None:
    told = [at for at in history if at <= now]
    found = absent([an_event(at) for at in told], now, count)
    assert found.truth is Truth.of(truly(told, now, count))


@given(
    st.lists(st.lists(st.integers(0, 200), min_size=1, max_size=4), max_size=4),
    st.integers(1, 5),
    st.integers(0, 320),
)
def test_absence_of_aggregated_events_is_never_claimed_wrongly(
    histories: list[list[int]], count: int, now: int
) -> None:
    """Each list is the times of one Event, of which only the first and the last are told."""
    known = [h for h in histories if max(h) <= now]
    found = absent([an_event(max(h), len(h), first=min(h)) for h in known], now, count)
    if found.truth is not Truth.UNKNOWN:
        assert found.truth is Truth.of(truly([at for h in known for at in h], now, count))


@given(st.lists(st.integers(0, 200), max_size=8), st.integers(1, 4), st.integers(0, 320))
def test_absence_does_not_change_before_it_said_so(
    history: list[int], count: int, now: int
) -> None:
    events = [an_event(at) for at in history if at <= now]
    first = absent(events, now, count)
    alive: datetime = T0 + seconds(now + 900)
    assert first.flips_at is not None
    for later in range(now, now + 150, 5):
        if T0 + seconds(later) < min(first.flips_at, alive):
            assert absent(events, later, count).truth is first.truth


def test_occurrences_of_nobody_knows_what_keep_absence_open() -> None:
    lost = EventFact("", "", "", "", 9, T0, forgotten=True)
    assert absent([lost], 99, 3).truth is Truth.UNKNOWN
    assert absent([lost], 100, 3).truth is Truth.TRUE
    assert absent([lost], 70, 10).truth is Truth.TRUE
