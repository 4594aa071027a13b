from datetime import datetime

from support.clock import T0
from support.rules_builders import a_node, seconds

from kubenode.api.v1alpha1 import Expression
from rules.atoms import read
from rules.history import MOST_CONDITIONS, MOST_EVENTS, ConditionClock, EventWindow, KeyClock
from rules.since import MOST_KEYS
from rules.truth import Truth


def hear(clock: ConditionClock, at: float, status: str = "True", **changes: object) -> None:
    now = T0 + seconds(at)
    report: dict[str, object] = {"reason": "R", "message": "m", "transition": now, "heard": now}
    clock.hear("Fault", status=status, now=now, **{**report, **changes})  # type: ignore[arg-type]


def since(clock: ConditionClock) -> datetime:
    return clock.facts()["Fault"].since


def test_change_of_reason_and_heartbeats_do_not_make_a_fault_younger() -> None:
    clock = ConditionClock()
    hear(clock, 0, "False")
    hear(clock, 10)
    hear(clock, 20, reason="Other", transition=T0 + seconds(20))
    hear(clock, 30)
    assert since(clock) == T0 + seconds(10)
    assert clock.facts()["Fault"].heard == T0 + seconds(30)


def test_first_sight_counts_from_the_reporters_transition_and_never_from_the_future() -> None:
    clock = ConditionClock()
    hear(clock, 100, transition=T0)
    assert since(clock) == T0
    ahead = ConditionClock()
    hear(ahead, 100, transition=T0 + seconds(500))
    assert since(ahead) == T0 + seconds(100)


def test_status_seen_to_change_counts_from_then() -> None:
    clock = ConditionClock()
    hear(clock, 0, "False")
    hear(clock, 50, "True", transition=T0)
    assert since(clock) == T0 + seconds(50)


def test_older_report_does_not_make_the_reporter_silent() -> None:
    clock = ConditionClock()
    hear(clock, 50)
    hear(clock, 60, heard=T0)
    assert clock.facts()["Fault"].heard == T0 + seconds(50)


def test_conditions_are_bounded() -> None:
    clock = ConditionClock()
    for n in range(MOST_CONDITIONS + 10):
        clock.hear(f"T{n}", status="True", reason="", message="", transition=T0, heard=T0, now=T0)
    assert len(clock.facts()) == MOST_CONDITIONS


def occur(
    window: EventWindow,
    uid: str,
    count: int,
    at: float = 0,
    reason: str = "Oops",
    first: float | None = None,
) -> bool:
    return window.hear(
        uid,
        first=None if first is None else T0 + seconds(first),
        reason=reason,
        message="m",
        source="s",
        severity="Warning",
        count=count,
        at=T0 + seconds(at),
    )


def test_same_watch_message_again_counts_nothing() -> None:
    window = EventWindow()
    assert occur(window, "e1", 2)
    assert not occur(window, "e1", 2)
    assert occur(window, "e1", 5)
    assert sum(e.count for e in window.facts(T0)) == 5


def test_events_are_bounded_and_run_out() -> None:
    window = EventWindow()
    for n in range(MOST_EVENTS + 50):
        occur(window, f"e{n}", 1)
    assert len(window.facts(T0)) <= MOST_EVENTS + 1
    assert not window.facts(T0 + seconds(25 * 3600))


def test_event_from_the_future_counts_as_now() -> None:
    window = EventWindow()
    occur(window, "e1", 1, at=500)
    assert window.facts(T0)[0].at == T0


def asked(window: EventWindow, at: float, count: int, within: str = "10m") -> Truth:
    event = {"reason": "Oops", "count": count, "within": within}
    leaf = Expression.model_validate({"event": event})
    assert leaf.leaf is not None
    now = T0 + seconds(at)
    return read(leaf.leaf, a_node(events=window.facts(now)), now).truth


def test_aggregated_event_at_first_sight_tells_when_it_began() -> None:
    window = EventWindow()
    occur(window, "e1", 17, at=0, first=-7200)
    assert asked(window, 60, 3) is Truth.UNKNOWN
    occur(window, "e1", 20, at=60, first=-7200)  # three more since we last heard of it
    assert asked(window, 60, 3) is Truth.TRUE
    assert asked(window, 60, 4) is Truth.TRUE
    assert asked(window, 60, 5) is Truth.UNKNOWN


