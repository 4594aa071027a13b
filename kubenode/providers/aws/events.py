"""Events of EC2: DescribeInstanceStatus, and a queue that EventBridge and Auto Scaling fill.

The SDK reads all pages, waits when it is throttled (its mode `adaptive`) and renews credentials. A
message is deleted by its receipt, and only after it was stored. A message that is not deleted is
delivered again after its visibility timeout, and moves to the dead-letter queue in the end.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from botocore.config import Config

from kubenode.providers.aws.errors import NAME, explain
from kubenode.providers.aws.power import boto_session
from kubenode.providers.errors import ProviderError, Unreachable
from kubenode.providers.events import MOST_PAGES, EventListing, QueueMessage, Sources
from kubenode.providers.settings import AwsSettings
from kubenode.providers.threaded_events import ThreadedList, ThreadedQueue
from kubenode.providers.threads import Once
from kubenode.runtime.clock import Clock

if TYPE_CHECKING:  # stubs, of the development environment only
    from mypy_boto3_ec2 import EC2Client
    from mypy_boto3_sqs import SQSClient

STATUS, QUEUE = "aws_instance_status", "aws_sqs"
PAGE = 1000
MESSAGES = 10
LONG_POLL = 20
"""Seconds that a request waits for a message; the longest that SQS allows."""
HIDDEN = 120
"""Visibility timeout: seconds until a message that was not deleted is delivered again."""


class InstanceStatuses:
    """Scheduled events of the instances of a region, and EC2's checks of their hosts."""

    name = NAME

    def __init__(self, settings: AwsSettings) -> None:
        assert settings.events is not None
        self.every = settings.events.every
        self.where = f"DescribeInstanceStatus of {settings.region}"
        self._scope = scope(settings)
        self._client: Once[EC2Client] = Once(lambda: _ec2(settings))

    def list_events(self) -> Sequence[EventListing]:
        """List instances with events or an impaired host; most instances have neither."""
        statuses = [
            {
                "InstanceId": status["InstanceId"],
                "Events": status.get("Events", []),
                "SystemStatus": status.get("SystemStatus", {}),
            }
            for number, page in enumerate(self._pages(PAGE))
            for status in _bounded(number, page)["InstanceStatuses"]
            if status.get("Events") or status.get("SystemStatus", {}).get("Status") == "impaired"
        ]
        return [EventListing(STATUS, self._scope, {"InstanceStatuses": statuses})]

    def check(self) -> str:
        next(iter(self._pages(5)), None)
        return ""

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (client := self._client.made) is not None:
            client.close()

    def _pages(self, size: int) -> Any:
        """Read all instances, stopped ones included: an event outlasts a stop of its instance."""
        paginator = self._client.get().get_paginator("describe_instance_status")
        return paginator.paginate(IncludeAllInstances=True, PaginationConfig={"PageSize": size})


class SqsQueue:
    """The SQS queue of a region."""

    name = f"{NAME}-queue"

    def __init__(self, settings: AwsSettings) -> None:
        assert settings.events is not None
        self.where = self._url = settings.events.queue_url
        self._client: Once[SQSClient] = Once(lambda: _sqs(settings))

    def receive(self) -> Sequence[QueueMessage]:
        answer = self._client.get().receive_message(
            QueueUrl=self._url,
            MaxNumberOfMessages=MESSAGES,
            WaitTimeSeconds=LONG_POLL,
            VisibilityTimeout=HIDDEN,
        )
        return [
            QueueMessage(entry["MessageId"], entry["ReceiptHandle"], QUEUE, entry.get("Body", ""))
            for entry in answer.get("Messages", ())
        ]

    def delete(self, messages: Sequence[QueueMessage]) -> None:
        """Delete `messages`. Raises Unreachable if any remain; a second delivery does no harm."""
        if not messages:
            return
        answer = self._client.get().delete_message_batch(
            QueueUrl=self._url,
            Entries=[
                {"Id": str(number), "ReceiptHandle": message.receipt}
                for number, message in enumerate(messages)
            ],
        )
        if failed := answer.get("Failed"):
            reason = (
                f"{len(failed)} of {len(messages)} messages were not deleted: {failed[0]['Code']}"
            )
            raise Unreachable(self.name, reason)

    def check(self) -> str:
        """Check the queue without receiving a message, which would hide it from the operator."""
        answer = self._client.get().get_queue_attributes(
            QueueUrl=self._url, AttributeNames=["RedrivePolicy"]
        )
        if "RedrivePolicy" in answer.get("Attributes", {}):
            return ""
        return "has no dead-letter queue: messages that cannot be read come again for days"

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (client := self._client.made) is not None:
            client.close()


def scope(settings: AwsSettings) -> str:
    """Return the scope of the list: one for each region and each identity that reads it."""
    return "/".join(filter(None, (NAME, settings.region, settings.role_arn or settings.profile)))


def _bounded(number: int, page: Any) -> Any:
    if number >= MOST_PAGES:
        raise Unreachable(NAME, f"the list has more than {MOST_PAGES} pages: it was given up")
    return page


def _config(settings: AwsSettings, patience: float = 0.0) -> Config:
    connect, read = settings.seconds
    return Config(
        connect_timeout=connect,
        read_timeout=read + patience,
        retries={"total_max_attempts": 5, "mode": "adaptive"},
        user_agent_extra="kubenode",
    )


def _ec2(settings: AwsSettings) -> "EC2Client":
    return boto_session(settings).client(
        "ec2",
        config=_config(settings),
        endpoint_url=settings.endpoint or None,
        verify=settings.ca_file or None,
    )


def _sqs(settings: AwsSettings) -> "SQSClient":
    assert settings.events is not None
    return boto_session(settings).client(
        "sqs",
        config=_config(settings, LONG_POLL),
        endpoint_url=settings.events.queue_endpoint or None,
        verify=settings.ca_file or None,
    )


def sources(settings: AwsSettings, clock: Clock) -> Sources:
    assert settings.events is not None
    queues = [ThreadedQueue(SqsQueue(settings))] if settings.events.queue_url else []
    return Sources([ThreadedList(InstanceStatuses(settings))], queues)
