"""Conditions and Events as node-problem-detector writes them: whole seconds, core/v1 Events."""

from collections.abc import Iterable
from datetime import UTC, datetime

from agent.detectors import ConditionReport, EventReport, EventSeverity, ReportedStatus
from agent.nodestatus.board import KnownCondition
from agent.nodestatus.tally import EventEntry

NAMESPACE = "default"
"""Of Events about what has no namespace; core/v1 validation wants it."""


def conditions(known: Iterable[KnownCondition], now: datetime) -> dict[str, object]:
    """The strategic merge patch of the Node's status: lists merge by `type`."""
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
    """A condition that changes is an Event as well."""
    message = (
        f"Node condition {report.type} is now: {report.status}, reason: {report.reason}, "
        f'message: "{report.message}"'
    )
    bad = report.status == ReportedStatus.TRUE
    severity = EventSeverity.WARNING if bad else EventSeverity.INFO
    return EventReport(report.reason, message, severity, report.at, report.detector)


def event(entry: EventEntry, node: str, agent: str, node_uid: str) -> dict[str, object]:
    """An agent that is called otherwise than its Node writes about its Machine: the API server
    cannot tell from an Event which Node is whose.
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
    """The merge patch of an Event that happened again."""
    return {
        "count": entry.count,
        "lastTimestamp": whole_second(entry.last),
        "message": entry.message,
    }


def event_name(entry: EventEntry, agent: str) -> str:
    return f"{agent[:230].rstrip('.-')}.{entry.name}"


def whole_second(at: datetime) -> str:
    """metav1.Time."""
    return at.astimezone(UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
