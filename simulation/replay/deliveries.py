"""Deliveries to Host Doctor in the format of their sources, and the HostEvents that result.

The parsers, the resolution of Nodes and the steps of HostEvents are production code. Only the
transport from the source to Host Doctor is left out.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEvent
from kubenode.runtime.kube.objects import Node
from remedy.hostdoctor import notices
from remedy.hostdoctor.nodes import NodeIndex
from remedy.hostdoctor.notices import WarningNotice
from remedy.hostdoctor.own import of_agent
from remedy.hostdoctor.parsers import PARSERS
from remedy.hostdoctor.record import fitted, name_of, note_of
from remedy.hostdoctor.report import ParseError, Reported, ReportedEvents
from remedy.hostdoctor.step import lacking, step
from remedy.remedier.build import agent_of
from simulation.replay.signals import Delivery

Change = tuple[HostEvent | None, HostEvent]


class Deliveries:
    """Parses deliveries and computes changes of HostEvents.

    reports: the parsed events of each delivery, in order, before their nodes are resolved.
    refused: why deliveries could not be parsed.
    notices: warnings that people received about events that no rule can read.
    """

    def __init__(self, nodes: Mapping[str, Node], events: Mapping[str, HostEvent]) -> None:
        self._nodes, self._events = nodes, events
        self._index: NodeIndex | None = None
        self.reports: list[ReportedEvents] = []
        self.refused: list[str] = []
        self.notices: list[WarningNotice] = []

    def node_changed(self, old: Node | None, new: Node | None) -> None:
        if self._index is not None:
            self._index.changed(old, new)

    def take(self, node: str, delivery: Delivery, now: datetime) -> Iterator[Change]:
        """Parse a delivery and yield the changes of HostEvents.

        node: the node whose agent read it from the metadata service; "" if the source sent it.
        """
        try:
            events = PARSERS[delivery.transport](delivery.payload, now)
        except ParseError as error:
            self.refused.append(str(error))
            return
        self.reports.append(events)
        yield from self.hear(node, delivery.transport, events, now)

    def hear(
        self, node: str, transport: str, events: ReportedEvents, now: datetime
    ) -> Iterator[Change]:
        """Yield (old, new) HostEvents for parsed events."""
        index = self._indexed()
        if node:
            agent = agent_of(self._nodes[node])
            events = of_agent(events, agent, transport, index.of_agent(agent), index)
        for reported in map(fitted, events.events):
            old = self._events.get(name_of(reported))
            resolution = index.resolve(reported.host)
            new = step(old, reported, resolution, now, scope=events.scope, complete=events.complete)
            if new is not old:
                self._notice(old, new)
                yield old, new
        if events.complete and events.scope:
            yield from self._lacking(events.events, events.scope, now)

    def _notice(self, old: HostEvent | None, new: HostEvent) -> None:
        notice = notices.of(old, new)
        if notice is not None:
            self.notices.append(notice)

    def _lacking(self, listed: Iterable[Reported], scope: str, now: datetime) -> Iterator[Change]:
        named = {name_of(fitted(reported)) for reported in listed}
        for name, event in list(self._events.items()):
            if name not in named and scope in note_of(event).scopes:
                new = lacking(event, now, scope)
                if new is not event:
                    yield event, new

    def _indexed(self) -> NodeIndex:
        """Return the index of nodes, built on first use: most timelines have no deliveries."""
        if self._index is None:
            self._index = NodeIndex()
            for node in self._nodes.values():
                self._index.changed(None, node)
        return self._index