def test_aggregated_event_that_does_not_tell_when_it_began_counts_once() -> None:
    window = EventWindow()
    occur(window, "e1", 17, at=0)
    assert asked(window, 60, 1) is Truth.TRUE
    assert asked(window, 60, 3) is Truth.UNKNOWN


def test_more_events_than_there_is_room_for_are_merged_and_still_count() -> None:
    window = EventWindow()
    for n in range(600):
        occur(window, f"e{n}", 1, at=n / 2)
    assert len(window.facts(T0 + seconds(300))) == MOST_EVENTS
    assert asked(window, 300, 500) is Truth.TRUE
    assert asked(window, 300, 601) is Truth.FALSE
    assert asked(window, 300, 500, within="4m") is Truth.UNKNOWN


def test_events_with_nothing_like_them_are_not_forgotten_into_a_false() -> None:
    window = EventWindow()
    occur(window, "oops", 3)
    for n in range(MOST_EVENTS):
        occur(window, f"e{n}", 1, at=1, reason=f"Other{n}")
    assert asked(window, 2, 3) is Truth.UNKNOWN
    assert asked(window, 2, 4) is Truth.FALSE
    assert asked(window, 700, 3) is Truth.FALSE


def test_history_of_a_forgotten_event_does_not_count_again() -> None:
    window = EventWindow()
    occur(window, "busy", 40)
    for n in range(MOST_EVENTS + 1):
        occur(window, f"e{n}", 1, at=1, reason="Noise")
    before = sum(e.count for e in window.facts(T0 + seconds(1)) if e.reason == "Oops")
    occur(window, "busy", 41, at=1000)
    assert before <= 40
    assert asked(window, 1001, 1) is Truth.TRUE
    assert asked(window, 1001, 2) is not Truth.TRUE


def test_relist_of_forgotten_events_makes_nothing_true() -> None:
    window = EventWindow()
    for _ in range(2):
        for n in range(MOST_EVENTS + 100):
            occur(window, f"e{n}", 1, at=n)
    assert asked(window, 400, MOST_EVENTS + 100) is Truth.TRUE
    assert asked(window, 400, MOST_EVENTS + 101) is Truth.UNKNOWN


def test_occurrence_from_the_future_ages_once_it_was_heard() -> None:
    """A reporter's clock that is an hour ahead must not keep an Event young for an hour."""
    window = EventWindow()
    event = {"reason": "Oops", "message": "m", "source": "s", "severity": "Warning"}
    window.hear("e1", **event, count=1, at=T0 + seconds(3600), now=T0)  # type: ignore[arg-type]
    assert asked(window, 599, 1) is Truth.TRUE
    assert asked(window, 600, 1) is Truth.FALSE


def test_setting_our_clock_back_does_not_keep_events_young() -> None:
    window = EventWindow()
    occur(window, "e1", 1, at=3600)
    window.stepped(T0)
    assert asked(window, 599, 1) is Truth.TRUE
    assert asked(window, 600, 1) is Truth.FALSE


def test_setting_our_clock_back_keeps_what_was_aggregated_uncertain() -> None:
    window = EventWindow()
    occur(window, "e1", 9, at=3600, first=-7200)
    window.stepped(T0)
    assert asked(window, 1, 3) is Truth.UNKNOWN


def test_keys_are_what_they_are_since_they_changed() -> None:
    keys = KeyClock(T0)
    keys.take("label", {"a": "1", "b": "1"}, T0 + seconds(1))
    assert keys.changed == {}
    keys.take("label", {"a": "2", "b": "1"}, T0 + seconds(5))
    keys.take("taint", {"a": "x"}, T0 + seconds(6))
    keys.take("label", {"a": "2", "c": "1"}, T0 + seconds(7))
    keys.take("taint", {}, T0 + seconds(8))
    assert keys.changed == {
        "label:a": T0 + seconds(5),
        "label:b": T0 + seconds(7),
        "label:c": T0 + seconds(7),
        "taint:a": T0 + seconds(8),
    }
    keys.stepped(seconds(100))
    assert keys.changed["label:a"] == T0 + seconds(105)
    assert keys.unchanged_since == T0 + seconds(100)


def test_more_keys_than_there_is_room_for_look_younger() -> None:
    keys = KeyClock(T0)
    for n in range(MOST_KEYS + 2):
        keys.take("label", {f"k{n}": ""}, T0 + seconds(n))
    assert len(keys.changed) <= MOST_KEYS
    assert keys.unchanged_since > T0
    assert keys.changed.get("label:k0", keys.unchanged_since) >= T0 + seconds(1)
