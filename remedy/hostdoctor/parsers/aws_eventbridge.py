"""Parses events of EC2, Auto Scaling and AWS Health as EventBridge delivers them. Pure.

Forms: the event references of EC2, Auto Scaling and AWS Health, which use three date formats.
"""

from collections.abc import Callable
from datetime import datetime, timedelta

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.aws_imds import interruption, rebalance
from remedy.hostdoctor.parsers.payload import (
    LONGEST_MESSAGE,
    Fields,
    clean,
    decoded,
    fields,
    meant,
    of_unknown_status,
    other,
    wrong,
)
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost

TRANSPORT = "aws_eventbridge"
NOTICE = timedelta(minutes=2)
"""Time between a spot warning and the interruption."""
STOPPING = timedelta(minutes=15)
"""Time for which a stop counts as active if its end is never reported."""
LIFECYCLE_LASTS = timedelta(hours=48)
"""Longest time for which Auto Scaling holds an instance in a wait state."""
TERMINATING = "autoscaling:EC2_INSTANCE_TERMINATING"
TEST = "autoscaling:TEST_NOTIFICATION"
STATES = {
    "stopping": HostEventPhase.ACTIVE,
    "shutting-down": HostEventPhase.ACTIVE,
    "stopped": HostEventPhase.COMPLETED,
    "terminated": HostEventPhase.COMPLETED,
}
"""States that end the instance; other states belong to its return."""
EC2 = "aws.ec2"
CATEGORIES = ("scheduledChange", "issue", "investigation")
"""Categories of AWS Health: a change concerns people and rules, the others people. Further
categories are ignored.
"""
KINDS = (
    ("RETIREMENT", HostEventClass.RETIRE),
    ("TERMINATION", HostEventClass.RETIRE),
    ("STOP", HostEventClass.STOP),
    ("REBOOT", HostEventClass.REBOOT),
    ("MAINTENANCE", HostEventClass.MAINTENANCE),
)
"""Parts of event type codes of AWS Health, the more severe first."""


def parse(payload: object, now: datetime) -> ReportedEvents:
    event = fields(decoded(payload))
    kind = event.needed("detail-type")
    read = PARSERS.get(kind)
    if read is None and event.text("source") == EC2 and event.inside("detail").has("instance-id"):
        return ReportedEvents((_unread(event, event.inside("detail"), kind),))
    if read is None:
        return ReportedEvents(
            (), ignored=(f"EventBridge event of no concern: {clean(kind, 80)!r}",)
        )
    parsed = read(event, event.inside("detail"))
    return (
        ReportedEvents((), ignored=(parsed,)) if isinstance(parsed, str) else ReportedEvents(parsed)
    )


def _spot(event: Fields, detail: Fields) -> tuple[Reported, ...]:
    """Parse a spot warning, which holds the time of sending, not of the interruption."""
    at, ends = _sent(event), detail.instant("instance-termination-time")
    due = ends if ends is not None else at + NOTICE
    return (interruption(_host(detail), detail.needed("instance-action"), due, at),)


def _unread(event: Fields, detail: Fields, kind: str) -> Reported:
    """Return an unknown kind of EC2 event about an instance."""
    name = event.identity("id")
    return other(HostEventSource.AWS, name, _host(detail), kind, advisory=True)


def _rebalance(event: Fields, detail: Fields) -> tuple[Reported, ...]:
    _sent(event)
    return (rebalance(_host(detail), event.needed("time")),)


def _state(event: Fields, detail: Fields) -> tuple[Reported, ...] | str:
    state, host, at = detail.needed("state"), _host(detail), _sent(event)
    if state not in STATES:
        return f"instance is {clean(state, 40)}: that ends nothing"
    phase = STATES[state]
    return (
        Reported(
            HostEventSource.AWS,
            "state-change",
            HostEventClass.STOP,
            host,
            phase=phase,
            not_after=at + STOPPING if phase.open else None,
            attributes={"state": state},
            message=f"EC2 says that the instance is {state}",
        ),
    )


def _lifecycle(event: Fields, detail: Fields) -> tuple[Reported, ...] | str:
    return lifecycle(detail, _sent(event))


