"""Grafana's webhook: Alertmanager's form with the organization, the values and links beside it.

Grafana's alerts are of source Alertmanager too: rules ask what fires, not which program says so.
Fingerprints are of an organization, so two of them do not name the same alert.
"""

import json
from collections.abc import Mapping
from datetime import datetime
from typing import Any

from remedy.hostdoctor.parsers.alerts import one_of, told
from remedy.hostdoctor.parsers.fields import Fields, fields, plain
from remedy.hostdoctor.reported import ParseError, ReportedEvents

LINKS = ("dashboardURL", "panelURL", "silenceURL")


def parse(payload: Any, now: datetime) -> ReportedEvents:
    """Raises ParseError."""
    body = fields(payload, "")
    if "alerts" not in body and "ruleName" in body:
        raise ParseError(
            "alerts: are missing: this is the form of Grafana before version 9; use its unified"
            " alerting"
        )
    one_of(body, "version", ("1", "4"))
    org = body.get("orgId")
    prefix = f"grafana/{plain(org)}/" if org is not None else "grafana/"
    return told(body, prefix, lambda alert, path: _more(alert, org))


def _more(alert: Fields, org: Any) -> Mapping[str, str]:
    found = {key: alert[key] for key in LINKS if isinstance(alert.get(key), str) and alert[key]}
    values = alert.get("values")
    if isinstance(values, Mapping) and values:
        found["values"] = json.dumps(values, sort_keys=True, default=str)
    if org is not None:
        found["orgId"] = plain(org)
    return found
