"""Parses Alertmanager's webhook, version 4, and version 3, whose alerts have no fingerprint."""

from datetime import datetime
from typing import Any

from remedy.hostdoctor.parsers.alerts import check_choice, parse_alerts
from remedy.hostdoctor.parsers.fields import fields
from remedy.hostdoctor.report import ReportedEvents


def parse(payload: Any, now: datetime) -> ReportedEvents:
    """Parse a delivery. Raises ParseError."""
    check_choice(fields(payload, ""), "version", ("4", "3"))
    return parse_alerts(payload, "")
