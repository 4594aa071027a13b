from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import a_node, seconds

from kubenode.api.v1alpha1 import Expression
from kubenode.runtime.hosttime import host_time
from rules.atoms import read
from rules.condition_clock import LONGEST_BETWEEN
from rules.history import (
    MOST_CONDITIONS,
    MOST_EVENTS,
    ConditionClock,
    ConditionReading,
    EventWindow,
    KeyClock,
)
from rules.since import MOST_KEYS
from rules.truth import Truth


def hear(clock: ConditionClock, at: float, status: str = "True", **changes: object) -> None:
    now = T0 + seconds(at)
    stamps = {"transition": host_time(now), "heartbeat": host_time(now)}
    report: dict[str, Any] = {"reason": "R", "message": "m", **stamps, **changes}
    clock.take([ConditionReading("Fault", status, **report)], now)


def since(clock: ConditionClock) -> datetime:
    return clock.facts()["Fault"].since


def test_change_of_reason_and_heartbeats_do_not_make_a_fault_younger() -> None:
    clock = ConditionClock()
    hear(clock, 0, "False")
    hear(clock, 10)
    hear(clock, 20, reason="Other", transition=host_time(T0 + seconds(20)))
    hear(clock, 30)
    assert since(clock) == T0 + seconds(10)
    assert clock.facts()["Fault"].received_at == T0 + seconds(30)


@pytest.mark.parametrize("off", [-7200, -600, 0, 600, 7200])
def test_first_sight_counts_what_lies_between_the_stamps_when_the_clock_is_off(off: int) -> None:
    clock, stamp = ConditionClock(), host_time(T0 + seconds(100 + off))
    hear(clock, 100, transition=stamp + seconds(-100), heartbeat=stamp)
    assert since(clock) == T0
    assert clock.facts()["Fault"].received_at == T0 + seconds(100)


def test_first_sight_is_bounded_when_the_stamps_lie_millennia_apart() -> None:
    first, last = (host_time(T0.replace(year=year)) for year in (1, 9999))
    clock = ConditionClock()
    hear(clock, 100, transition=first, heartbeat=last)
    assert since(clock) == T0 + seconds(100) - LONGEST_BETWEEN


def test_first_sight_counts_from_now_when_the_transition_is_after_the_report() -> None:
    clock = ConditionClock()
    hear(clock, 100, transition=host_time(T0 + seconds(500)))
    assert since(clock) == T0 + seconds(100)


@pytest.mark.parametrize("off", [-7200, 0, 7200])
def test_condition_is_as_old_as_it_is_when_its_reporter_repeats_it_after_a_restart(
    off: int,
) -> None:
    """Its last report is 240 s old when we start: so much more is known with the next one."""
    stamp, clock = host_time(T0 + seconds(off)), ConditionClock()
    hear(clock, 240, transition=stamp, heartbeat=stamp)
    assert since(clock) == T0 + seconds(240)
    hear(clock, 300, transition=stamp, heartbeat=stamp + seconds(300))
    assert since(clock) == T0


def test_clock_that_is_set_between_two_reports_makes_no_condition_older() -> None:
    stamp, clock = host_time(T0), ConditionClock()
    hear(clock, 240, transition=stamp, heartbeat=stamp)
    hear(clock, 300, transition=stamp, heartbeat=stamp + seconds(7500))
    assert since(clock) == T0 + seconds(240)


def test_reporter_that_fell_silent_long_before_we_started_is_not_fresh() -> None:
    """Its host lives on: the kubelet's stamps say how long ago the detector's was made."""
    stamp, clock = host_time(T0 - seconds(7200)), ConditionClock()
    silent = ConditionReading("Fault", "True", "", "", stamp, stamp + seconds(-3600))
    clock.take([silent, ConditionReading("Ready", "True", "", "", stamp, stamp)], T0)
    assert clock.facts()["Fault"].received_at == T0 - seconds(3600)
    assert clock.facts()["Ready"].received_at == T0


def test_detector_of_a_silent_host_is_as_silent_as_its_kubelet() -> None:
    stamp, clock = host_time(T0 - seconds(9000)), ConditionClock()
    turned = host_time(T0 - seconds(1200))
    fault = ConditionReading("Fault", "True", "", "", stamp, stamp)
    by_controller = T0 - seconds(1200)
    ready = ConditionReading(
        "Ready", "Unknown", "NodeStatusUnknown", "", turned, stamp, by_controller
    )
    clock.take([fault, ready], T0)
    assert clock.facts()["Ready"].since == T0 - seconds(1200)
    assert clock.facts()["Fault"].received_at == T0 - seconds(1200)


