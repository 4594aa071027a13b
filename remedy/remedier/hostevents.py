"""Facts from HostEvents of each node: events, alerts, and whether the source of alerts is alive.

The objects are level-based: their current content counts, not how often they were written. Two
changes come with time alone, without a write: an event expires past its `notAfter`, and an advisory
event (a rebalance hint) an hour after it came.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.hostevent import (
    HostEvent,
    HostEventClass,
    HostEventPhase,
    HostEventSource,
)
from kubenode.api.v1alpha1.noderemedier import Severity
from kubenode.runtime.kube.objects import Node
from rules.facts import AlertFact, HostEventFact
from rules.history import EventWindow
from rules.leaves.alert import SILENCE

ADVISORY = frozenset({HostEventClass.REBALANCE})
"""Classes of events that are only hints."""
ADVICE_LASTS = timedelta(hours=1)
ALERT_NAME = "alertname"
WATCHDOG = "Watchdog"
"""The alert that always fires: the only proof that its sender is alive (the name in
kube-prometheus).
"""
WATCHDOG_GONE = timedelta(hours=24)
"""After this much silence a Watchdog belongs to a sender that was removed."""
SOON = timedelta(minutes=30)
"""A planned maintenance counts as begun this long before it begins."""
MOST = 128
"""HostEvents of one node that are read: open ones first, then the most recent."""


@dataclass(slots=True)
class _AlertTimes:
    """A HostEvent and its alert state.

    since: when the alert began to fire or was resolved, by our own clock
    """

    event: HostEvent
    firing: bool
    since: datetime


class HostEvents:
    """HostEvents by node, and Watchdogs."""

    def __init__(self) -> None:
        self._by_node: dict[str, dict[str, _AlertTimes]] = {}
        self._watchdogs: dict[str, HostEvent] = {}
        self._last_reports: dict[str, datetime] = {}

    def changed(self, old: HostEvent | None, new: HostEvent | None, now: datetime) -> bool:
        """Take in a change; report whether alerts became reliable again, which concerns
        every node.
        """
        event = new or old
        if new is not None and (last := new.status.last_seen) is not None:
            source = str(new.spec.source)
            self._last_reports[source] = max(last, self._last_reports.get(source, last))
        if event is not None and _is_watchdog(event):
            return self._is_back(event.metadata.name, new, now)
        before = None
        if old is not None:
            before = self._take(old.spec.node.name, old.metadata.name)
        if new is not None and new.spec.node.name:
            entries = self._by_node.setdefault(new.spec.node.name, {})
            entries[new.metadata.name] = _update_times(before, new, now)
        return False

    def alerts_alive_at(self, now: datetime) -> datetime | None:
        """Return when the source of alerts was last known to be alive, of several the most silent
        one; None if never.
        """
        times = [
            event.status.last_seen
            for event in self._watchdogs.values()
            if event.status.last_seen is not None
            and now - event.status.last_seen < WATCHDOG_GONE
            and _open(event, now)
        ]
        return min((min(at, now) for at in times), default=None)

    def stepped(self, step: timedelta) -> None:
        """Move the start times after a step of our wall clock, so that alerts keep their age."""
        for events in self._by_node.values():
            for entry in events.values():
                entry.since += step

    def list_source_reports(self, now: datetime) -> Mapping[str, datetime]:
        """Return when each source last reported, so was known to be alive."""
        reports = {source: min(at, now) for source, at in self._last_reports.items()}
        alerts = self.alerts_alive_at(now)
        return (
            reports if alerts is None else {**reports, HostEventSource.ALERTMANAGER.value: alerts}
        )

    def facts(self, node: Node, now: datetime) -> Sequence[HostEventFact]:
        return [_fact(entry.event, now) for entry in self._of(node, now)]

    def alerts(self, node: Node, now: datetime) -> Sequence[AlertFact]:
        return [
            AlertFact(
                entry.event.spec.attributes[ALERT_NAME],
                entry.event.spec.attributes,
                _open(entry.event, now),
                entry.since,
            )
            for entry in self._of(node, now)
            if _is_alert(entry.event) and entry.event.status.phase is not None
        ]

    def changes_at(self, node: Node, now: datetime) -> datetime | None:
        """Return when the next event of the node changes by time alone; None: none does."""
        times = [
            at
            for entry in self._of(node, now)
            for at in (expires_at(entry.event), _begins_at(entry.event))
            if at is not None and at > now and _open(entry.event, now)
        ]
        return min(times, default=None)

    def _of(self, node: Node, now: datetime) -> Sequence[_AlertTimes]:
        entries = [
            k for k in self._by_node.get(node.metadata.name, {}).values() if is_about(k.event, node)
        ]
        if len(entries) > MOST:
            entries.sort(key=lambda k: (_open(k.event, now), k.event.status.last_seen or now))
        return entries[-MOST:]

    def _take(self, node: str, name: str) -> _AlertTimes | None:
        entries = self._by_node.get(node)
        if entries is None:
            return None
        entry = entries.pop(name, None)
        if not entries:
            del self._by_node[node]
        return entry

    def _is_back(self, name: str, new: HostEvent | None, now: datetime) -> bool:
        """Take in a Watchdog; report whether the source of alerts was silent until now."""
        before = self.alerts_alive_at(now)
        self._watchdogs.pop(name, None)
        if new is not None:
            self._watchdogs[name] = new
        silent = before is None or now - before >= SILENCE
        after = self.alerts_alive_at(now)
        return silent and after is not None and after != before


def phase_at(event: HostEvent, now: datetime) -> HostEventPhase | None:
    """Return the phase as written, or Expired if time alone ended it. None: no phase
    was written.
    """
    phase = event.status.phase
    if phase is not None and not phase.open:
        return phase
    at = expires_at(event)
    return HostEventPhase.EXPIRED if at is not None and at <= now else phase


def expires_at(event: HostEvent) -> datetime | None:
    """Return when the event expires by time alone; None: never."""
    times = [event.spec.not_after]
    came = event.status.first_seen or event.metadata.creation_timestamp
    if event.spec.class_ in ADVISORY and came is not None:
        times.append(came + ADVICE_LASTS)
    return min((t for t in times if t is not None), default=None)


def maintenance(events: Sequence[HostEventFact], now: datetime) -> bool:
    """Report whether a maintenance is active or about to begin; one without a phase
    counts as such.
    """
    return any(
        e.class_ == HostEventClass.MAINTENANCE
        and e.phase in ("", *(p for p in HostEventPhase if p.open))
        and (e.phase == HostEventPhase.ACTIVE or e.not_before is None or e.not_before - SOON <= now)
        for e in events
    )


def hear(window: EventWindow, event: HostEvent, now: datetime) -> bool:
    """Count the HostEvent in the node's event window, as often as it was seen; report whether it is
    new.
    """
    spec, status = event.spec, event.status
    return window.hear(
        f"hostevent/{event.metadata.uid or event.metadata.name}",
        reason=str(spec.class_),
        message=spec.message,
        source=str(spec.source),
        severity="Normal" if spec.severity is Severity.INFO else "Warning",
        count=max(status.seen, 1),
        at=status.last_seen or now,
        first=status.first_seen,
        now=now,
    )


def _open(event: HostEvent, now: datetime) -> bool:
    phase = phase_at(event, now)
    return phase is not None and phase.open


def _begins_at(event: HostEvent) -> datetime | None:
    if event.spec.class_ is not HostEventClass.MAINTENANCE or event.spec.not_before is None:
        return None
    return event.spec.not_before - SOON


def _is_alert(event: HostEvent) -> bool:
    spec = event.spec
    return (
        spec.source is HostEventSource.ALERTMANAGER
        and spec.class_ is HostEventClass.ALERT
        and ALERT_NAME in spec.attributes
    )


def _is_watchdog(event: HostEvent) -> bool:
    return _is_alert(event) and event.spec.attributes[ALERT_NAME] == WATCHDOG


def is_about(event: HostEvent, node: Node) -> bool:
    """Report whether the event is about this Node, and not about another machine of the
    same name.
    """
    target = event.spec.node
    if target.uid and node.metadata.uid and target.uid != node.metadata.uid:
        return False
    other = (
        target.provider_id and node.spec.provider_id and target.provider_id != node.spec.provider_id
    )
    return not other


def _update_times(before: _AlertTimes | None, new: HostEvent, now: datetime) -> _AlertTimes:
    """Return the alert state after a change. At first an alert is as old as its reporter says, and
    never older.
    """
    firing = new.status.phase is not None and new.status.phase.open
    if before is not None:
        return _AlertTimes(new, firing, before.since if before.firing == firing else now)
    spec, status = new.spec, new.status
    times = (status.first_seen, spec.not_before) if firing else (status.last_seen,)
    return _AlertTimes(new, firing, min(max((t for t in times if t is not None), default=now), now))


def _fact(event: HostEvent, now: datetime) -> HostEventFact:
    spec, status = event.spec, event.status
    phase = phase_at(event, now)
    first = status.first_seen or event.metadata.creation_timestamp or now
    return HostEventFact(
        name=event.metadata.name,
        class_=str(spec.class_),
        source=str(spec.source),
        phase=str(phase) if phase is not None else "",
        severity=str(spec.severity),
        message=spec.message,
        first_observed_at=first,
        last_observed_at=status.last_seen or first,
        not_before=spec.not_before,
    )
