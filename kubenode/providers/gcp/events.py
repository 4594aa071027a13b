"""Upcoming maintenance of the instances of a project, in all zones.

The SDK reads all pages, and retries throttled and broken requests. A warning in the answer marks a
zone that did not answer: the list is then not whole.
"""

import json
from collections.abc import Iterator, Sequence
from typing import Any

import google.auth
from google.api_core import exceptions, retry
from google.api_core.client_options import ClientOptions
from google.auth.credentials import Credentials
from google.cloud import compute_v1

from kubenode.providers.errors import ProviderError, Unreachable
from kubenode.providers.events import MOST_PAGES, EventListing, Sources
from kubenode.providers.gcp.errors import NAME, explain
from kubenode.providers.gcp.power import SCOPES
from kubenode.providers.settings import GcpSettings
from kubenode.providers.threaded_events import ThreadedList
from kubenode.providers.threads import Once
from kubenode.runtime.clock import Clock

TRANSPORT = "gcp_instances"
PAGE = 500
NO_RESULTS = ("", "NO_RESULTS_ON_PAGE")
"""Codes of warnings that only mean a zone without instances."""
AGAIN = retry.Retry(
    predicate=retry.if_exception_type(
        exceptions.TooManyRequests,
        exceptions.InternalServerError,
        exceptions.BadGateway,
        exceptions.ServiceUnavailable,
        exceptions.GatewayTimeout,
    ),
    initial=1.0,
    maximum=20.0,
    timeout=60.0,
)


class Maintenance:
    name = NAME

    def __init__(self, settings: GcpSettings, credentials: Credentials | None = None) -> None:
        assert settings.events is not None
        self.every = settings.events.every
        self.where = f"instances of project {settings.project}"
        self._project = settings.project
        self._how: Any = {"retry": AGAIN, "timeout": settings.read_timeout.total_seconds()}
        self._client = Once(lambda: _client(settings, credentials))

    def list_events(self) -> Sequence[EventListing]:
        instances: list[dict[str, Any]] = []
        whole = True
        for _, zone in self._zones(PAGE):
            whole &= _code(zone) in NO_RESULTS
            instances += (
                _described(instance) for instance in zone.instances if _has_maintenance(instance)
            )
        scope = f"{NAME}/{self._project}"
        return [EventListing(TRANSPORT, scope, {"items": instances}, whole)]

    def check(self) -> str:
        next(self._zones(1), None)
        return ""

    def explain(self, error: Exception) -> ProviderError | None:
        return explain(error)

    def close(self) -> None:
        if (client := self._client.made) is not None:
            client.transport.close()  # type: ignore[no-untyped-call]

    def _zones(self, size: int) -> Iterator[tuple[str, compute_v1.InstancesScopedList]]:
        api_request = compute_v1.AggregatedListInstancesRequest(
            project=self._project, max_results=size
        )
        pages = self._client.get().aggregated_list(api_request, **self._how).pages
        for number, page in enumerate(pages):
            if number >= MOST_PAGES:
                raise Unreachable(NAME, f"the list has more than {MOST_PAGES} pages")
            yield from page.items.items()


def _code(zone: compute_v1.InstancesScopedList) -> str:
    return str(getattr(zone.warning, "code", ""))


def _has_maintenance(instance: compute_v1.Instance) -> bool:
    return bool(instance.resource_status.upcoming_maintenance.maintenance_status)


def _described(instance: compute_v1.Instance) -> dict[str, Any]:
    maintenance = instance.resource_status.upcoming_maintenance
    encoded = compute_v1.UpcomingMaintenance.to_json(
        maintenance, preserving_proto_field_name=False, always_print_fields_with_no_presence=False
    )
    return {
        "selfLink": instance.self_link,
        "resourceStatus": {"upcomingMaintenance": json.loads(encoded)},
    }


def _client(settings: GcpSettings, given: Credentials | None) -> compute_v1.InstancesClient:
    credentials = given or google.auth.default(scopes=SCOPES)[0]
    options = ClientOptions(api_endpoint=settings.endpoint or None)
    return compute_v1.InstancesClient(credentials=credentials, client_options=options)


def sources(settings: GcpSettings, clock: Clock) -> Sources:
    return Sources([ThreadedList(Maintenance(settings))])