def test_report_of_a_time_in_which_we_were_deaf_is_not_heard_now() -> None:
    stamp, clock = host_time(T0 - seconds(7200)), ConditionClock()
    first = ConditionReading("Fault", "True", "", "", stamp, stamp)
    clock.take([first], T0)
    clock.take(
        [replace(first, heartbeat=stamp + seconds(20))], T0 + seconds(300), T0 + seconds(300)
    )
    assert clock.facts()["Fault"].received_at == T0 + seconds(20)


def test_status_seen_to_change_counts_from_then() -> None:
    clock = ConditionClock()
    hear(clock, 0, "False")
    hear(clock, 50, "True", transition=host_time(T0))
    assert since(clock) == T0 + seconds(50)


def test_reporter_is_heard_when_we_see_its_stamp_change_and_from_the_second_one_on_backwards() -> (
    None
):
    clock = ConditionClock()
    hear(clock, 50)
    hear(clock, 60, heartbeat=host_time(T0))
    assert clock.facts()["Fault"].received_at == T0 + seconds(50), "it may be from before a restore"
    heartbeat, transition = host_time(T0 + seconds(10)), host_time(T0)
    hear(clock, 70, heartbeat=heartbeat, transition=transition)
    assert clock.facts()["Fault"].received_at == T0 + seconds(70)
    hear(clock, 80, heartbeat=heartbeat, transition=transition)
    assert clock.facts()["Fault"].received_at == T0 + seconds(70), (
        "the same report again is no report"
    )


def test_conditions_are_bounded() -> None:
    clock = ConditionClock()
    stamp = host_time(T0)
    many = [
        ConditionReading(f"T{n}", "True", "", "", stamp, stamp) for n in range(MOST_CONDITIONS + 10)
    ]
    clock.take(many, T0)
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


def old_report(clock: ConditionClock, at: float, stamp: float, status: str = "True") -> None:
    """What a Node shows at `at` that its reporter wrote at `stamp`."""
    written = host_time(T0 + seconds(stamp))
    reports = [ConditionReading("Fault", status, "R", "m", written, written)]
    clock.take(reports, T0 + seconds(at))


@pytest.mark.parametrize("off", [-7200, 0, 7200])
def test_report_from_before_a_restore_of_etcd_is_doubted_until_its_reporter_writes(
    off: int,
) -> None:
    clock = ConditionClock()
    old_report(clock, 100, 100 + off)
    old_report(clock, 200, 200 + off, "False")
    old_report(clock, 300, 100 + off)
    assert clock.facts()["Fault"].doubted
    old_report(clock, 310, 100 + off)
    assert clock.facts()["Fault"].doubted
    assert not clock.ended_doubt
    old_report(clock, 320, 320 + off, "False")
    fact = clock.facts()["Fault"]
    assert (fact.status, fact.since, fact.received_at) == (
        "False",
        T0 + seconds(200),
        T0 + seconds(320),
    )
    assert clock.ended_doubt
    assert not fact.doubted


def test_report_is_doubted_for_one_heartbeat_when_the_hosts_clock_is_set_back() -> None:
    clock = ConditionClock()
    old_report(clock, 100, 7300, "False")
    old_report(clock, 200, 200)
    assert clock.facts()["Fault"].doubted
    old_report(clock, 210, 210)
    fact = clock.facts()["Fault"]
    assert (fact.status, fact.since, fact.doubted) == ("True", T0 + seconds(210), False)


def test_first_sight_is_doubted_after_a_restore_until_its_reporter_repeats_it() -> None:
    clock = ConditionClock()
    old_report(clock, 100, 90)
    assert clock.facts_after_restore()["Fault"].doubted
    assert not clock.facts()["Fault"].doubted, (
        "the freeze is lifted; a dead kubelet repeats nothing"
    )
    old_report(clock, 150, 150)
    assert not clock.facts_after_restore()["Fault"].doubted


def test_condition_is_unknown_while_it_is_doubted() -> None:
    clock = ConditionClock()
    old_report(clock, 0, 0)
    leaf = Expression.model_validate({"condition": {"type": "Fault", "status": "True"}}).leaf
    assert leaf is not None
    now = T0 + seconds(60)
    assert read(leaf, a_node(*clock.facts().values()), now).truth is Truth.TRUE
    doubted = clock.facts_after_restore().values()
    assert read(leaf, a_node(*doubted), now).truth is Truth.UNKNOWN
