"""What HostEvents say of a node: events, alerts, maintenance, and which of their sources live."""

from datetime import timedelta
from typing import Any

from support.clock import T0
from support.remedy_facts import Facts

from kubenode.api.v1alpha1.hostevent import HostEventPhase
from remedy.remedier.facts import MOST_STRANGERS
from rules.truth import Truth

MINUTE, HOUR = timedelta(minutes=1), timedelta(hours=1)
REBOOT = {"hostEvent": {"class": "Reboot"}}
DISK = {"alert": {"name": "NodeDiskIOError", "for": "5m"}}


def a_world(**rules: Any) -> Facts:
    world = Facts()
    world.node("a")
    world.node("b")
    world.load(**{name: {"when": when} for name, when in rules.items()})
    return world


def test_an_open_event_of_a_node_is_evidence_on_it_until_it_is_closed() -> None:
    world = a_world(reboot=REBOOT)
    assert world.host_event("e1", "Reboot") == {"a"}
    assert [world.evidence(n, "reboot") for n in "ab"] == [Truth.TRUE, Truth.FALSE]
    assert world.host_event("e1", "Reboot", phase="Completed") == {"a"}
    assert world.evidence("a", "reboot") is Truth.FALSE


def test_every_phase_is_fed_as_it_is_written() -> None:
    world = a_world(reboot=REBOOT)
    for phase in HostEventPhase:
        world.host_event("e1", "Reboot", phase=phase)
        assert world.facts().host_events[0].phase == phase
        assert (world.evidence("a", "reboot") is Truth.TRUE) is phase.open


def test_an_event_that_is_resolved_to_another_node_later_concerns_both() -> None:
    world = a_world(reboot=REBOOT)
    assert world.host_event("e1", "Reboot", node="") == set()
    assert world.host_event("e1", "Reboot", node="b") == {"b"}
    assert world.host_event("e1", "Reboot", node="a") == {"a", "b"}
    assert [world.evidence(n, "reboot") for n in "ab"] == [Truth.TRUE, Truth.FALSE]


def test_an_event_of_another_machine_of_that_name_is_not_about_this_one() -> None:
    world = a_world(reboot=REBOOT, often={"event": {"reason": "Reboot"}})
    world.node("a", spec={"providerID": "aws:///eu-1a/i-2"})
    world.host_event("e1", "Reboot", about={"uid": "uid-of-the-one-before"})
    world.host_event("e2", "Reboot", about={"providerID": "aws:///eu-1a/i-1"})
    assert world.facts().host_events == []
    assert world.evidence("a", "reboot") is Truth.FALSE
    assert world.evidence("a", "often") is Truth.FALSE
    world.host_event("e3", "Reboot", about={"uid": "uid-a", "providerID": "aws:///eu-1a/i-2"})
    assert world.evidence("a", "reboot") is Truth.TRUE


def test_events_may_be_listed_before_their_nodes() -> None:
    world = Facts()
    world.host_event("e1", "Reboot")
    world.event("k1", "KernelOops")
    world.node("a")
    world.load(reboot={"when": REBOOT}, oops={"when": {"event": {"reason": "KernelOops"}}})
    assert world.evidence("a", "reboot") is Truth.TRUE
    assert world.evidence("a", "oops") is Truth.TRUE


def test_events_of_names_that_are_no_nodes_take_bounded_room() -> None:
    world = a_world(oops={"event": {"reason": "KernelOops"}})
    for i in range(3000):
        world.event(f"k{i}", "KernelOops", node=f"stranger-{i}")
    assert len(world.store._strangers) == MOST_STRANGERS
    for name in ("stranger-2999", "stranger-0"):
        world.node(name)
    assert world.evidence("stranger-2999", "oops") is Truth.TRUE
    assert world.evidence("stranger-0", "oops") is Truth.FALSE


def test_an_event_counts_as_often_as_it_was_seen() -> None:
    world = a_world(often={"event": {"reason": "DiskFault", "source": "AWS", "count": 3}})
    world.host_event("e1", "DiskFault", seen=2)
    assert world.evidence("a", "often") is Truth.FALSE
    world.host_event("e1", "DiskFault", seen=2, lastSeen=(T0 + MINUTE).isoformat())
    assert world.evidence("a", "often") is Truth.FALSE, "the same occurrences told again"
    world.host_event("e1", "DiskFault", seen=3)
    assert world.evidence("a", "often") is Truth.TRUE
    world.clock.step(11 * MINUTE)
    assert world.evidence("a", "often") is Truth.FALSE


def test_severities_of_host_events_are_those_of_events() -> None:
    said = {"Critical": "Warning", "Warning": "Warning", "Info": "Normal"}
    for severity, type_ in said.items():
        world = a_world()
        world.host_event("e1", "DiskFault", severity=severity)
        assert [e.severity for e in world.facts().events] == [type_]


def test_f09_an_advice_after_which_nothing_happens_ends_by_itself() -> None:
    world = a_world(hint={"hostEvent": {"class": "Rebalance"}})
    world.host_event("e1", "Rebalance")
    assert world.store.changes_at("a") == T0 + HOUR
    world.clock.step(HOUR - MINUTE)
    world.host_event("e1", "Rebalance", firstSeen=T0.isoformat(), seen=60)
    assert world.evidence("a", "hint") is Truth.TRUE, "it is repeated all the time"
    world.clock.step(MINUTE)
    assert world.facts().host_events[0].phase == "Expired"
    assert world.evidence("a", "hint") is Truth.FALSE
    assert world.store.changes_at("a") is None


