"""Common part of the webhooks of Alertmanager and Grafana: groups of alerts with labels.

How to read an alert, and what to watch out for:

    label node               the node, whatever else is present: `instance` of kube-state-metrics is
                             the address of its own pod, which is unrelated to the fault
    label instance           host:port of the scrape target, if that runs on the host itself
    neither                  about no machine, and never a node's fault
    startsAt .. endsAt       one firing; `endsAt` of a firing alert has no meaning
    fingerprint              identifies the alert, which stays the same when it fires again

A group is sent repeatedly, in no guaranteed order, and may be cut by `max_alerts`.
"""

from collections.abc import Callable, Mapping, Sequence
from datetime import datetime
from typing import Any

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.about import ABOUT, about
from remedy.hostdoctor.parsers.fields import Fields, fields, items, text, texts, time, wrong
from remedy.hostdoctor.report import ParseError, Reported, ReportedEvents, ReportedHost

NODE_LABELS = (
    "exported_node",
    "node",
    "kubernetes_node",
    "nodename",
    "node_name",
    "k8s_node_name",
    "kubernetes_io_hostname",
)
"""Labels with a node name. Prometheus renames a metric's label to exported_... if the target has
one of that name: then `node` is where the exporter runs.
"""
HOST_LABELS = ("instance", "hostname", "Hostname", "host", "host_name")
"""Further labels with a host: Hostname comes from the DCGM exporter, host_name from
OpenTelemetry.
"""
NOT_OF_A_HOST = frozenset({"kube-state-metrics"})
"""Jobs whose `instance` is the exporter's own address: they report about others."""
MESSAGE_KEYS = ("description", "message", "summary")
MOST_ALERTS = 10_000
"""Most alerts in one delivery."""
SEVERITIES = {
    "critical": Severity.CRITICAL,
    "page": Severity.CRITICAL,
    "error": Severity.CRITICAL,
    "info": Severity.INFO,
    "none": Severity.INFO,
}
_OFFSET, _PRIME, _MASK, _SEPARATOR = 0xCBF29CE484222325, 0x100000001B3, 2**64 - 1, 0xFF

More = Callable[[Fields, str], Mapping[str, str]]
"""Returns further attributes of an alert, from its fields and its path in errors."""


def parse_alerts(payload: Any, prefix: str, more: More = lambda alert, path: {}) -> ReportedEvents:
    """Return the alerts of a group; an invalid alert is ignored, the others count.

    prefix: prefix of the fingerprint in the external ID
    more: returns attributes of this transport beside the labels; a label of the same name wins

    Raises ParseError.
    """
    body = fields(payload, "")
    alerts = items(body.get("alerts"), "alerts")
    if len(alerts) > MOST_ALERTS:
        raise ParseError(
            f"alerts: are {len(alerts)}, at most {MOST_ALERTS} are taken; set max_alerts"
        )
    ignored: list[str] = []
    reports: dict[str, Reported] = {}
    for n, alert in enumerate(alerts):
        path = f"alerts[{n}]"
        try:
            report = _alert(fields(alert, path), path, prefix, more)
        except ParseError as error:
            ignored.append(str(error))
            continue
        before = reports.get(report.external_id)
        reports[report.external_id] = report if before is None else _later(before, report)
    if alerts and not reports:
        raise ParseError(ignored[0])
    cut = _truncated(body)
    if cut:
        ignored.append(f"truncatedAlerts: {cut} alerts were left out by the sender's max_alerts")
    scope = f"{text(body, 'receiver')}{{{body.get('groupKey', '')}}}"
    return ReportedEvents(tuple(reports.values()), f"alerts:{scope}", not cut, tuple(ignored))


def _alert(alert: Fields, path: str, prefix: str, more: More) -> Reported:
    labels = texts(alert, "labels", path)
    if not labels.get("alertname"):
        raise ParseError(f"{path}.labels.alertname: is missing; every alert has a name")
    notes = texts(alert, "annotations", path)
    status = text(alert, "status", path)
    if status not in ("firing", "resolved"):
        raise wrong(f"{path}.status", status, "firing or resolved")
    resolved = status == "resolved"
    starts, ends = time(alert, "startsAt", path), time(alert, "endsAt", path)
    return Reported(
        source=HostEventSource.ALERTMANAGER,
        external_id=prefix + (text(alert, "fingerprint", path) or fingerprint(labels)),
        class_=HostEventClass.ALERT,
        host=host_of(labels),
        phase=HostEventPhase.COMPLETED if resolved else HostEventPhase.ACTIVE,
        severity=SEVERITIES.get(labels.get("severity", "").lower(), Severity.WARNING),
        not_before=starts,
        not_after=(ends or starts) if resolved else None,
        attributes={**more(alert, path), **labels, ABOUT: about(labels)},
        message=next((notes[key] for key in MESSAGE_KEYS if notes.get(key)), ""),
    )


def host_of(labels: Mapping[str, str]) -> ReportedHost | None:
    for key in NODE_LABELS:
        if name := labels.get(key):
            return ReportedHost(names=(name,))
    if labels.get("job") in NOT_OF_A_HOST:
        return None
    names = tuple(dict.fromkeys(labels[key] for key in HOST_LABELS if labels.get(key)))
    return ReportedHost(names=names) if names else None


def fingerprint(labels: Mapping[str, str]) -> str:
    """Return the fingerprint as Prometheus computes it (FNV-1a over the sorted labels), for senders
    without it.
    """
    sum_ = _OFFSET
    for name in sorted(labels):
        for part in (name, labels[name]):
            for byte in (*part.encode(errors="replace"), _SEPARATOR):
                sum_ = (sum_ ^ byte) * _PRIME & _MASK
    return f"{sum_:016x}"


def _later(first: Reported, other: Reported) -> Reported:
    """Return the report about the later time, of two about the same alert in one delivery."""
    return max((first, other), key=_moment)


def _moment(alert: Reported) -> tuple[float, bool]:
    at: datetime | None = alert.not_after or alert.not_before
    return (at.timestamp() if at is not None else 0.0, alert.phase is HostEventPhase.COMPLETED)


def _truncated(body: Fields) -> int:
    value = body.get("truncatedAlerts") or 0
    return value if isinstance(value, int) and value > 0 else 0


def check_choice(body: Fields, name: str, wanted: Sequence[str]) -> None:
    """Check a field: raise ParseError unless it is absent or has one of these values."""
    value = body.get(name)
    if value is not None and str(value) not in wanted:
        raise wrong(name, value, " or ".join(wanted))
