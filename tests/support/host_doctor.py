"""Deliveries and Nodes for tests of Host Doctor."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from kubenode.api.v1alpha1.hostevent import HostEvent
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeAddress, NodeSpec, NodeStatus
from remedy.hostdoctor.nodes import NodeIndex
from remedy.hostdoctor.record import fitted, name_of
from remedy.hostdoctor.report import ReportedEvents
from remedy.hostdoctor.step import lacking, step

NOW = datetime(2026, 1, 10, 8, 0, tzinfo=UTC)
NOBODY_ENDS = "0001-01-01T00:00:00Z"


def at(seconds: float) -> datetime:
    return NOW + timedelta(seconds=seconds)


def stamp(seconds: float) -> str:
    return at(seconds).strftime("%Y-%m-%dT%H:%M:%SZ")


def node(
    name: str,
    *addresses: tuple[str, str],
    provider: str = "",
    uid: str = "",
    **metadata: Mapping[str, str],
) -> Node:
    return Node(
        KubeObjectMeta(name=name, uid=uid or f"uid-{name}", **metadata),  # type: ignore[arg-type]
        NodeSpec(provider_id=provider),
        NodeStatus(addresses=[NodeAddress(type_, address) for type_, address in addresses]),
    )


def index(*nodes: Node) -> NodeIndex:
    made = NodeIndex()
    for each in nodes:
        made.changed(None, each)
    return made


def alert(
    name: str = "NodeClockSkewDetected",
    starts: float = 0,
    ends: float | None = None,
    fingerprint: str = "aa01",
    annotations: Mapping[str, str] | None = None,
    **labels: str,
) -> dict[str, Any]:
    """`ends` None: it fires."""
    return {
        "status": "firing" if ends is None else "resolved",
        "labels": {"alertname": name, **labels},
        "annotations": {"summary": "Clock skew.", **(annotations or {})},
        "startsAt": stamp(starts),
        "endsAt": NOBODY_ENDS if ends is None else stamp(ends),
        "generatorURL": "http://prometheus/graph",
        "fingerprint": fingerprint,
    }


def group(*alerts: Mapping[str, Any], truncated: int = 0) -> dict[str, Any]:
    firing = any(each["status"] == "firing" for each in alerts)
    return {
        "version": "4",
        "groupKey": "{}:{}",
        "truncatedAlerts": truncated,
        "status": "firing" if firing else "resolved",
        "receiver": "kubenode",
        "groupLabels": {},
        "commonLabels": {},
        "commonAnnotations": {},
        "externalURL": "http://alertmanager:9093",
        "alerts": list(alerts),
    }


class Shelf:
    """HostEvents in memory, written as Host Doctor would."""

    def __init__(self, nodes: NodeIndex | None = None) -> None:
        self.nodes = nodes or NodeIndex()
        self.events: dict[str, HostEvent] = {}
        self.writes = 0

    def tell(self, told: ReportedEvents, now: datetime) -> None:
        names = set()
        for each in told.events:
            name = name_of(fitted(each))
            names.add(name)
            node = self.nodes.resolve(each.host)
            have = self.events.get(name)
            self._put(
                name, have, step(have, each, node, now, scope=told.scope, complete=told.complete)
            )
        if told.complete and told.scope:
            for name, event in list(self.events.items()):
                if name not in names:
                    self._put(name, event, lacking(event, now, told.scope))

    def _put(self, name: str, old: HostEvent | None, new: HostEvent) -> None:
        if new is not old:
            self.writes += 1
            self.events[name] = new

    def only(self) -> HostEvent:
        assert len(self.events) == 1, sorted(self.events)
        return next(iter(self.events.values()))

    def phases(self) -> Sequence[str]:
        return [str(event.status.phase) for event in self.events.values()]
