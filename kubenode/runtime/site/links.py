"""Addresses of pages of one site that another one links to. Pure."""

from urllib.parse import quote


def incident_url(insight_url: str, job_uid: str) -> str:
    """Return the page of an incident, "" without an address of Insight or a UID."""
    if not insight_url or not job_uid:
        return ""
    return f"{insight_url.rstrip('/')}/incidents/{quote(job_uid, safe='')}"
