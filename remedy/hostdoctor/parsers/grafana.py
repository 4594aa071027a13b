"""Parses Grafana's webhook: Alertmanager's form with organization, values and links.

Grafana's alerts have the source Alertmanager too: rules ask which alert fires, not which program
sent it. Fingerprints are unique within an organization only, so the external ID includes it.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from remedy.hostdoctor.parsers.alerts import check_choice, parse_alerts
from remedy.hostdoctor.parsers.fields import Fields, fields, plain
from remedy.hostdoctor.report import ParseError, ReportedEvents

LINKS = ("dashboardURL", "panelURL", "silenceURL")


def parse(payload: Any, now: datetime) -> ReportedEvents:
    """Parse a delivery. Raises ParseError."""
    body = fields(payload, "")
    if "alerts" not in body and "ruleName" in body:
        raise ParseError(
            "alerts: are missing: this is the form of Grafana before version 9; use its unified"
            " alerting"
        )
    check_choice(body, "version", ("1", "4"))
    org = body.get("orgId")
    prefix = f"grafana/{plain(org)}/" if org is not None else "grafana/"
    return parse_alerts(body, prefix, lambda alert, path: _more(alert, org))


def _more(alert: Fields, org: Any) -> Mapping[str, str]:
    attributes = {
        key: alert[key] for key in LINKS if isinstance(alert.get(key), str) and alert[key]
    }
    values = alert.get("values")
    if isinstance(values, Mapping) and values:
        attributes["values"] = json.dumps(values, sort_keys=True, default=str)
    if org is not None:
        attributes["orgId"] = plain(org)
    return attributes
