"""Sources of events through the real SDKs: pages, throttling, rights, and what is left out."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from alibabacloud_credentials.client import Client as Credentials
from alibabacloud_credentials.models import Config
from azure.core.credentials import AccessToken
from google.auth.credentials import AnonymousCredentials
from moto import mock_aws
from support.clock import FakeClock
from support.cloud_server import Answer, CloudServer, Request
from support.fake_azure import SUBSCRIPTION
from support.fake_azure import error as azure_error
from support.fake_gcp import PROJECT, ZONE
from support.fake_gcp import error as gcp_error
from support.pki import Authority

from kubenode.api.v1alpha1.hostevent import HostEventPhase
from kubenode.cli.providers_file import listened
from kubenode.providers.alibaba import events as alibaba_events
from kubenode.providers.alibaba.events import SystemEvents
from kubenode.providers.aws import events as aws_events
from kubenode.providers.aws.events import InstanceStatuses, SqsQueue
from kubenode.providers.azure.events import ResourceHealth
from kubenode.providers.errors import Denied, Throttled
from kubenode.providers.events import EventList, EventListing
from kubenode.providers.gcp.events import Maintenance
from kubenode.providers.settings import (
    AlibabaSettings,
    AwsSettings,
    AzureSettings,
    GcpSettings,
)
from kubenode.providers.threaded_events import ThreadedList, ThreadedQueue
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.report import ReportedEvents

pytestmark = pytest.mark.integration

NOW = datetime(2026, 1, 10, 10, 0, tzinfo=UTC)
REGION = "eu-west-1"
SPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"


def parsed(listing: EventListing) -> ReportedEvents:
    """Payload and transport fit: what the SDK gives is what the parser reads."""
    return PARSERS[listing.transport](listing.payload, NOW)


async def looked(source: EventList) -> list[EventListing]:
    try:
        return list(await source.list_events())
    finally:
        await source.close()


@pytest.fixture
def keys(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "testing")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("AWS_CONFIG_FILE", "/nonexistent")
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nonexistent")


@contextmanager
def served(answer: Any, **more: Any) -> Iterator[CloudServer]:
    server = CloudServer(answer, **more)
    try:
        yield server
    finally:
        server.close()


# -- AWS -------------------------------------------------------------------------------------------


def status_xml(instance: str, events: str = "", system: str = "ok") -> str:
    return (
        f"<item><instanceId>{instance}</instanceId><availabilityZone>{REGION}a</availabilityZone>"
        f"<eventsSet>{events}</eventsSet>"
        f"<systemStatus><status>{system}</status><details><item><name>reachability</name>"
        "<status>failed</status><impairedSince>2026-01-10T09:00:00.000Z</impairedSince></item>"
        "</details></systemStatus></item>"
    )


EVENT = (
    "<item><instanceEventId>instance-event-0d59937288b749b32</instanceEventId>"
    "<code>instance-stop</code><description>degraded</description>"
    "<notBefore>2026-01-21T10:00:00.000Z</notBefore></item>"
)


def page_xml(items: str, token: str = "") -> Answer:
    more = f"<nextToken>{token}</nextToken>" if token else ""
    body = (
        f'<DescribeInstanceStatusResponse xmlns="{SPACE}"><requestId>1</requestId>'
        f"<instanceStatusSet>{items}</instanceStatusSet>{more}</DescribeInstanceStatusResponse>"
    )
    return Answer(200, body.encode(), {"Content-Type": "text/xml"})


def aws(endpoint: str = "", queue: str = "") -> AwsSettings:
    return AwsSettings(
        type="aws",
        region=REGION,
        endpoint=endpoint,
        events={"queueURL": queue},
        read_timeout=timedelta(seconds=5),
    )


async def test_ec2_is_read_page_by_page_and_only_what_tells_something_is_kept(keys: None) -> None:
    quiet = status_xml("i-0fedcba9876543210")

    def answer(request: Request) -> Answer:
        assert request.form["Action"] == "DescribeInstanceStatus"
        assert request.form["IncludeAllInstances"] == "true"
        if request.form.get("NextToken") == "two":
            return page_xml(status_xml("i-0aaaaaaaaaaaaaaaa", system="impaired") + quiet)
        return page_xml(status_xml("i-0123456789abcdef0", EVENT) + quiet, "two")

    with served(answer) as server:
        (listing,) = await looked(ThreadedList(InstanceStatuses(aws(server.url))))
        assert len(server.asked) == 2
    told = parsed(listing)
    assert [(e.external_id, e.host and e.host.instance) for e in told.events] == [
        ("instance-event-0d59937288b749b32", "i-0123456789abcdef0"),
        ("system-status-impaired", "i-0aaaaaaaaaaaaaaaa"),
    ]
    assert (told.complete, listing.scope) == (True, "aws/eu-west-1")


def ec2_error(status: int, code: str) -> Answer:
    body = (
        f"<Response><Errors><Error><Code>{code}</Code><Message>x</Message></Error></Errors>"
        "<RequestID>1</RequestID></Response>"
    )
    return Answer(status, body.encode(), {"Content-Type": "text/xml"})


async def test_ec2_that_is_throttled_is_asked_again_by_the_sdk(keys: None) -> None:
    answers = [ec2_error(503, "RequestLimitExceeded"), page_xml("")]

    def answer(request: Request) -> Answer:
        return answers.pop(0)

    with served(answer) as server:
        (listing,) = await looked(ThreadedList(InstanceStatuses(aws(server.url))))
        assert len(server.asked) == 2
    assert parsed(listing).complete


async def test_ec2_without_the_right_is_an_error_and_no_empty_list(keys: None) -> None:
    with served(lambda request: ec2_error(403, "UnauthorizedOperation")) as server:
        source = ThreadedList(InstanceStatuses(aws(server.url)))
        with pytest.raises(Denied):
            await looked(source)


@pytest.fixture
def short_poll(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto waits as long as SQS does for a message that does not come."""
    monkeypatch.setattr(aws_events, "LONG_POLL", 0)


