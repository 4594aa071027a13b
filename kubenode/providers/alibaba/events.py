"""System events of ECS: open events of instances and disks, and events of the last two days.

The history comes first: it says whether an event was avoided or took place, while an ended event is
merely missing from the lists of open events. The SDK retries throttled and broken requests.
"""

from collections.abc import Callable, Iterator, Sequence
from datetime import timedelta
from typing import Any

from alibabacloud_credentials.client import Client as Credentials
from alibabacloud_ecs20140526 import models
from alibabacloud_ecs20140526.client import Client as EcsClient
from darabonba.policy.retry import ExponentialBackoffPolicy, RetryCondition, RetryOptions

from kubenode.providers.alibaba.errors import BROKEN, NAME, THROTTLED, explain
from kubenode.providers.alibaba.power import FINISHED, ecs_client
from kubenode.providers.errors import ProviderError, Unreachable
from kubenode.providers.events import MOST_PAGES, EventListing, Sources
from kubenode.providers.settings import AlibabaSettings
from kubenode.providers.threaded_events import ThreadedList
from kubenode.providers.threads import Once
from kubenode.runtime.clock import Clock

INSTANCES = "alibaba_instances_full_status"
DISKS = "alibaba_disks_full_status"
HISTORY = "alibaba_instance_history"
PAGE = 100
EVENTS = {
    "ScheduledSystemEventSet": "ScheduledSystemEventType",
    "DiskEventSet": "DiskEventType",
}
SINCE = timedelta(days=2)
ATTEMPTS = 5
MORE = ("Throttling.Api", "Throttling.Resource", "Throttling.User", "Throttling.Concurrency")
"""Throttling codes in full: the SDK compares whole codes, not prefixes."""


class SystemEvents:
    name = NAME

    def __init__(
        self, settings: AlibabaSettings, clock: Clock, credentials: Credentials | None = None
    ) -> None:
        assert settings.events is not None
        self.every = settings.events.every
        self.where = f"system events of {settings.region}"
        self._disks = settings.events.disks
        self._region, self._clock = settings.region, clock
        self._client = Once(lambda: ecs_client(settings, credentials, _retries()))

    def list_events(self) -> Sequence[EventListing]:
        scope = f"{NAME}/{self._region}"
        listings = [
            EventListing(HISTORY, scope, _joined(self._history(), "InstanceSystemEvent")),
            EventListing(
                INSTANCES, f"{scope}/instances", _joined(self._open(), "InstanceFullStatus")
            ),
        ]
        if self._disks:
            disks = _joined(self._faults(), "DiskFullStatus")
            listings.append(EventListing(DISKS, f"{scope}/disks", disks))
        return listings

    def check(self) -> str:
        for pages in (self._history(), self._open(), *([self._faults()] if self._disks else [])):
            next(pages, None)
        return ""

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        """Do nothing: the SDK keeps its connections for the whole process."""

    @property
    def _ecs(self) -> EcsClient:
        return self._client.get()

    def _open(self) -> Iterator[dict[str, Any]]:
        def page(number: int) -> Any:
            return self._ecs.describe_instances_full_status(
                models.DescribeInstancesFullStatusRequest(
                    region_id=self._region, page_number=number, page_size=PAGE
                )
            )

        return _pages(page, "InstanceFullStatus")

    def _faults(self) -> Iterator[dict[str, Any]]:
        def page(number: int) -> Any:
            return self._ecs.describe_disks_full_status(
                models.DescribeDisksFullStatusRequest(
                    region_id=self._region, page_number=number, page_size=PAGE
                )
            )

        return _pages(page, "DiskFullStatus")

    def _history(self) -> Iterator[dict[str, Any]]:
        since = (self._clock.now() - SINCE).strftime("%Y-%m-%dT%H:%M:%SZ")

        def page(number: int) -> Any:
            return self._ecs.describe_instance_history_events(
                models.DescribeInstanceHistoryEventsRequest(
                    region_id=self._region,
                    page_number=number,
                    page_size=PAGE,
                    instance_event_cycle_status=["Executed", *FINISHED],
                    event_publish_time=models.DescribeInstanceHistoryEventsRequestEventPublishTime(
                        start=since
                    ),
                )
            )

        return _pages(page, "InstanceSystemEvent")


def _pages(page: Callable[[int], Any], kind: str) -> Iterator[dict[str, Any]]:
    """Yield pages until TotalCount is reached or a page is empty, because the list has shrunk.

    Raises Unreachable after `MOST_PAGES` pages.
    """
    for number in range(1, MOST_PAGES + 1):
        body = page(number).body.to_map()
        yield body
        if not _entries(body, kind) or number * PAGE >= int(body.get("TotalCount") or 0):
            return
    raise Unreachable(NAME, f"the list has more than {MOST_PAGES} pages: it was given up")


def _joined(pages: Iterator[dict[str, Any]], kind: str) -> dict[str, Any]:
    """Return one answer with the entries of all pages that hold an event."""
    entries = [entry for body in pages for entry in _entries(body, kind) if _tells(entry)]
    return {f"{kind}Set": {f"{kind}Type": entries}, "TotalCount": len(entries)}


def _entries(body: dict[str, Any], kind: str) -> list[dict[str, Any]]:
    return (body.get(f"{kind}Set") or {}).get(f"{kind}Type") or []


def _tells(entry: dict[str, Any]) -> bool:
    """Return whether an entry holds an event.

    Most instances and disks have none. An entry of the history is an event itself.
    """
    for outer, inner in EVENTS.items():
        if outer in entry:
            return bool((entry[outer] or {}).get(inner))
    return True


def _retries() -> RetryOptions:
    backoff = ExponentialBackoffPolicy({"policy": "Exponential", "period": 500, "cap": 20_000})
    again = RetryCondition(
        max_attempts=ATTEMPTS, backoff=backoff, error_code=[*THROTTLED, *MORE, *BROKEN]
    )
    return RetryOptions({"retryable": True, "retryCondition": [again]})


def sources(settings: AlibabaSettings, clock: Clock) -> Sources:
    return Sources([ThreadedList(SystemEvents(settings, clock))])
