"""The list of incidents, and the page of one incident."""

from typing import Any

from sqlalchemy import Connection

from insight.analyses.incidents import MOST_INCIDENTS, Incident, list_incidents
from insight.site.request import PageRequest
from kubenode.runtime.site.text import seconds


def build_incidents(connection: Connection, page: PageRequest) -> dict[str, Any]:
    rows = list_incidents(connection, page.selection)
    number = f"The latest {len(rows)}" if len(rows) == MOST_INCIDENTS else str(len(rows) or "No")
    noun = "incident" if len(rows) == 1 else "incidents"
    return {"sentence": f"{number} {noun}.", "incidents": rows}


def build_incident(incident: Incident) -> dict[str, Any]:
    """Return the values of the page of an incident."""
    transition = incident.closed or incident.opened
    return {
        "incident": incident,
        "job": transition.job if transition is not None else None,
        "node": transition.node if transition is not None else None,
        "sentence": _sentence(incident),
        "begin": incident.moments[0].at if incident.moments else None,
    }


def _sentence(incident: Incident) -> str:
    closed = incident.closed
    if closed is None:
        return f"{incident.job} is open, as far as the store knows."
    if closed.verified is None:
        return f"{incident.job} ended as {closed.phase}."
    took = seconds(max(0.0, (closed.verified - closed.first_true).total_seconds()))
    return f"{incident.job} healed {incident.node} in {took}."
