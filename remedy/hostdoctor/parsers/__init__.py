"""Parsers of external events by transport: a table of pure functions.

A parser gets the decoded payload (a JSON value, or the text of a transport without JSON) and the
time of its arrival. It raises ParseError for input that does not have the form of the transport,
and lists in `ReportedEvents.ignored` what it understands and is not relevant.

An event with `host` None is about no machine. One with an empty `ReportedHost()` is about the
machine that was queried: the server, which knows the calling agent, fills it in.
"""

from collections.abc import Callable, Mapping
from datetime import datetime
from typing import Any

from remedy.hostdoctor.parsers import (
    alertmanager,
    alibaba_notification,
    alibaba_status,
    aws_eventbridge,
    aws_imds,
    aws_sqs,
    aws_status,
    azure_event_grid,
    azure_imds,
    azure_resource_health,
    cloudevents,
    gcp,
    grafana,
)
from remedy.hostdoctor.report import ReportedEvents

Parser = Callable[[Any, datetime], ReportedEvents]

PARSERS: Mapping[str, Parser] = {
    "alertmanager": alertmanager.parse,
    "grafana": grafana.parse,
    "cloudevents": cloudevents.parse,
    alibaba_notification.TRANSPORT: alibaba_notification.parse,
    alibaba_status.DISKS: alibaba_status.parse_disks,
    alibaba_status.HISTORY: alibaba_status.parse_history,
    alibaba_status.INSTANCES: alibaba_status.parse_instances,
    aws_eventbridge.TRANSPORT: aws_eventbridge.parse,
    aws_imds.REBALANCE: aws_imds.parse_rebalance,
    aws_imds.SCHEDULED: aws_imds.parse_scheduled,
    aws_imds.SPOT: aws_imds.parse_spot,
    aws_sqs.TRANSPORT: aws_sqs.parse,
    aws_status.TRANSPORT: aws_status.parse,
    azure_event_grid.TRANSPORT: azure_event_grid.parse,
    azure_imds.TRANSPORT: azure_imds.parse,
    azure_resource_health.TRANSPORT: azure_resource_health.parse,
    gcp.INSTANCES: gcp.parse_instances,
    gcp.MAINTENANCE: gcp.parse_maintenance,
    gcp.PREEMPTED: gcp.parse_preempted,
    gcp.UPCOMING: gcp.parse_upcoming,
}
"""Parser by transport. Transports are named after the form of the payload, not after its sender."""

FROM_AGENTS: frozenset[str] = frozenset(
    {
        aws_imds.REBALANCE,
        aws_imds.SCHEDULED,
        aws_imds.SPOT,
        azure_imds.TRANSPORT,
        gcp.MAINTENANCE,
        gcp.PREEMPTED,
        gcp.UPCOMING,
    }
)
"""Transports that an agent may use for its own machine: the metadata services of clouds."""
