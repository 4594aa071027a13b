"""One HostEvent and what is said of it now: the object as it should be. Pure, and repeatable.

    alerts    a delivery tells of one time that the alert fired: from `startsAt` on, or until
              `endsAt`. The latest start and the latest end that were ever told decide: it fires if
              it started after it ended. So order and repetition of deliveries do not matter.
    messages  a phase goes forward only; what is over stays over
    lists     what the list says counts, backwards too; what a complete one lacks is over. Where
              several lists tell of one event the first speaks for it, a phase goes forward only,
              and it is over when all of them lack it

The object is given back unchanged where nothing is news: then nothing is written.
"""

from datetime import datetime, timedelta
from typing import Any

import msgspec

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
    LACKING,
    OPEN,
    PAST,
    TOLD,
    ended,
    of_node,
    with_condition,
)
from remedy.hostdoctor.nodes import Resolution
from remedy.hostdoctor.record import (
    ANNOTATION,
    MOST_ATTRIBUTES,
    Note,
    fitted,
    is_alert,
    name_of,
    note,
    note_of,
)
from remedy.hostdoctor.reported import Reported
from remedy.remedier.hostevents import ALERT_NAME, WATCHDOG

SEEN_EVERY = timedelta(minutes=5)
"""`lastSeen` may be so old; it is written for itself no more often."""
WATCHDOG_EVERY = timedelta(minutes=1)
LATE = timedelta(minutes=5)
"""A delivery about a time that has ended may arrive this late. After that the same start is one
that Alertmanager thought ended, because it had not heard of it: it fires on."""
ADVICE_LASTS = timedelta(hours=1)
_RANK = {
    HostEventPhase.AWAITING_APPROVAL: 0,
    HostEventPhase.SCHEDULED: 1,
    HostEventPhase.ACTIVE: 2,
}


def step(
    event: HostEvent | None,
    told: Reported,
    node: Resolution,
    now: datetime,
    *,
    scope: str = "",
    complete: bool = False,
) -> HostEvent:
    """`event` None: it is heard of for the first time."""
    told = fitted(told)
    if event is None:
        return _first(told, node, now, scope)
    if is_alert(told):
        return _alert(event, told, node, now, scope)
    wanted = phase_of(told, now)
    have = event.status.phase
    alone = set(note_of(event).scopes) <= {scope}
    if have is not None and not _moves(event, told, have, wanted, now, listed=complete and alone):
        return _heard(event, told, wanted, now, scope)
    fresh = have is None or (not have.open and wanted.open)
    return _written(event, told, node, wanted, now, scope, again=fresh)


def phase_of(told: Reported, now: datetime) -> HostEventPhase:
    if told.phase is not None and not told.phase.open:
        return told.phase
    if told.not_after is not None and told.not_after <= now:
        return HostEventPhase.EXPIRED
    if told.phase is not None:
        return told.phase
    later = told.not_before is not None and told.not_before > now
    return HostEventPhase.SCHEDULED if later else HostEventPhase.ACTIVE


def lacking(event: HostEvent, now: datetime, scope: str = "") -> HostEvent:
    """A complete list lacks it: that of `scope`, "" for the only one that told of it."""
    phase, told = event.status.phase, note_of(event)
    if phase is None or not phase.open or not told.silent:
        return event
    left = tuple(each for each in told.scopes if scope and each != scope)
    if scope and len(left) == len(told.scopes):
        return event
    if left:
        return _annotated(event, msgspec.structs.replace(told, scopes=left))
    starts = event.spec.not_before
    over = phase is HostEventPhase.ACTIVE or starts is None or starts <= now
    end = HostEventPhase.COMPLETED if over else HostEventPhase.CANCELLED
    return ended(event, end, LACKING, "its source lists it no more", now)


# -- alerts --------------------------------------------------------------------------------------


def _alert(
    event: HostEvent, told: Reported, node: Resolution, now: datetime, scope: str
) -> HostEvent:
    """spec.notBefore is the latest start that was told, spec.notAfter the latest end."""
    start, end = event.spec.not_before, event.spec.not_after
    # One that says no start goes on, if it is under way.
    starts = told.not_before or (start if start is not None and end is None else now)
    ends = told.not_after
    if told.phase is HostEventPhase.COMPLETED:
        ends = ends or end or now  # one that says no end has ended by now
        if (start is not None and ends < start) or (end is not None and ends <= end):
            return _finished(event, now)
        latest = max((t for t in (start, told.not_before) if t is not None), default=None)
        return _written(event, told, node, HostEventPhase.COMPLETED, now, scope, start=latest)
    latest = starts if start is None else max(start, starts)
    if end is not None and starts <= end and not _resumed(event, now):
        return _finished(event, now)
    phase = event.status.phase
    if end is None and phase is not None and phase.open:
        # A later start under way: one that ended meanwhile, and nobody said so.
        again = latest != start
        return _written(
            event, told, node, HostEventPhase.ACTIVE, now, scope, again=again, start=latest
        )
    return _written(event, told, node, HostEventPhase.ACTIVE, now, scope, again=True, start=latest)


def _resumed(event: HostEvent, now: datetime) -> bool:
    phase, heard = event.status.phase, event.status.last_seen
    return phase is not None and not phase.open and heard is not None and now - heard > LATE


def _finished(event: HostEvent, now: datetime) -> HostEvent:
    """Old news; but a crash may have come between the two writes of the newer."""
    phase = event.status.phase
    if event.spec.not_after is not None and (phase is None or phase.open):
        return ended(event, HostEventPhase.COMPLETED, TOLD, "its source says so", now)
    return event


