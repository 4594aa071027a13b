from datetime import datetime
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import a_condition, a_node, seconds

from kubenode.api.v1alpha1 import Expression
from rules.atoms import LeafReading, read
from rules.facts import EventFact, FactSet
from rules.truth import Truth


def leaf(**parts: Any) -> Any:
    return Expression.model_validate(parts).leaf


def reading(facts: FactSet, now: datetime = T0, **parts: Any) -> LeafReading:
    return read(leaf(**parts), facts, now)


HELD = {"type": "Fault", "for": "30s"}


@pytest.mark.parametrize(
    ("after", "truth"), [(29, Truth.FALSE), (30, Truth.TRUE), (31, Truth.TRUE)]
)
def test_condition_counts_once_it_was_held_for_its_time(after: int, truth: Truth) -> None:
    found = reading(a_node(a_condition()), T0 + seconds(after), condition=HELD)
    assert found.truth is truth


def test_young_condition_names_the_moment_at_which_it_counts() -> None:
    found = reading(a_node(a_condition()), T0 + seconds(10), condition=HELD)
    assert found.flips_at == T0 + seconds(30)


@pytest.mark.parametrize(
    ("age", "truth"), [(899, Truth.TRUE), (900, Truth.UNKNOWN), (901, Truth.UNKNOWN)]
)
def test_f02_condition_not_heard_from_is_unknown(age: int, truth: Truth) -> None:
    assert (
        reading(a_node(a_condition()), T0 + seconds(age), condition={"type": "Fault"}).truth
        is truth
    )


def test_f02_latched_condition_does_not_match_without_fresh_reports() -> None:
    latched = a_condition(since=T0, heard=T0)
    hours_later = T0 + seconds(3 * 3600)
    assert reading(a_node(latched), hours_later, condition={"type": "Fault"}).truth is Truth.UNKNOWN


def test_stale_cache_makes_every_fed_leaf_unknown() -> None:
    stale = a_node(a_condition(), labels={"a": "b"}, values={"node.ready": True}, fresh=False)
    for parts in (
        {"condition": {"type": "Fault"}},
        {"label": {"key": "a"}},
        {"fact": {"name": "node.ready"}},
        {"event": {"reason": "Oops"}},
    ):
        assert reading(stale, T0, **parts).truth is Truth.UNKNOWN


def test_condition_of_unknown_status_is_neither_true_nor_false() -> None:
    node = a_node(a_condition(status="Unknown"))
    assert reading(node, condition={"type": "Fault"}).truth is Truth.UNKNOWN
    assert reading(node, condition={"type": "Fault", "status": "Unknown"}).truth is Truth.TRUE
    known = a_node(a_condition(status="True"))
    assert reading(known, condition={"type": "Fault", "status": "Unknown"}).truth is Truth.FALSE


def test_never_reported_condition_is_unknown() -> None:
    assert reading(a_node(), condition={"type": "Fault"}).truth is Truth.UNKNOWN


def test_reason_and_message_are_searched_by_re2() -> None:
    node = a_node(a_condition(reason="DockerHung", message="task docker:7 blocked"))
    for wanted, truth in (("^Docker", Truth.TRUE), ("kubelet", Truth.FALSE)):
        assert reading(node, condition={"type": "Fault", "reason": wanted}).truth is truth
    assert reading(node, condition={"type": "Fault", "message": r"docker:\d+"}).truth is Truth.TRUE


def an_event(at: float, count: int = 1, first: float | None = None) -> EventFact:
    began = None if first is None else T0 + seconds(first)
    return EventFact("Oops", "text", "kernel-monitor", "Warning", count, T0 + seconds(at), began)


def occurred(events: list[EventFact], at: float, count: int) -> LeafReading:
    wanted = {"reason": "Oops", "count": count, "within": "60s"}
    return reading(a_node(events=tuple(events)), T0 + seconds(at), event=wanted)


def test_events_count_within_a_sliding_window() -> None:
    three = [an_event(0), an_event(10), an_event(20)]
    assert occurred(three, 20, 3).truth is Truth.TRUE
    assert occurred(three, 59, 3).truth is Truth.TRUE
    assert occurred(three, 60, 3).truth is Truth.FALSE
    assert occurred(three, 20, 3).flips_at == T0 + seconds(60)


def test_aggregated_event_counts_as_often_as_it_says() -> None:
    assert occurred([an_event(0, count=3)], 1, 3).truth is Truth.TRUE
    assert occurred([an_event(0, count=3)], 1, 4).truth is Truth.FALSE


