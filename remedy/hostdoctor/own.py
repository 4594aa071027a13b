"""Restricts an agent's reports to its own machine. Pure.

A metadata service lists events of a whole set of machines, and an agent may be compromised: only
events about the agent's node are accepted, under a scope that no other agent can use.
"""

from dataclasses import replace

from remedy.hostdoctor.nodes import NodeIndex, Resolution, instance_of
from remedy.hostdoctor.record import AGENT_SCOPE
from remedy.hostdoctor.report import ReportedEvents, ReportedHost


def of_agent(
    reports: ReportedEvents, agent: str, transport: str, node: Resolution, index: NodeIndex
) -> ReportedEvents:
    """Return the reports about the agent's node. Those about another machine, or none, are ignored.

    The machine is identified by its Node, so an event that the cloud reports elsewhere too stays
    the same.

    node: resolution of the agent's own node
    """
    own = host_of(node)
    events, ignored = [], list(reports.ignored)
    for event in reports.events:
        if event.host is None:
            ignored.append(f"event {event.external_id}: is about no machine")
        elif event.host == ReportedHost() or index.is_of(node.name, event.host):
            events.append(replace(event, host=own))
        else:
            ignored.append(f"event {event.external_id}: is about another machine")
    scope = f"{AGENT_SCOPE}{agent}/{transport}"
    return ReportedEvents(tuple(events), scope, reports.complete, tuple(ignored))


def host_of(node: Resolution) -> ReportedHost:
    provider = node.provider_id
    return ReportedHost(provider, instance_of(provider) if provider else "", (node.name,))