async def test_a_message_of_a_queue_is_hidden_then_deleted_and_comes_again_if_it_is_not(
    keys: None, short_poll: None
) -> None:
    with mock_aws():
        sqs = boto3.client("sqs", region_name=REGION)
        url = sqs.create_queue(QueueName="kubenode")["QueueUrl"]
        sqs.send_message(QueueUrl=url, MessageBody=json.dumps({"detail-type": "x"}))
        source = ThreadedQueue(SqsQueue(aws(queue=url)))
        try:
            (first,) = await source.receive()
            assert await source.receive() == [], "it is hidden while it is worked on"
            sqs.change_message_visibility(
                QueueUrl=url, ReceiptHandle=first.receipt, VisibilityTimeout=0
            )
            (again,) = await source.receive()
            assert again.id == first.id
            await source.delete([again])
            left = sqs.get_queue_attributes(QueueUrl=url, AttributeNames=["All"])["Attributes"]
            assert left["ApproximateNumberOfMessages"] == "0"
            assert left["ApproximateNumberOfMessagesNotVisible"] == "0"
        finally:
            await source.close()


async def test_a_queue_without_a_dead_letter_queue_is_said(keys: None, short_poll: None) -> None:
    with mock_aws():
        sqs = boto3.client("sqs", region_name=REGION)
        url = sqs.create_queue(QueueName="kubenode")["QueueUrl"]
        dead = sqs.create_queue(QueueName="dead")["QueueUrl"]
        source = ThreadedQueue(SqsQueue(aws(queue=url)))
        try:
            assert "dead-letter queue" in await source.check()
            arn = sqs.get_queue_attributes(QueueUrl=dead, AttributeNames=["QueueArn"])
            policy = {
                "deadLetterTargetArn": arn["Attributes"]["QueueArn"],
                "maxReceiveCount": 5,
            }
            sqs.set_queue_attributes(QueueUrl=url, Attributes={"RedrivePolicy": json.dumps(policy)})
            assert await source.check() == ""
        finally:
            await source.close()


# -- Azure -----------------------------------------------------------------------------------------