def test_an_event_expires_past_its_end_even_if_nobody_closes_it() -> None:
    world = a_world(reboot=REBOOT)
    world.host_event("e1", "Reboot", notAfter=(T0 + HOUR).isoformat())
    assert world.store.changes_at("a") == T0 + HOUR
    world.clock.step(HOUR)
    assert world.evidence("a", "reboot") is Truth.FALSE


def test_maintenance_begins_half_an_hour_before_its_time_and_ends_when_it_is_closed() -> None:
    world = a_world()
    at = (T0 + 2 * HOUR).isoformat()
    world.host_event("m1", "Maintenance", phase="Scheduled", notBefore=at)
    assert world.facts().values["maintenance.active"] is False
    assert world.store.changes_at("a") == T0 + HOUR * 1.5
    world.clock.step(HOUR * 1.5)
    assert world.facts().values["maintenance.active"] is True
    world.host_event("m1", "Maintenance", phase="Cancelled", notBefore=at)
    assert world.facts().values["maintenance.active"] is False


def test_a_maintenance_that_nobody_gave_a_phase_keeps_hands_off() -> None:
    world = a_world()
    world.host_event("m1", "Maintenance", phase=None)
    assert world.facts().values["maintenance.active"] is True


def test_an_alert_fires_for_its_time_by_our_clock_while_its_source_is_heard() -> None:
    world = a_world(disk=DISK)
    world.alert("NodeDiskIOError")
    assert world.evidence("a", "disk") is Truth.UNKNOWN, "nobody knows whether its source lives"
    world.alert("Watchdog", node="")
    assert world.evidence("a", "disk") is Truth.FALSE
    world.clock.step(5 * MINUTE)
    world.alert("NodeDiskIOError")
    assert [world.evidence(n, "disk") for n in "ab"] == [Truth.TRUE, Truth.FALSE]
    world.alert("NodeDiskIOError", phase="Completed")
    assert world.evidence("a", "disk") is Truth.FALSE
    assert world.facts().alerts[0].since == T0 + 5 * MINUTE


def test_an_alert_that_comes_again_under_its_old_name_is_young() -> None:
    world = a_world(disk=DISK)
    world.alert("Watchdog", node="")
    first = T0.isoformat()
    world.alert("NodeDiskIOError")
    world.alert("NodeDiskIOError", phase="Completed", firstSeen=first)
    world.clock.step(6 * MINUTE)
    world.alert("NodeDiskIOError", firstSeen=first)
    assert world.evidence("a", "disk") is Truth.FALSE


def test_alerts_are_unknown_once_the_watchdog_is_silent_or_resolved() -> None:
    world = a_world(disk={"alert": {"name": "NodeDiskIOError"}})
    world.alert("NodeDiskIOError")
    assert world.alert("Watchdog", node="") == {"a", "b"}, "all look again: it is heard"
    assert world.evidence("b", "disk") is Truth.FALSE
    world.clock.step(MINUTE)
    assert world.alert("Watchdog", node="") == set()
    world.alert("Watchdog", node="", phase="Completed")
    assert [world.evidence(n, "disk") for n in "ab"] == [Truth.UNKNOWN] * 2
    assert world.alert("Watchdog", node="") == {"a", "b"}
    world.clock.step(11 * MINUTE)
    assert [world.evidence(n, "disk") for n in "ab"] == [Truth.UNKNOWN] * 2
    assert world.alert("Watchdog", node="") == {"a", "b"}
    assert [world.evidence(n, "disk") for n in "ab"] == [Truth.TRUE, Truth.FALSE]


def test_of_two_sources_of_alerts_the_silent_one_is_believed() -> None:
    world = a_world(disk={"alert": {"name": "NodeDiskIOError"}})
    world.alert("Watchdog", node="")
    one, other = T0 - HOUR, T0
    watch = {"source": "Alertmanager", "attributes": {"alertname": "Watchdog"}}
    world.host_event("dog-2", "Alert", node="", lastSeen=one.isoformat(), **watch)
    assert world.facts().alerts_alive_at == one
    world.host_event("dog-2", "Alert", node="", lastSeen=(T0 - 25 * HOUR).isoformat(), **watch)
    assert world.facts().alerts_alive_at == other, "that one was taken down"


def test_a_watchdog_is_no_alert_of_the_node_it_was_resolved_to() -> None:
    world = a_world()
    world.alert("Watchdog", node="a")
    assert world.facts().alerts == []
    assert world.facts().alerts_alive_at == T0


def test_a_source_was_alive_when_it_last_reported_anything() -> None:
    world = a_world()
    world.host_event("e1", "Reboot", node="b")
    world.clock.step(HOUR)
    world.alert("Watchdog", node="")
    assert world.facts().sources_alive_at == {"AWS": T0, "Alertmanager": T0 + HOUR}


def test_a_node_has_room_for_so_many_events_and_open_ones_come_first() -> None:
    world = a_world(reboot=REBOOT)
    world.host_event("open", "Reboot")
    for i in range(200):
        world.host_event(f"old-{i}", "Reboot", phase="Completed")
    assert len(world.facts().host_events) == 128
    assert world.evidence("a", "reboot") is Truth.TRUE


def test_a_deleted_event_says_nothing_any_more() -> None:
    world = a_world(reboot=REBOOT)
    world.host_event("e1", "Reboot")
    assert set(world.store.host_event_changed(world.host_events["e1"], None)) == {"a"}
    assert world.evidence("a", "reboot") is Truth.FALSE