# -- everything else -----------------------------------------------------------------------------


def _moves(
    event: HostEvent,
    told: Reported,
    have: HostEventPhase,
    wanted: HostEventPhase,
    now: datetime,
    *,
    listed: bool,
) -> bool:
    """Whether what is told changes the event: it is not older than what we know."""
    if not have.open:
        if not wanted.open:
            return False
        if have is HostEventPhase.EXPIRED:
            return not told.advisory  # `wanted` is open: its end has moved
        return listed
    if not wanted.open or listed or _RANK[wanted] >= _RANK[have]:
        return True
    before = event.spec.not_before
    return told.not_before is not None and before is not None and told.not_before > before


def _heard(
    event: HostEvent, told: Reported, wanted: HostEventPhase, now: datetime, scope: str
) -> HostEvent:
    """It changes nothing, but who else tells of it, and when it was heard of."""
    have = event.status.phase
    if have is not None and have.open:
        event = _annotated(event, note(told, scope, note_of(event)))
    elif wanted.open and have is not HostEventPhase.EXPIRED:
        return event
    return _seen(event, now)


# -- writing -------------------------------------------------------------------------------------


def _first(told: Reported, node: Resolution, now: datetime, scope: str) -> HostEvent:
    """An alert that is told to be over is kept too: its start may arrive after its end."""
    phase = phase_of(told, now)
    before = told.not_before
    if is_alert(told) and phase.open:
        before = before or now
    status = HostEventStatus(
        phase=phase,
        first_seen=now,
        last_seen=now,
        seen=1,
        conditions=of_node([], node, now),
    )
    meta = ObjectMeta(name=name_of(told), annotations={ANNOTATION: note(told, scope).encoded()})
    spec = HostEventSpec(
        source=told.source,
        external_id=told.external_id,
        class_=told.class_,
        severity=told.severity,
        node=_node(told, node),
        not_before=before,
        not_after=_end(told, phase, now),
        attributes=dict(told.attributes),
        message=told.message,
    )
    event = HostEvent(metadata=meta, spec=spec, status=status)
    if phase.open:
        return event
    reason, text = _why(told, phase)
    return ended(event, phase, reason, text, now)


def _written(
    event: HostEvent,
    told: Reported,
    node: Resolution,
    phase: HostEventPhase,
    now: datetime,
    scope: str,
    *,
    again: bool = False,
    start: datetime | None = None,
) -> HostEvent:
    """again  it has come back, or is another time that it happens
    start  `notBefore`, where what is told does not decide it
    """
    before, have, noted = event.spec, event.status, note_of(event)
    changes: dict[str, Any] = {
        "severity": told.severity,
        "not_before": start or told.not_before or (now if is_alert(told) else None),
        "not_after": _end(told, phase, now),
        "attributes": dict(told.attributes),
        "message": told.message,
    }
    if is_alert(told) and not again:
        # Texts of alerts hold values that tick: they are taken once for each time that it fires.
        del changes["attributes"], changes["message"]
    elif noted.scope not in ("", scope):
        # Two who describe one event would write over each other for ever.
        changes = {"attributes": {**told.attributes, **before.attributes}}
        if len(changes["attributes"]) > MOST_ATTRIBUTES:
            changes = {}
    if node.resolved or not before.node.name:
        changes["node"] = _node(told, node)
    spec = before.model_copy(update=changes)
    conditions = have.conditions
    if node.resolved or not before.node.name:
        conditions = of_node(conditions, node, now)
    if not phase.open:
        conditions = with_condition(conditions, ENDED, True, *_why(told, phase), now)
    elif any(c.type == ENDED for c in conditions):
        conditions = with_condition(conditions, ENDED, False, OPEN, "it is under way again", now)
    counted = have.seen + 1 if again and phase.open else max(have.seen, 1)
    status = have.model_copy(
        update={
            "phase": phase,
            "seen": counted,
            "first_seen": have.first_seen or now,
            "conditions": conditions,
        }
    )
    event = _annotated(event, note(told, scope, noted))
    if spec == before and status == have:
        return _seen(event, now)
    status = status.model_copy(update={"last_seen": now})
    return event.model_copy(update={"spec": spec, "status": status})


def _annotated(event: HostEvent, told: Note) -> HostEvent:
    if told == note_of(event):
        return event
    annotations = {**event.metadata.annotations, ANNOTATION: told.encoded()}
    meta = event.metadata.model_copy(update={"annotations": annotations})
    return event.model_copy(update={"metadata": meta})


def _end(told: Reported, phase: HostEventPhase, now: datetime) -> datetime | None:
    """`notAfter`: of an alert the time when it ended."""
    if not is_alert(told):
        return told.not_after
    return None if phase.open else told.not_after or now


def _seen(event: HostEvent, now: datetime) -> HostEvent:
    last = event.status.last_seen
    watchdog = event.spec.attributes.get(ALERT_NAME) == WATCHDOG
    if last is not None and now - last < (WATCHDOG_EVERY if watchdog else SEEN_EVERY):
        return event
    status = event.status.model_copy(update={"last_seen": now})
    return event.model_copy(update={"status": status})


def _why(told: Reported, phase: HostEventPhase) -> tuple[str, str]:
    if phase is HostEventPhase.EXPIRED and (told.phase is None or told.phase.open):
        return PAST, "its end is past"
    return TOLD, "its source says so"


def _node(told: Reported, node: Resolution) -> HostEventNode:
    given = told.host.provider_id if told.host is not None else ""
    return HostEventNode(
        name=node.name, provider_id=(node.provider_id or given)[:512], uid=node.uid
    )
