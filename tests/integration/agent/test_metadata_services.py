"""The metadata services of three clouds over HTTP, as their documentation describes them."""

import asyncio
from collections.abc import AsyncIterator, Iterator
from typing import Any

import pytest
from support.cloud_server import Answer, CloudServer, Request

from agent.detectors.metadata.approval import Began, NotApproved, approve
from agent.detectors.metadata.service import LONGEST, Service, Unreadable
from agent.detectors.metadata.settings import Metadata
from agent.detectors.metadata.sources import MetadataSource, sources

pytestmark = pytest.mark.integration
EVENT = "A123BC45-1234-5678-AB90-ABCDEF123456"
MAINTENANCE = {"maintenance_status": "PENDING", "window_start_time": "2026-02-01T19:00:01Z"}


class FakeMetadata:
    """documents  by path; a path that is missing is answered 404
    token      what IMDSv2 gives out now, and takes
    """

    def __init__(self) -> None:
        self.documents: dict[str, Any] = {}
        self.token = "token-1"
        self.started: list[Any] = []
        self.status = 0
        """Answered to everything."""
        self.server = CloudServer(self._answer)

    def _answer(self, request: Request) -> Answer:
        if self.status:
            return Answer(self.status, {"error": "x"})
        if request.path.startswith("/latest/"):
            return self._aws(request)
        if request.path == "/metadata/scheduledevents":
            return self._azure(request)
        return self._gcp(request)

    def _aws(self, request: Request) -> Answer:
        if request.path == "/latest/api/token":
            assert request.method == "PUT"
            assert int(request.headers["x-aws-ec2-metadata-token-ttl-seconds"]) <= 21_600
            return Answer(200, self.token.encode())
        if request.headers.get("x-aws-ec2-metadata-token") != self.token:
            return Answer(401)
        return self._found(request.path)

    def _azure(self, request: Request) -> Answer:
        assert request.headers["metadata"] == "true"
        assert request.form["api-version"] == "2020-07-01"
        if request.method == "POST":
            self.started.append(request.json)
            return Answer(200)
        return self._found(request.path)

    def _gcp(self, request: Request) -> Answer:
        assert request.headers["metadata-flavor"] == "Google"
        assert request.form["wait_for_change"] == "true"
        answer = self._found(request.path)
        etag = f"etag-{abs(hash(str(answer.body)))}"
        if answer.status == 200 and request.form["last_etag"] == etag:
            asyncio.run(asyncio.sleep(0.05))  # the server waits for a change: here not for long
        return Answer(answer.status, answer.body, {"ETag": etag} if answer.status == 200 else {})

    def _found(self, path: str) -> Answer:
        if path not in self.documents:
            return Answer(404)
        found = self.documents[path]
        return Answer(200, found.encode() if isinstance(found, str) else found)


@pytest.fixture
def cloud() -> Iterator[FakeMetadata]:
    fake = FakeMetadata()
    yield fake
    fake.server.close()


@pytest.fixture
async def service(cloud: FakeMetadata) -> AsyncIterator[Service]:
    made = Service(cloud.server.url)
    yield made
    await made.close()


def by_transport(name: str, service: Service) -> dict[str, MetadataSource]:
    given = Metadata(cloud=name)  # type: ignore[arg-type]
    return {source.transport: source for source in sources(given, service)}


async def test_ec2_is_read_with_a_session_token_and_404_is_nothing(
    cloud: FakeMetadata, service: Service
) -> None:
    found = by_transport("aws", service)
    action = {"action": "terminate", "time": "2026-01-10T10:01:30Z"}
    cloud.documents["/latest/meta-data/spot/instance-action"] = action
    cloud.documents["/latest/meta-data/events/maintenance/scheduled"] = []
    assert await found["aws_imds_spot"].read() == action
    assert await found["aws_imds_rebalance"].read() is None
    assert await found["aws_imds_scheduled"].read() == []
    assert [r.path for r in cloud.server.asked].count("/latest/api/token") == 1


