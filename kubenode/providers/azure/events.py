"""Azure Resource Health of the virtual machines of a subscription.

Scheduled Events are not included: Azure offers them only inside of the machine. The SDK reads all
pages, and waits as Azure says when it is throttled.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from azure.core.credentials import TokenCredential
from azure.identity import DefaultAzureCredential
from azure.mgmt.resourcehealth import ResourceHealthMgmtClient

from kubenode.providers.azure.errors import NAME, explain
from kubenode.providers.azure.power import CLOUDS
from kubenode.providers.errors import ProviderError, Unreachable
from kubenode.providers.events import MOST_PAGES, EventListing, Sources
from kubenode.providers.settings import AzureSettings
from kubenode.providers.threaded_events import ThreadedList
from kubenode.providers.threads import Once
from kubenode.runtime.clock import Clock

TRANSPORT = "azure_resource_health"
MACHINES = "/virtualmachines/"
RETRIES = 4


class ResourceHealth:
    name = NAME

    def __init__(self, settings: AzureSettings, credential: TokenCredential | None = None) -> None:
        assert settings.events is not None
        self.every = settings.events.every
        self.where = f"Resource Health of subscription {settings.subscription}"
        self._scope = f"{NAME}/{settings.subscription.lower()}"
        self._client = Once(lambda: _client(settings, credential))

    def list_events(self) -> Sequence[EventListing]:
        """List the machines that are not Available."""
        statuses = [
            status
            for page in self._pages()
            for status in page
            if MACHINES in str(status.get("id", "")).lower()
            and (status.get("properties") or {}).get("availabilityState") != "Available"
        ]
        return [EventListing(TRANSPORT, self._scope, {"value": statuses})]

    def check(self) -> str:
        next(self._pages(), None)
        return ""

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (client := self._client.made) is not None:
            client.close()

    def _pages(self) -> Iterator[list[dict[str, Any]]]:
        statuses = self._client.get().availability_statuses.list_by_subscription_id()
        for number, page in enumerate(statuses.by_page()):
            if number >= MOST_PAGES:
                raise Unreachable(NAME, f"the list has more than {MOST_PAGES} pages")
            yield [status.as_dict() for status in page]


def _client(settings: AzureSettings, given: TokenCredential | None) -> ResourceHealthMgmtClient:
    cloud, authority = CLOUDS[settings.cloud]
    connect, read = settings.seconds
    return ResourceHealthMgmtClient(
        given or DefaultAzureCredential(authority=authority, process_timeout=int(read)),
        settings.subscription,
        base_url=settings.endpoint or None,
        cloud_setting=cloud,
        retry_total=RETRIES,
        connection_timeout=connect,
        read_timeout=read,
        connection_verify=settings.ca_file or True,
        user_agent="kubenode",
    )


def sources(settings: AzureSettings, clock: Clock) -> Sources:
    return Sources([ThreadedList(ResourceHealth(settings))])