class Token:
    def get_token(self, *scopes: str, **kwargs: Any) -> AccessToken:
        return AccessToken("token", 2**31)


BASE = f"/subscriptions/{SUBSCRIPTION}"
MACHINE = (
    f"{BASE}/resourceGroups/MC_x/providers/Microsoft.Compute"
    "/virtualMachineScaleSets/pool/virtualMachines"
)


def health(number: int, state: str) -> dict[str, Any]:
    return {
        "id": f"{MACHINE}/{number}/providers/Microsoft.ResourceHealth/availabilityStatuses/current",
        "name": "current",
        "type": "Microsoft.ResourceHealth/AvailabilityStatuses",
        "location": "westeurope",
        "properties": {
            "availabilityState": state,
            "summary": "the machine is unavailable",
            "reasonType": "Unplanned",
            "occuredTime": "2026-01-10T09:41:03Z",
            "reasonChronicity": "Persistent",
        },
    }


@contextmanager
def azure(tmp_path: Path, answer: Any) -> Iterator[tuple[CloudServer, ThreadedList]]:
    authority = Authority(tmp_path)
    with served(answer, tls=authority.issue("azure", "azure", sans=["127.0.0.1"])) as server:
        given = AzureSettings(
            type="azure",
            subscription=SUBSCRIPTION,
            endpoint=server.url,
            ca_file=str(authority.cert_file),
            events={},
            read_timeout=timedelta(seconds=5),
        )
        yield server, ThreadedList(ResourceHealth(given, Token()))


async def test_resource_health_is_read_page_by_page(tmp_path: Path) -> None:
    pages: dict[str, list[dict[str, Any]]] = {
        "": [health(1, "Available"), health(2, "Unavailable")],
        "two": [health(3, "Degraded"), health(4, "Unknown")],
    }

    def answer(request: Request) -> Answer:
        assert request.path == f"{BASE}/providers/Microsoft.ResourceHealth/availabilityStatuses"
        token = request.form.get("$skiptoken", "")
        body: dict[str, Any] = {"value": pages[token]}
        if not token:
            body["nextLink"] = f"{server.url}{request.path}?api-version=2025-05-01&$skiptoken=two"
        return Answer(200, body)

    with azure(tmp_path, answer) as (server, source):
        (listing,) = await looked(source)
    told = parsed(listing)
    assert [e.host and e.host.instance for e in told.events] == [f"{MACHINE}/2", f"{MACHINE}/3"]
    assert told.complete


async def test_resource_health_that_is_throttled_is_asked_again_when_azure_says(
    tmp_path: Path,
) -> None:
    busy = azure_error(429, "TooManyRequests", "slow down")
    answers = [Answer(429, busy.body, {"Retry-After": "0"}), Answer(200, {"value": []})]
    with azure(tmp_path, lambda request: answers.pop(0)) as (server, source):
        (listing,) = await looked(source)
        assert len(server.asked) == 2
    assert parsed(listing).complete


async def test_resource_health_without_the_right_is_an_error(tmp_path: Path) -> None:
    refused = azure_error(403, "AuthorizationFailed", "no right")
    with azure(tmp_path, lambda request: refused) as (_, source), pytest.raises(Denied):
        await looked(source)


# -- Google Cloud ----------------------------------------------------------------------------------


def gcp(server: CloudServer) -> ThreadedList:
    given = GcpSettings(
        type="gcp",
        project=PROJECT,
        endpoint=server.url,
        events={},
        read_timeout=timedelta(seconds=5),
    )
    return ThreadedList(
        Maintenance(given, AnonymousCredentials())  # type: ignore[no-untyped-call]
    )


def instance(name: str, status: str = "") -> dict[str, Any]:
    upcoming = {
        "type": "SCHEDULED",
        "canReschedule": False,
        "windowStartTime": "2026-02-01T19:00:01Z",
        "windowEndTime": "2026-02-01T21:00:01Z",
        "maintenanceStatus": status,
        "maintenanceReasons": ["PLANNED_UPDATE"],
    }
    link = "https://www.googleapis.com/compute/v1"
    return {
        "id": "7000000000000000001",
        "name": name,
        "selfLink": f"{link}/projects/{PROJECT}/zones/{ZONE}/instances/{name}",
        "resourceStatus": {"upcomingMaintenance": upcoming} if status else {},
    }


