"""Parses the body of an SQS message: an EventBridge event, one through SNS, or a message that Auto
Scaling sends directly to the queue. Pure.
"""

from datetime import datetime

from remedy.hostdoctor.parsers import aws_eventbridge
from remedy.hostdoctor.parsers.payload import Fields, clean, decoded, fields, wrong
from remedy.hostdoctor.report import ReportedEvents

TRANSPORT = "aws_sqs"


def parse(payload: object, now: datetime) -> ReportedEvents:
    body = fields(decoded(payload))
    if body.text("Type") == "Notification" and isinstance(body.values.get("Message"), str):
        body = fields(decoded(body.values["Message"]), "Message")
    if body.has("detail-type"):
        return aws_eventbridge.parse(body.values, now)
    return _autoscaling(body)


def _autoscaling(body: Fields) -> ReportedEvents:
    """Parse a message of Auto Scaling. Its test message differs from a real one only by `Event`; a
    report of what has happened (`Event` without `LifecycleTransition`) needs nothing.
    """
    if body.text("Event") == aws_eventbridge.TEST:
        return ReportedEvents((), ignored=("test notification of Auto Scaling",))
    if not body.has("LifecycleTransition"):
        if not body.has("Event"):
            raise wrong(
                "detail-type",
                body.values.get("detail-type"),
                "an event of EventBridge or Auto Scaling",
            )
        return ReportedEvents(
            (), ignored=(f"notice of Auto Scaling: {clean(body.text('Event'), 80)!r}",)
        )
    at = body.instant("Time")
    if at is None:
        raise wrong(body.path("Time"), None, "the message's time")
    parsed = aws_eventbridge.lifecycle(body, at)
    return (
        ReportedEvents((), ignored=(parsed,)) if isinstance(parsed, str) else ReportedEvents(parsed)
    )