async def test_a_token_that_has_expired_is_renewed(cloud: FakeMetadata, service: Service) -> None:
    source = by_transport("aws", service)["aws_imds_spot"]
    assert await source.read() is None
    cloud.token = "token-2"
    assert await source.read() is None
    assert [r.path for r in cloud.server.asked].count("/latest/api/token") == 2


async def test_azure_lists_its_events_and_404_is_no_empty_list(
    cloud: FakeMetadata, service: Service
) -> None:
    (source,) = by_transport("azure", service).values()
    with pytest.raises(Unreadable, match="404"):
        await source.read()
    document = {"DocumentIncarnation": 1, "Events": []}
    cloud.documents["/metadata/scheduledevents"] = document
    assert await source.read() == document


async def test_google_waits_for_changes_itself(cloud: FakeMetadata, service: Service) -> None:
    found = by_transport("gcp", service)
    event = found["gcp_maintenance_event"]
    base = "/computeMetadata/v1/instance"
    cloud.documents[f"{base}/maintenance-event"] = "NONE"
    assert await event.read() == "NONE"
    assert event.every == 0.0, "the server keeps us waiting"
    cloud.documents[f"{base}/maintenance-event"] = "TERMINATE_ON_HOST_MAINTENANCE"
    assert await event.read() == "TERMINATE_ON_HOST_MAINTENANCE"
    assert cloud.server.asked[-1].form["last_etag"].startswith("etag-")


async def test_a_document_that_google_does_not_have_is_not_asked_for_without_a_pause(
    cloud: FakeMetadata, service: Service
) -> None:
    upcoming = by_transport("gcp", service)["gcp_upcoming_maintenance"]
    assert await upcoming.read() is None
    assert upcoming.every >= 10
    cloud.documents["/computeMetadata/v1/instance/upcoming-maintenance"] = MAINTENANCE
    assert await upcoming.read() == MAINTENANCE


@pytest.mark.parametrize("name", ["aws", "azure", "gcp"])
@pytest.mark.parametrize("trouble", ["broken", "gone", "nonsense", "endless"])
async def test_whatever_is_wrong_with_the_service_is_no_document(
    cloud: FakeMetadata, service: Service, name: str, trouble: str
) -> None:
    source = next(iter(by_transport(name, service).values()))
    if trouble == "broken":
        cloud.status = 500
    elif trouble == "gone":
        cloud.server.gone()
    else:
        text = "<html>" if trouble == "nonsense" else "x" * (LONGEST + 1)
        for path in (
            "/latest/meta-data/spot/instance-action",
            "/metadata/scheduledevents",
            "/computeMetadata/v1/instance/upcoming-maintenance",
        ):
            cloud.documents[path] = text
    with pytest.raises(Unreadable):
        await source.read()


def azure(cloud: FakeMetadata, *events: dict[str, str]) -> Metadata:
    document = {"DocumentIncarnation": 1, "Events": list(events)}
    cloud.documents["/metadata/scheduledevents"] = document
    return Metadata(cloud="azure", address=cloud.server.url)


async def test_an_event_is_let_go_ahead_as_azure_wants_to_hear_it(cloud: FakeMetadata) -> None:
    given = azure(cloud, {"EventId": EVENT, "EventStatus": "Scheduled"})
    assert await approve(given, EVENT, 5.0) is Began.NOW
    assert cloud.started == [{"StartRequests": [{"EventId": EVENT}]}]


async def test_an_event_that_has_begun_needs_no_word(cloud: FakeMetadata) -> None:
    given = azure(cloud, {"EventId": EVENT, "EventStatus": "Started"})
    assert await approve(given, EVENT, 5.0) is Began.ALREADY
    assert cloud.started == []


async def test_nothing_is_said_of_an_event_that_is_not_listed(cloud: FakeMetadata) -> None:
    given = azure(cloud, {"EventId": "another", "EventStatus": "Scheduled"})
    with pytest.raises(NotApproved, match="not among"):
        await approve(given, EVENT, 5.0)
    assert cloud.started == []
