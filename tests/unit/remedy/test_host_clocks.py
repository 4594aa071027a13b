"""Hosts whose clocks are wrong: what they report counts by when we received it."""

from datetime import timedelta
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ruamel.yaml import YAML
from support.clock import T0
from support.remedy_facts import LONG_AGO, Facts

from kubenode.runtime.kube.objects import Event, Node
from rules.truth import Truth

MINUTE = timedelta(minutes=1)
OFF = [timedelta(minutes=m) for m in (-120, -20, 0, 20, 120)]
BEHIND = Path("rules/library/time/clock-behind.yaml")
X509 = "x509: certificate has expired or is not yet valid: current time 2026 is before 2027"


class Host:
    """A host whose clock is ahead by `off`, and us."""

    def __init__(self, off: timedelta) -> None:
        self.off, self.facts = off, Facts()
        self.node: Node | None = None
        self.turned: dict[str, tuple[str, Any]] = {}
        self.event: Event | None = None

    def stamp(self) -> str:
        return (self.facts.clock.now() + self.off).isoformat()

    def reports(self, **conditions: str) -> None:
        """Each condition by its status; Ready is True."""
        said = []
        for type_, status in {"Ready": "True", **conditions}.items():
            known, _ = self.turned.get(type_, ("", ""))
            if known != status:
                self.turned[type_] = status, self.stamp()
            stamps = {
                "lastHeartbeatTime": self.stamp(),
                "lastTransitionTime": self.turned[type_][1],
            }
            said.append({"type": type_, "status": status, **stamps})
        meta = {"name": "a", "uid": "uid-a", "creationTimestamp": LONG_AGO.isoformat()}
        body = {"metadata": meta, "status": {"nodeInfo": {"bootID": "b"}, "conditions": said}}
        old, self.node = self.node, msgspec.convert(body, Node)
        assert self.node is not None
        self.facts.nodes.cache["a"] = self.node
        self.facts.store.node_changed("a", old, self.node)

    def occurs(self, message: str = X509) -> None:
        """One Event, counted: its object is made at the first time."""
        now = self.facts.clock.now()
        before = self.event
        data: dict[str, Any] = {
            "metadata": {"name": "e", "uid": "e", "creationTimestamp": now.isoformat()},
            "involvedObject": {"kind": "Node", "name": "a"},
            "reason": "KubeletLog", "type": "Warning", "message": message, "count": 1,
            "firstTimestamp": self.stamp(), "lastTimestamp": self.stamp(),
        }  # fmt: skip
        event = msgspec.convert(data, Event)
        if before is not None:
            event.metadata, event.count = before.metadata, before.count + 1
            event.first_timestamp = before.first_timestamp
        self.facts.store.event_changed(before, event)
        self.event = event


@pytest.mark.parametrize("off", OFF)
def test_fault_of_a_host_is_seen_when_its_clock_is_off(off: timedelta) -> None:
    host = Host(off)
    host.facts.load(fault={"when": {"condition": {"type": "KernelDeadlock", "for": "1m"}}})
    host.reports(KernelDeadlock="False")
    for _ in range(3):
        host.facts.clock.step(MINUTE)
        host.reports(KernelDeadlock="True")
    assert host.facts.evidence("a", "fault") is Truth.TRUE


@pytest.mark.parametrize("off", OFF)
def test_fault_of_a_host_is_seen_after_a_restart_when_its_clock_is_off(off: timedelta) -> None:
    host = Host(off)
    host.facts.load(fault={"when": {"condition": {"type": "KernelDeadlock", "for": "1m"}}})
    host.turned["KernelDeadlock"] = "True", (T0 - 5 * MINUTE + off).isoformat()
    host.reports(KernelDeadlock="True")
    assert host.facts.evidence("a", "fault") is Truth.TRUE


@pytest.mark.parametrize("off", OFF)
def test_fault_is_not_older_than_it_is_when_the_hosts_clock_is_off(off: timedelta) -> None:
    host = Host(off)
    host.facts.load(fault={"when": {"condition": {"type": "KernelDeadlock", "for": "2m"}}})
    host.reports(KernelDeadlock="True")
    assert host.facts.evidence("a", "fault") is Truth.FALSE
    host.facts.clock.step(119 * MINUTE / 60)
    host.reports(KernelDeadlock="True")
    assert host.facts.evidence("a", "fault") is Truth.FALSE
    host.facts.clock.step(MINUTE / 60)
    assert host.facts.evidence("a", "fault") is Truth.TRUE


@pytest.mark.parametrize("off", OFF)
def test_detector_that_falls_silent_is_not_believed_for_longer_when_clocks_are_off(
    off: timedelta,
) -> None:
    host = Host(off)
    host.facts.load(fault={"when": {"condition": {"type": "KernelDeadlock"}}})
    host.reports(KernelDeadlock="True")
    host.facts.clock.step(15 * MINUTE - MINUTE / 60)
    assert host.facts.evidence("a", "fault") is Truth.TRUE
    host.facts.clock.step(MINUTE / 60)
    assert host.facts.evidence("a", "fault") is Truth.UNKNOWN


@pytest.mark.parametrize("off", OFF)
def test_not_ready_for_counts_by_our_clock_when_the_hosts_clock_is_off(off: timedelta) -> None:
    host = Host(off)
    host.facts.load(fault={"when": {"fact": {"name": "node.notReadyFor", "above": 60}}})
    host.reports(Ready="False")
    host.facts.clock.step(5 * MINUTE / 60)
    host.reports(Ready="False")
    assert host.facts.facts().values["node.notReadyFor"] == 5.0


@pytest.mark.parametrize("off", OFF)
def test_library_rule_of_a_clock_that_is_behind_sees_the_events_of_that_host(
    off: timedelta,
) -> None:
    host = Host(off)
    host.facts.load(behind={"when": YAML(typ="safe").load(BEHIND)["spec"]["when"]})
    host.reports()
    host.occurs()
    assert host.facts.evidence("a", "behind") is Truth.TRUE
    host.facts.clock.step(29 * MINUTE)
    assert host.facts.evidence("a", "behind") is Truth.TRUE
    host.facts.clock.step(2 * MINUTE)
    assert host.facts.evidence("a", "behind") is Truth.FALSE
    host.occurs()
    assert host.facts.evidence("a", "behind") is Truth.TRUE


@pytest.mark.parametrize("off", OFF)
def test_event_of_hours_ago_stays_as_old_after_a_restart_when_clocks_are_off(
    off: timedelta,
) -> None:
    host = Host(off)
    host.facts.load(behind={"when": YAML(typ="safe").load(BEHIND)["spec"]["when"]})
    host.reports()
    host.occurs()
    event = host.event
    host.facts.clock.step(40 * MINUTE)
    started = Host(off)
    started.facts.clock.step(40 * MINUTE)
    started.facts.load(behind={"when": YAML(typ="safe").load(BEHIND)["spec"]["when"]})
    started.reports()
    started.facts.store.event_changed(None, event)
    assert started.facts.evidence("a", "behind") is Truth.FALSE
