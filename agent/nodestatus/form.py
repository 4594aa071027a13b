"""Conditions and Events as node-problem-detector writes them: whole seconds, core/v1 Events."""

from collections.abc import Iterable
from datetime import UTC, datetime

from agent.detectors import ConditionReport, EventReport, EventSeverity, ReportedStatus
from agent.nodestatus.board import KnownCondition
from agent.nodestatus.tally import EventEntry

NAMESPACE = "default"
"""Namespace of Events about cluster-scoped objects, as core/v1 validation requires."""


def conditions(known: Iterable[KnownCondition], now: datetime) -> dict[str, object]:
    """Return the strategic merge patch of the Node's status, in which lists merge by `type`."""
    listed = [
        {
            "type": condition.type,
            "status": condition.status.value,
            "reason": condition.reason,
            "message": condition.message,
            "lastHeartbeatTime": whole_second(max(now, condition.since)),
            "lastTransitionTime": whole_second(condition.since),
        }
        for condition in known
    ]
    return {"status": {"conditions": listed}}


def changed(report: ConditionReport) -> EventReport:
    """Return the Event for a changed condition."""
    message = (
        f"Node condition {report.type} is now: {report.status}, reason: {report.reason}, "
        f'message: "{report.message}"'
    )
    bad = report.status == ReportedStatus.TRUE
    severity = EventSeverity.WARNING if bad else EventSeverity.INFO
    return EventReport(report.reason, message, severity, report.at, report.detector)


def event(entry: EventEntry, node: str, agent: str, node_uid: str) -> dict[str, object]:
    """Return the body of an Event.

    If the agent is not named like its Node, the Event is about its Machine, because the API server
    cannot tell from an Event which Node belongs to the agent.
    """
    about = {"kind": "Node", "apiVersion": "v1", "name": node, "uid": node_uid}
    related: dict[str, object] = {}
    if agent != node:
        related = {"related": about}
        about = {"kind": "Machine", "apiVersion": "kubenode.io/v1alpha1", "name": agent}
    return {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": event_name(entry, agent), "namespace": NAMESPACE},
        "involvedObject": about,
        **related,
        "type": entry.severity.value,
        "reason": entry.reason,
        "message": entry.message,
        "source": {"component": entry.detector, "host": agent},
        "reportingComponent": entry.detector,
        "reportingInstance": agent,
        "firstTimestamp": whole_second(entry.first),
        "lastTimestamp": whole_second(entry.last),
        "count": entry.count,
    }


def counted(entry: EventEntry) -> dict[str, object]:
    """Return the merge patch of an Event that occurred again."""
    return {
        "count": entry.count,
        "lastTimestamp": whole_second(entry.last),
        "message": entry.message,
    }


def event_name(entry: EventEntry, agent: str) -> str:
    return f"{agent[:230].rstrip('.-')}.{entry.name}"


def whole_second(at: datetime) -> str:
    """Format a metav1.Time."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