def zones(*found: dict[str, Any], warning: str = "", token: str = "") -> Answer:
    inside: dict[str, Any] = {"instances": list(found)}
    empty = {"warning": {"code": warning or "NO_RESULTS_ON_PAGE", "message": "x"}}
    body: dict[str, Any] = {"items": {f"zones/{ZONE}": inside, "zones/europe-west4-a": empty}}
    return Answer(200, {**body, "nextPageToken": token} if token else body)


async def test_instances_of_all_zones_are_read_page_by_page() -> None:
    def answer(request: Request) -> Answer:
        assert request.path == f"/compute/v1/projects/{PROJECT}/aggregated/instances"
        if request.form.get("pageToken") == "two":
            return zones(instance("w-8", "ONGOING"))
        return zones(instance("w-6"), instance("w-7", "PENDING"), token="two")

    with served(answer) as server:
        (listing,) = await looked(gcp(server))
        assert len(server.asked) == 2
    told = parsed(listing)
    assert [(e.host and e.host.provider_id, e.phase) for e in told.events] == [
        (f"gce://{PROJECT}/{ZONE}/w-7", HostEventPhase.SCHEDULED),
        (f"gce://{PROJECT}/{ZONE}/w-8", HostEventPhase.ACTIVE),
    ]
    assert told.events[0].attributes["reasons"] == "PLANNED_UPDATE"
    assert (listing.whole, told.complete) == (True, True)


async def test_a_zone_that_does_not_answer_makes_the_list_no_whole_one() -> None:
    with served(lambda request: zones(warning="UNREACHABLE")) as server:
        (listing,) = await looked(gcp(server))
    assert not listing.whole


async def test_compute_engine_that_is_broken_is_asked_again_by_the_sdk() -> None:
    answers = [gcp_error(503, "backendError", "Backend Error"), zones()]
    with served(lambda request: answers.pop(0)) as server:
        (listing,) = await looked(gcp(server))
        assert len(server.asked) == 2
    assert listing.whole


async def test_compute_engine_without_the_right_is_an_error() -> None:
    refused = gcp_error(403, "forbidden", "Required 'compute.instances.list' permission")
    with served(lambda request: refused) as server, pytest.raises(Denied):
        await looked(gcp(server))


# -- Alibaba Cloud ---------------------------------------------------------------------------------


def alibaba(server: CloudServer) -> ThreadedList:
    given = AlibabaSettings(
        type="alibaba",
        region="cn-hangzhou",
        endpoint=server.url,
        events={},
        read_timeout=timedelta(seconds=5),
    )
    key = Credentials(
        Config(type="access_key", access_key_id="testing", access_key_secret="testing")
    )
    return ThreadedList(SystemEvents(given, FakeClock(NOW), key))


def entry(number: int, *events: str) -> dict[str, Any]:
    found = [
        {
            "EventId": event,
            "EventCycleStatus": {"Code": 24, "Name": "Scheduled"},
            "EventType": {"Code": 1, "Name": "SystemMaintenance.Reboot"},
            "EventPublishTime": "2026-01-09T06:32:31Z",
            "NotBefore": "2026-01-11T06:32:31Z",
        }
        for event in events
    ]
    return {
        "InstanceId": f"i-bp1{number:05}",
        "ScheduledSystemEventSet": {"ScheduledSystemEventType": found},
    }


