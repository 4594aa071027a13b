"""Approves the start of one of Azure's scheduled events."""

import json
from enum import Enum, auto
from typing import Any

from agent.detectors.metadata.service import Service, Unreadable
from agent.detectors.metadata.settings import Metadata
from agent.detectors.metadata.sources import AZURE_HEADERS, AZURE_PATH, AzureEventSource


class NotApproved(Exception):
    """The event was not approved; the sentence says why."""


class Began(Enum):
    NOW = auto()
    ALREADY = auto()


async def approve(given: Metadata, event: str, seconds: float) -> Began:
    """Approve a listed event; return whether it had begun already. Raises NotApproved."""
    service = Service(given.address)
    try:
        listed = _listed(await AzureEventSource(service, 0.0).read(), event)
        if listed.get("EventStatus") == "Started":
            return Began.ALREADY
        body = json.dumps({"StartRequests": [{"EventId": event}]}).encode()
        headers = {**AZURE_HEADERS, "Content-Type": "application/json"}
        status, answer = await service.request("POST", AZURE_PATH, headers, seconds, body)
        if status != 200:
            raise NotApproved(f"the metadata service answers {status} {answer.text[:100]}")
        return Began.NOW
    except Unreadable as error:
        raise NotApproved(str(error)) from error
    finally:
        await service.close()


def _listed(document: Any, event: str) -> dict[str, Any]:
    events = document.get("Events") if isinstance(document, dict) else None
    for entry in events if isinstance(events, list) else ():
        if isinstance(entry, dict) and entry.get("EventId") == event:
            return entry
    raise NotApproved(f"event {event} is not among the machine's scheduled events any more")