def test_occurrences_that_began_before_the_window_are_not_all_counted() -> None:
    """17 in two hours, the last a moment ago: how many in the last minute nobody knows."""
    straddling = [an_event(0, count=17, first=-7200)]
    assert occurred(straddling, 10, 3).truth is Truth.UNKNOWN
    assert occurred(straddling, 10, 1).truth is Truth.TRUE
    assert occurred(straddling, 10, 18).truth is Truth.FALSE
    assert occurred(straddling, 60, 3).truth is Truth.FALSE
    within = [an_event(0, count=17, first=-30)]
    assert occurred(within, 10, 17).truth is Truth.TRUE
    assert occurred(within, 10, 17).flips_at == T0 + seconds(30)
    assert occurred(within, 30, 17).truth is Truth.UNKNOWN


def test_occurrences_of_nobody_knows_what_make_an_answer_unknown_only() -> None:
    lost = EventFact("", "", "", "", 9, T0, forgotten=True)
    assert occurred([lost], 10, 3).truth is Truth.UNKNOWN
    assert occurred([lost, an_event(0, 3)], 10, 3).truth is Truth.TRUE
    assert occurred([lost], 10, 10).truth is Truth.FALSE
    assert occurred([lost], 60, 3).truth is Truth.FALSE


@given(
    st.lists(st.lists(st.integers(0, 100), min_size=1, max_size=4), max_size=5),
    st.integers(1, 8),
    st.integers(0, 200),
)
def test_aggregated_events_are_never_counted_wrongly(
    histories: list[list[int]], wanted: int, now: int
) -> None:
    """Each list is the times of one Event, of which only the first and the last are told."""
    told = [an_event(max(h), len(h), first=min(h)) for h in histories if max(h) <= now]
    truly = sum(now - 60 < at for h in histories if max(h) <= now for at in h)
    assert occurred(told, now, wanted).truth in (Truth.of(truly >= wanted), Truth.UNKNOWN)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 4)), max_size=8),
    st.integers(1, 8),
    st.integers(0, 200),
)
def test_event_window_is_what_counting_by_hand_gives(
    history: list[tuple[int, int]], wanted: int, now: int
) -> None:
    found = occurred([an_event(at, count) for at, count in history], now, wanted)
    total = sum(count for at, count in history if now - 60 < at <= now)
    assert found.truth is Truth.of(total >= wanted)


@given(
    st.lists(st.tuples(st.integers(0, 100), st.integers(1, 4)), min_size=1, max_size=8),
    st.integers(1, 8),
    st.integers(0, 100),
)
def test_answer_does_not_change_before_it_said_so(
    history: list[tuple[int, int]], wanted: int, now: int
) -> None:
    events = [an_event(at, count, first=at - 9 * count) for at, count in history if at <= now]
    first = occurred(events, now, wanted)
    for later in range(now, now + 70):
        if first.flips_at is None or T0 + seconds(later) < first.flips_at:
            assert occurred(events, later, wanted).truth is first.truth
    if first.flips_at is not None:
        after = (first.flips_at - T0).total_seconds()
        assert occurred(events, after, wanted).truth is not first.truth


def test_labels_taints_and_annotations_compare() -> None:
    node = a_node(labels={"pool": "gpu"}, annotations={"a": ""}, taints={"t": "x"})
    assert reading(node, label={"key": "pool", "value": "gpu"}).truth is Truth.TRUE
    assert reading(node, label={"key": "pool", "in": ["cpu"]}).truth is Truth.FALSE
    assert reading(node, annotation={"key": "a"}).truth is Truth.TRUE
    assert reading(node, taint={"key": "t", "exists": False}).truth is Truth.FALSE


def test_unknown_fact_and_misfit_comparison_are_unknown() -> None:
    node = a_node(values={"node.kernel": "6.1", "node.age": 5.0, "node.ready": None})
    assert reading(node, fact={"name": "node.ready"}).truth is Truth.UNKNOWN
    assert reading(node, fact={"name": "node.gpuCount", "above": 1}).truth is Truth.UNKNOWN
    assert reading(node, fact={"name": "node.kernel", "above": 1}).truth is Truth.UNKNOWN
    assert reading(node, fact={"name": "node.age", "below": 6}).truth is Truth.TRUE
    assert reading(node, fact={"name": "node.kernel", "equals": "6.1"}).truth is Truth.TRUE


def test_leaves_that_nothing_feeds_are_unknown() -> None:
    for parts in (
        {"absent": {"hostEvent": {"class": "Reboot"}}},
        {"alert": {"name": "Disk"}},
        {"probe": {"name": "disk.used_pct", "above": 90}},
    ):
        assert reading(a_node(), **parts).truth is Truth.UNKNOWN


@pytest.mark.parametrize(("after", "truth"), [(29, Truth.FALSE), (30, Truth.TRUE)])
def test_absence_counts_once_it_lasted(after: int, truth: Truth) -> None:
    node = a_node(a_condition(status="False"))
    wanted = {"condition": {"type": "Fault"}, "for": "30s"}
    assert reading(node, T0 + seconds(after), absent=wanted).truth is truth


def test_absence_of_what_nobody_reports_is_unknown() -> None:
    assert reading(a_node(), absent={"condition": {"type": "Fault"}}).truth is Truth.UNKNOWN