def ecs_answer(request: Request) -> Answer:
    number = int(request.form["PageNumber"])
    begin, total = (number - 1) * alibaba_events.PAGE, alibaba_events.PAGE + 20
    match request.form.get("Action") or request.headers["x-acs-action"]:
        case "DescribeInstanceHistoryEvents":
            avoided = {
                "InstanceId": "i-bp100007",
                "EventId": "e-old",
                "EventType": {"Code": 1, "Name": "SystemMaintenance.Reboot"},
                "EventCycleStatus": {"Code": 8, "Name": "Avoided"},
            }
            events = {"InstanceSystemEventType": [avoided]}
            return Answer(200, {"InstanceSystemEventSet": events, "TotalCount": 1})
        case "DescribeInstancesFullStatus":
            shown = range(begin, min(begin + alibaba_events.PAGE, total))
            entries = [entry(n, *(["e-1"] if n == total - 1 else [])) for n in shown]
            found = {"InstanceFullStatusType": entries}
            return Answer(200, {"InstanceFullStatusSet": found, "TotalCount": total})
        case "DescribeDisksFullStatus":
            disk = {
                "DiskId": "d-bp1",
                "InstanceId": "i-bp100009",
                "DiskEventSet": {
                    "DiskEventType": [
                        {
                            "EventId": "e-2",
                            "EventType": {"Code": "34", "Name": "Stalled"},
                            "EventTime": "2026-01-10T09:00:00Z",
                        }
                    ]
                },
            }
            return Answer(200, {"DiskFullStatusSet": {"DiskFullStatusType": [disk]}})
        case other:
            raise AssertionError(other)


async def test_ecs_is_read_page_by_page_and_its_history_first() -> None:
    with served(ecs_answer) as server:
        history, instances, disks = await looked(alibaba(server))
        assert len(server.asked) == 4
    assert [e.phase for e in parsed(history).events] == [HostEventPhase.CANCELLED]
    told = parsed(instances)
    assert [(e.external_id, e.host and e.host.instance) for e in told.events] == [
        ("e-1", "i-bp100119")
    ]
    assert told.complete
    assert [e.attributes["disk"] for e in parsed(disks).events] == ["d-bp1"]
    assert len({listing.scope for listing in (history, instances, disks)}) == 3


def ecs_error(status: int, code: str) -> Answer:
    return Answer(status, {"Code": code, "Message": "x", "RequestId": "1"})


async def test_ecs_that_is_throttled_is_asked_again_by_the_sdk() -> None:
    troubles = [ecs_error(400, "Throttling.User")]

    def answer(request: Request) -> Answer:
        return troubles.pop() if troubles else ecs_answer(request)

    with served(answer) as server:
        assert len(await looked(alibaba(server))) == 3
        assert len(server.asked) == 5


@pytest.mark.parametrize(
    ("code", "status", "error"),
    [("Forbidden.RAM", 403, Denied), ("Throttling", 400, Throttled)],
)
async def test_ecs_that_goes_on_refusing_is_an_error(
    monkeypatch: pytest.MonkeyPatch, code: str, status: int, error: type[Exception]
) -> None:
    monkeypatch.setattr(alibaba_events, "ATTEMPTS", 2)
    with served(lambda request: ecs_error(status, code)) as server, pytest.raises(error):
        await looked(alibaba(server))


# -- settings -------------------------------------------------------------------------------------

EVENTS = """\
- {type: aws, region: eu-west-1, events: {every: 30s, queueURL: "https://sqs.eu/1/kubenode"}}
- {type: aws, region: eu-west-2}
- {type: azure, subscription: 6f1e2d3c-4b5a-4978-8695-a4b3c2d1e0f9, events: {}}
- {type: alibaba, region: cn-hangzhou, events: {disks: false}}
- {type: gcp, project: shop-prod-1, events: {every: 5m}}
"""


@pytest.fixture
def with_events(tmp_path: Path) -> Path:
    file = tmp_path / "providers.yaml"
    file.write_text(EVENTS)
    return file


async def test_events_are_read_where_a_section_says_so(with_events: Path) -> None:
    file = with_events
    async with listened(str(file), FakeClock()) as sources:
        assert [source.name for source in sources.lists] == ["aws", "azure", "alibaba", "gcp"]
        assert [source.every for source in sources.lists] == [
            timedelta(seconds=30),
            timedelta(minutes=5),
            timedelta(minutes=1),
            timedelta(minutes=5),
        ]
        assert [queue.where for queue in sources.queues] == ["https://sqs.eu/1/kubenode"]
    async with listened(None, FakeClock()) as sources:
        assert not sources
