"""Changes of a HostEvent by time alone, or when a Node is created or deleted. Pure.

    Scheduled -> Active   at `notBefore`, if the source reports nothing then
    open -> Expired       past `notAfter`; an advisory event after an hour; an alert that a living
                          Alertmanager has not repeated for days; an event that only agents of a
                          deleted node could end
    closed -> deleted     a day after it was last seen

An alert of a silent Alertmanager is not over but unknown, and rules read it so.
"""

from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Protocol

from kubenode.api.v1alpha1.hostevent import (
    HostEvent,
    HostEventClass,
    HostEventPhase,
    HostEventSource,
)
from remedy.hostdoctor.conditions import (
    ADVICE,
    NODE_GONE,
    NOT_REPORTED,
    PAST,
    REPORTED,
    ended,
    resolved,
)
from remedy.hostdoctor.nodes import Resolution
from remedy.hostdoctor.record import note_of
from remedy.hostdoctor.step import ADVICE_LASTS
from remedy.remedier.hostevents import ALERT_NAME, WATCHDOG
from rules.leaves.alert import SILENCE

RETENTION = timedelta(hours=24)
"""Time for which a closed event is kept after it was last seen."""
FORGOTTEN = timedelta(days=6)
"""Alertmanager repeats firing alerts at least every 5 days, since it forgets its notifications then
(`--data.retention`, 120 h unless raised).
"""
UNWRITTEN = timedelta(minutes=1)
"""Time for which an object may lack a phase: its creator is about to write it, or has crashed."""


class NodeLookup(Protocol):
    def exists(self, name: str, uid: str) -> bool: ...


def settled(
    event: HostEvent, node: Resolution, nodes: NodeLookup, now: datetime, *, alerts_alive: bool
) -> HostEvent:
    """Return the event as it should be now without a new report.

    node: current resolution of its machine
    alerts_alive: whether the source of alerts is alive
    """
    phase = event.status.phase
    if phase is None:
        return _given(event, node, now)
    if not phase.open:
        return event
    event = _expired(event, now, alerts_alive=alerts_alive)
    if event.status.phase is phase and _orphaned(event, nodes):
        gone = "the node that told of it is gone"
        event = ended(event, HostEventPhase.EXPIRED, NODE_GONE, gone, now)
    if event.status.phase is phase and _begins(event, now):
        status = event.status.model_copy(update={"phase": HostEventPhase.ACTIVE})
        event = event.model_copy(update={"status": status})
    if event.spec.node.name:
        return event
    return resolved(event, node, now)


def deletable(event: HostEvent, now: datetime) -> bool:
    """Report whether the event is closed and was kept long enough."""
    return now >= _gone_at(event) if _closed(event) else False


def next_at(event: HostEvent, now: datetime) -> datetime | None:
    """Return when to reconcile the event; None: time alone changes nothing."""
    if event.status.phase is None:
        return now + UNWRITTEN
    if _closed(event):
        return _gone_at(event)
    times = [event.spec.not_after, _advice_ends(event)]
    if note_of(event).begins and event.status.phase is HostEventPhase.SCHEDULED:
        times.append(event.spec.not_before)
    if _is_alert(event) and event.status.last_seen is not None:
        times.append(event.status.last_seen + FORGOTTEN)
    return min((at for at in times if at is not None), default=None)


def alive(events: Iterable[HostEvent], now: datetime) -> bool:
    """Report whether the source of alerts is alive: its Watchdog fires and was seen recently."""
    return any(
        e.status.phase is HostEventPhase.ACTIVE
        and e.status.last_seen is not None
        and now - e.status.last_seen < SILENCE
        for e in events
        if _is_alert(e) and e.spec.attributes.get(ALERT_NAME) == WATCHDOG
    )


def _given(event: HostEvent, node: Resolution, now: datetime) -> HostEvent:
    """Complete an event after its creator crashed before it wrote a status, from its spec."""
    made = event.metadata.creation_timestamp or now
    if now - made < UNWRITTEN:
        return event
    status = event.status.model_copy(
        update={
            "phase": HostEventPhase.ACTIVE,
            "first_seen": made,
            "last_seen": made,
            "seen": 1,
        }
    )
    given = event.model_copy(update={"status": status})
    if event.spec.not_after is not None and event.spec.not_after <= now:
        end_phase = HostEventPhase.COMPLETED if _is_alert(event) else HostEventPhase.EXPIRED
        given = ended(
            given, end_phase, REPORTED if _is_alert(event) else PAST, "its end is past", now
        )
    elif event.spec.not_before is not None and event.spec.not_before > now:
        status = status.model_copy(update={"phase": HostEventPhase.SCHEDULED})
        given = event.model_copy(update={"status": status})
    return resolved(given, node, now)


def _expired(event: HostEvent, now: datetime, *, alerts_alive: bool) -> HostEvent:
    if _is_alert(event):
        last = event.status.last_seen
        if alerts_alive and last is not None and now - last >= FORGOTTEN:
            text = f"Alertmanager lives and has not repeated it for {FORGOTTEN.days} days"
            return ended(event, HostEventPhase.EXPIRED, NOT_REPORTED, text, now)
        return event
    if event.spec.not_after is not None and event.spec.not_after <= now:
        return ended(event, HostEventPhase.EXPIRED, PAST, "its end is past", now)
    ends = _advice_ends(event)
    if ends is not None and ends <= now:
        return ended(event, HostEventPhase.EXPIRED, ADVICE, "advice lasts an hour", now)
    return event


def _advice_ends(event: HostEvent) -> datetime | None:
    came = event.status.first_seen
    advisory = note_of(event).advisory or event.spec.class_ is HostEventClass.REBALANCE
    return came + ADVICE_LASTS if advisory and came is not None else None


def _begins(event: HostEvent, now: datetime) -> bool:
    at = event.spec.not_before
    waits = event.status.phase is HostEventPhase.SCHEDULED and note_of(event).begins
    return waits and at is not None and at <= now


def _orphaned(event: HostEvent, nodes: NodeLookup) -> bool:
    of = event.spec.node
    return bool(of.name) and note_of(event).of_agents and not nodes.exists(of.name, of.uid)


def _closed(event: HostEvent) -> bool:
    phase = event.status.phase
    return phase is not None and not phase.open


def _gone_at(event: HostEvent) -> datetime:
    reported_at = event.status.last_seen or event.metadata.creation_timestamp
    assert reported_at is not None, "a stored object has been created"
    return reported_at + RETENTION


def _is_alert(event: HostEvent) -> bool:
    spec = event.spec
    return spec.source is HostEventSource.ALERTMANAGER and spec.class_ is HostEventClass.ALERT
