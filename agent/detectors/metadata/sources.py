"""The documents of each cloud's metadata service, and how to read them.

- aws: needs a session token (IMDSv2); spot and rebalance every 5 s, scheduled every 30 s (EC2 user
  guide)
- azure: one document, header `Metadata: true`; the first request may take two minutes, because it
  enables Scheduled Events for the machine (Azure's documentation)
- gcp: header `Metadata-Flavor: Google`; the server waits for a change (`wait_for_change`)
"""

import json
from typing import Any, Protocol
from urllib.parse import quote

from agent.detectors.metadata.service import Document, Service, Unreadable
from agent.detectors.metadata.settings import Metadata

OFTEN, SELDOM = 5.0, 30.0
"""Seconds between two reads."""
PATIENCE = 5.0
"""Timeout in seconds. The machine's own host answers."""
FIRST_OF_AZURE = 130.0
TOKEN_SECONDS = 21_600
HANG = 60.0
"""Seconds that Google Cloud's server is asked to wait for a change."""
AZURE_PATH = "/metadata/scheduledevents?api-version=2020-07-01"
AZURE_HEADERS = {"Metadata": "true"}
GCP_HEADERS = {"Metadata-Flavor": "Google"}


class MetadataSource(Protocol):
    """Source of one document.

    transport: name of the document's kind
    every: seconds between two reads
    """

    transport: str
    every: float

    async def read(self) -> Any:
        """Return the document: JSON, text, or None if there is none. Raises Unreadable."""
        ...


class AwsToken:
    """Session token for all documents of EC2."""

    def __init__(self, service: Service) -> None:
        self._service, self._token = service, ""

    async def get(self, path: str) -> Document:
        """Return a document. Raises Unreadable."""
        for fresh in (not self._token, True):
            if fresh:
                self._token = await self._new()
            headers = {"X-aws-ec2-metadata-token": self._token}
            status, document = await self._service.request("GET", path, headers, PATIENCE)
            if status == 401:
                continue
            if status == 404:
                return Document("")
            if status != 200:
                raise Unreadable(f"GET {path}: {status} {document.text[:100]}")
            return document
        raise Unreadable(f"GET {path}: a new session token is refused too")

    async def _new(self) -> str:
        headers = {"X-aws-ec2-metadata-token-ttl-seconds": str(TOKEN_SECONDS)}
        path = "/latest/api/token"
        status, document = await self._service.request("PUT", path, headers, PATIENCE)
        if status != 200 or not document.text:
            raise Unreadable(f"PUT {path}: {status}: is IMDSv2 on, and its hop limit high enough?")
        return document.text


class AwsDocument:
    def __init__(self, token: AwsToken, transport: str, path: str, every: float) -> None:
        self.transport, self.every = transport, every
        self._token, self._path = token, path

    async def read(self) -> Any:
        return _json((await self._token.get(self._path)).text)


class AzureEventSource:
    """Azure's document, which is about all machines of a set: Host Doctor picks each one's part."""

    transport = "azure_imds"

    def __init__(self, service: Service, every: float) -> None:
        self.every = every
        self._service, self._seconds = service, FIRST_OF_AZURE

    async def read(self) -> Any:
        document = await self._service.get(AZURE_PATH, AZURE_HEADERS, self._seconds)
        if not document.text:
            raise Unreadable(f"GET {AZURE_PATH}: 404: the machine has no Scheduled Events")
        self._seconds = PATIENCE
        return _json(document.text)


class GcpDocument:
    """A document of Google Cloud. The first read returns at once, later ones after a change."""

    every = 0.0

    def __init__(self, service: Service, transport: str, path: str, *, is_json: bool) -> None:
        self.transport = transport
        self._service, self._path, self._is_json = service, path, is_json
        self._etag = ""

    async def read(self) -> Any:
        wait = f"wait_for_change=true&timeout_sec={HANG:g}&last_etag={quote(self._etag or '0')}"
        path = f"/computeMetadata/v1/instance/{self._path}?{wait}"
        path += "&alt=json" if self._is_json else ""
        document = await self._service.get(path, GCP_HEADERS, HANG + 2 * PATIENCE)
        if not document.etag:
            # A missing document is returned at once, so wait before the next read.
            self.every = SELDOM
        else:
            self.every, self._etag = 0.0, document.etag
        return _json(document.text) if self._is_json else document.text.strip()


def sources(given: Metadata, service: Service) -> list[MetadataSource]:
    often, seldom = given.every_seconds or OFTEN, given.every_seconds or SELDOM
    match given.cloud:
        case "aws":
            token, base = AwsToken(service), "/latest/meta-data"
            spot = f"{base}/spot/instance-action"
            scheduled = f"{base}/events/maintenance/scheduled"
            rebalance = f"{base}/events/recommendations/rebalance"
            return [
                AwsDocument(token, "aws_imds_spot", spot, often),
                AwsDocument(token, "aws_imds_rebalance", rebalance, often),
                AwsDocument(token, "aws_imds_scheduled", scheduled, seldom),
            ]
        case "azure":
            return [AzureEventSource(service, often)]
        case "gcp":
            upcoming = ("gcp_upcoming_maintenance", "upcoming-maintenance")
            return [
                GcpDocument(service, *upcoming, is_json=True),
                GcpDocument(service, "gcp_maintenance_event", "maintenance-event", is_json=False),
                GcpDocument(service, "gcp_preempted", "preempted", is_json=False),
            ]
        case _:
            return []


def _json(text: str) -> Any:
    if not text.strip():
        return None
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise Unreadable(f"the document is no JSON: {text[:100]!r}") from error
