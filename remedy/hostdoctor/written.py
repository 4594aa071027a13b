"""Builds the HostEvent to write: created, changed by a report, or only seen again. Pure.

`remedy.hostdoctor.step` decides which of them applies.
"""

from datetime import datetime, timedelta
from typing import Any

from kubenode.api.meta import ObjectMeta
from kubenode.api.v1alpha1.hostevent import (
    HostEvent,
    HostEventNode,
    HostEventPhase,
    HostEventSpec,
    HostEventStatus,
)
from remedy.hostdoctor.conditions import (
    ENDED,
    OPEN,
    PAST,
    REPORTED,
    ended,
    of_node,
    set_ended,
)
from remedy.hostdoctor.nodes import Resolution
from remedy.hostdoctor.record import (
    ANNOTATION,
    MOST_ATTRIBUTES,
    EventRecord,
    is_alert,
    name_of,
    note,
    note_of,
)
from remedy.hostdoctor.report import Reported
from remedy.remedier.hostevents import ALERT_NAME, WATCHDOG

REFRESH_EVERY = timedelta(minutes=5)
"""Shortest interval between two writes that only update `lastSeen`."""
WATCHDOG_EVERY = timedelta(minutes=1)
"""The same for the Watchdog alert."""


def first(
    report: Reported, node: Resolution, phase: HostEventPhase, now: datetime, scope: str
) -> HostEvent:
    """Build a new HostEvent. An alert that is over is stored too: its start may arrive after its
    end.
    """
    before = report.not_before
    if is_alert(report) and phase.open:
        before = before or now
    status = HostEventStatus(
        phase=phase,
        first_seen=now,
        last_seen=now,
        seen=1,
        conditions=of_node([], node, now),
    )
    meta = ObjectMeta(name=name_of(report), annotations={ANNOTATION: note(report, scope).encoded()})
    spec = HostEventSpec(
        source=report.source,
        external_id=report.external_id,
        class_=report.class_,
        severity=report.severity,
        node=_node(report, node),
        not_before=before,
        not_after=_end(report, phase, now),
        attributes=dict(report.attributes),
        message=report.message,
    )
    event = HostEvent(metadata=meta, spec=spec, status=status)
    if phase.open:
        return event
    reason, text = _why(report, phase)
    return ended(event, phase, reason, text, now)


def written(
    event: HostEvent,
    report: Reported,
    node: Resolution,
    phase: HostEventPhase,
    now: datetime,
    scope: str,
    *,
    again: bool = False,
    start: datetime | None = None,
) -> HostEvent:
    """Build the HostEvent changed by a report.

    again: it has returned, or occurs another time
    start: `notBefore` where the report does not determine it
    """
    before, have, noted = event.spec, event.status, note_of(event)
    changes: dict[str, Any] = {
        "class_": report.class_,
        "severity": report.severity,
        "not_before": start or report.not_before or (now if is_alert(report) else None),
        "not_after": _end(report, phase, now),
        "attributes": dict(report.attributes),
        "message": report.message,
    }
    if is_alert(report) and not again:
        # Texts of alerts hold ticking values: they are stored once for each firing.
        del changes["attributes"], changes["message"]
    elif noted.scope not in ("", scope):
        # Two sources that describe one event would overwrite each other forever.
        changes = {"attributes": {**report.attributes, **before.attributes}}
        if len(changes["attributes"]) > MOST_ATTRIBUTES:
            changes = {}
    if node.resolved or not before.node.name:
        changes["node"] = _node(report, node)
    spec = before.model_copy(update=changes)
    conditions = have.conditions
    if node.resolved or not before.node.name:
        conditions = of_node(conditions, node, now)
    if not phase.open:
        conditions = set_ended(conditions, True, *_why(report, phase), now)
    elif any(c.type == ENDED for c in conditions):
        conditions = set_ended(conditions, False, OPEN, "it is under way again", now)
    counted = have.seen + 1 if again and phase.open else max(have.seen, 1)
    status = have.model_copy(
        update={
            "phase": phase,
            "seen": counted,
            "first_seen": have.first_seen or now,
            "conditions": conditions,
        }
    )
    event = annotated(event, note(report, scope, noted))
    if spec == before and status == have:
        return refresh_report_time(event, now)
    status = status.model_copy(update={"last_seen": now})
    return event.model_copy(update={"spec": spec, "status": status})


def annotated(event: HostEvent, record: EventRecord) -> HostEvent:
    """Return the event with this record in its annotation."""
    if record == note_of(event):
        return event
    annotations = {**event.metadata.annotations, ANNOTATION: record.encoded()}
    meta = event.metadata.model_copy(update={"annotations": annotations})
    return event.model_copy(update={"metadata": meta})


def _end(report: Reported, phase: HostEventPhase, now: datetime) -> datetime | None:
    """Return `notAfter`; for an alert, the time at which it ended."""
    if not is_alert(report):
        return report.not_after
    return None if phase.open else report.not_after or now


def refresh_report_time(event: HostEvent, now: datetime) -> HostEvent:
    """Return the event with `lastSeen` set to now, unless it is recent enough."""
    last = event.status.last_seen
    watchdog = event.spec.attributes.get(ALERT_NAME) == WATCHDOG
    if last is not None and now - last < (WATCHDOG_EVERY if watchdog else REFRESH_EVERY):
        return event
    status = event.status.model_copy(update={"last_seen": now})
    return event.model_copy(update={"status": status})


def _why(report: Reported, phase: HostEventPhase) -> tuple[str, str]:
    if phase is HostEventPhase.EXPIRED and (report.phase is None or report.phase.open):
        return PAST, "its end is past"
    return REPORTED, "its source says so"


def _node(report: Reported, node: Resolution) -> HostEventNode:
    given = report.host.provider_id if report.host is not None else ""
    return HostEventNode(
        name=node.name, provider_id=(node.provider_id or given)[:512], uid=node.uid
    )
