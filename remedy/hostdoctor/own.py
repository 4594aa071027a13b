"""What an agent tells is about its own machine and no other. Pure.

A metadata service lists events of the whole set of machines, and an agent might be anybody's: only
what is about the agent's node is taken, under a scope that no other agent can speak for.
"""

from dataclasses import replace

from remedy.hostdoctor.nodes import NodeIndex, Resolution, instance_of
from remedy.hostdoctor.record import AGENT_SCOPE
from remedy.hostdoctor.reported import ReportedEvents, ReportedHost


def of_agent(
    told: ReportedEvents, agent: str, transport: str, node: Resolution, index: NodeIndex
) -> ReportedEvents:
    """`node` is the agent's. What is about another machine, or about none, is passed over.

    The machine is called by its Node, so what the cloud tells of it elsewhere is the same event.
    """
    own = host_of(node)
    events, ignored = [], list(told.ignored)
    for event in told.events:
        if event.host is None:
            ignored.append(f"event {event.external_id}: is about no machine")
        elif event.host == ReportedHost() or index.is_of(node.name, event.host):
            events.append(replace(event, host=own))
        else:
            ignored.append(f"event {event.external_id}: is about another machine")
    scope = f"{AGENT_SCOPE}{agent}/{transport}"
    return ReportedEvents(tuple(events), scope, told.complete, tuple(ignored))


def host_of(node: Resolution) -> ReportedHost:
    provider = node.provider_id
    return ReportedHost(provider, instance_of(provider) if provider else "", (node.name,))
