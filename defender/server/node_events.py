"""Events of one node, read for its page."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime

import msgspec

from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube, Query
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.objects import Event, structs

NAMESPACE = "default"
"""Namespace of Events about objects without a namespace, such as Nodes."""
MOST_READ, MOST_SHOWN = 500, 30
SECONDS = 3.0


@dataclass(frozen=True, slots=True)
class NodeEventRow:
    """One Event. at: its last occurrence; count: how often it occurred."""

    at: datetime | None
    type: str
    reason: str
    message: str
    source: str
    count: int


@dataclass(frozen=True, slots=True)
class NodeEvents:
    """The latest Events of a node. problem: why they are not known, "" if they are."""

    rows: tuple[NodeEventRow, ...] = ()
    more: int = 0
    problem: str = ""


class NodeEventList(msgspec.Struct):
    items: list[Event] = []


async def read_node_events(kube: Kube, node: str) -> NodeEvents:
    """Read the Events of the node. An error becomes the problem of the result."""
    selector = f"involvedObject.kind=Node,involvedObject.name={node}"
    query: Query = {"fieldSelector": selector, "limit": MOST_READ}
    path = paths.events(NAMESPACE)
    try:
        answer = await kube.call(
            "GET", path, query, decode=structs(NodeEventList), timeout=SECONDS, attempts=1
        )
    except KubeError as error:
        return NodeEvents(problem=f"the API server did not tell: {error.message or error}")
    return list_events(answer.items)


def list_events(events: Iterable[Event]) -> NodeEvents:
    """Return the latest Events, the last first. Pure."""
    rows = sorted(
        map(_row, events), key=lambda row: row.at or datetime.min.replace(tzinfo=UTC), reverse=True
    )
    return NodeEvents(tuple(rows[:MOST_SHOWN]), max(0, len(rows) - MOST_SHOWN))


def _row(event: Event) -> NodeEventRow:
    series = event.series
    at = event.last_timestamp or (series and series.last_observed_time)
    at = at or event.event_time or event.first_timestamp
    count = series.count if series is not None and series.count else event.count
    return NodeEventRow(
        None if at is None else as_written(at),
        event.type,
        event.reason,
        event.message,
        event.reporting_component or event.source.component,
        max(1, count),
    )