def lifecycle(detail: Fields, at: datetime) -> tuple[Reported, ...] | str:
    """Parse a lifecycle action: the instance waits for our answer until the timeout of its hook,
    before its group ends it. `externalID` holds what the answer needs: hook and token.
    """
    if detail.text("Event") == TEST:
        return "test notification of Auto Scaling"
    transition = detail.needed("LifecycleTransition")
    if transition != TERMINATING:
        return f"lifecycle transition of no concern: {clean(transition, 80)!r}"
    hook, token = detail.needed("LifecycleHookName"), detail.needed("LifecycleActionToken")
    if len(hook) > 255 or "/" in hook:
        raise wrong(detail.path("LifecycleHookName"), hook, "at most 255 characters without /")
    if len(token) > 64:
        raise wrong(detail.path("LifecycleActionToken"), token, "a token")
    return (
        Reported(
            HostEventSource.AWS,
            lifecycle_id(hook, token),
            HostEventClass.STOP,
            ReportedHost(instance=detail.identity("EC2InstanceId")),
            phase=HostEventPhase.SCHEDULED,
            not_after=at + LIFECYCLE_LASTS,
            attributes=detail.notes(group="AutoScalingGroupName", hook="LifecycleHookName"),
            message="its Auto Scaling group ends the instance: a lifecycle action waits",
        ),
    )


def lifecycle_id(hook: str, token: str) -> str:
    return f"lifecycle/{hook}/{token}"


def _health(event: Fields, detail: Fields) -> tuple[Reported, ...] | str:
    """Parse changes that AWS has scheduled for instances; issues and notices end no machine."""
    service, category = detail.needed("service"), detail.needed("eventTypeCategory")
    code = detail.needed("eventTypeCode")
    if service != "EC2" or category not in CATEGORIES:
        return f"health event of no concern: {clean(f'{service} {category} {code}', 120)}"
    class_ = next((class_ for word, class_ in KINDS if word in code), HostEventClass.OTHER)
    if category != "scheduledChange":
        class_ = HostEventClass.OTHER
    status = detail.text("statusCode") or "open"
    phase = HostEventPhase.ACTIVE if status == "open" else meant(status)
    finished = phase is not None and not phase.open
    identity = "eventArn" if detail.has("eventArn") else "id"
    where = detail if detail.has("eventArn") else event
    descriptions = [
        text
        for entry in detail.each("eventDescription")
        if (text := entry.text("latestDescription", most=LONGEST_MESSAGE))
    ]
    if phase is None:
        name, source = where.identity(identity), HostEventSource.AWS
        return tuple(
            of_unknown_status(source, name, ReportedHost(instance=_instance(entity)), code, status)
            for entity in detail.each("affectedEntities")
        )
    begins, ends = detail.instant("startTime"), detail.instant("endTime")
    return tuple(
        Reported(
            HostEventSource.AWS,
            where.identity(identity),
            class_,
            ReportedHost(instance=_instance(entity)),
            phase=phase if finished else None,
            severity=Severity.CRITICAL if class_ is HostEventClass.RETIRE else Severity.WARNING,
            not_before=begins,
            not_after=ends if ends is not None and (begins is None or ends > begins) else None,
            attributes={"code": code},
            message=descriptions[0] if descriptions else code,
        )
        for entity in detail.each("affectedEntities")
    )


def _instance(entity: Fields) -> str:
    """Return an instance's ID, or the end of its ARN."""
    return entity.identity("entityValue").rpartition("/")[2] or entity.identity("entityValue")


def _host(detail: Fields) -> ReportedHost:
    return ReportedHost(instance=detail.identity("instance-id"))


def _sent(event: Fields) -> datetime:
    at = event.instant("time")
    if at is None:
        raise wrong(event.path("time"), None, "the event's time")
    return at


PARSERS: dict[str, Callable[[Fields, Fields], tuple[Reported, ...] | str]] = {
    "EC2 Spot Instance Interruption Warning": _spot,
    "EC2 Capacity Reservation Instance Interruption Warning": _spot,
    "EC2 Instance Rebalance Recommendation": _rebalance,
    "EC2 Spot Instance Rebalance Recommended": _rebalance,
    "EC2 Instance-terminate Lifecycle Action": _lifecycle,
    "EC2 Instance State-change Notification": _state,
    "AWS Health Event": _health,
}
