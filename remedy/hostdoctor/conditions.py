"""The conditions of a HostEvent: whether its machine is a Node, and why it is over. Pure."""

from datetime import datetime

from kubenode.api.conditions import ConditionUpdate, set_condition
from kubenode.api.meta import Condition
from kubenode.api.v1alpha1.hostevent import HostEvent, HostEventNode, HostEventPhase
from remedy.hostdoctor.nodes import Resolution

RESOLVED, ENDED = "Resolved", "Ended"
"""Types of conditions."""
REPORTED, LACKING, PAST, ADVICE = "Told", "NoLongerListed", "PastNotAfter", "Advisory"
"""Reasons of the condition Ended."""
NOT_REPORTED, NODE_GONE, OPEN = "NotToldAnyMore", "NodeGone", "Open"
"""Further reasons of the condition Ended."""


def ended(
    event: HostEvent, phase: HostEventPhase, reason: str, text: str, now: datetime
) -> HostEvent:
    status = event.status.model_copy(
        update={
            "phase": phase,
            "last_seen": now,
            "conditions": set_ended(event.status.conditions, True, reason, text, now),
        }
    )
    return event.model_copy(update={"status": status})


def resolved(event: HostEvent, node: Resolution, now: datetime) -> HostEvent:
    """Return the event with a new resolution of its machine."""
    conditions = of_node(event.status.conditions, node, now)
    given = event.spec.node.provider_id
    of = HostEventNode(name=node.name, provider_id=node.provider_id or given, uid=node.uid)
    if of == event.spec.node and conditions == event.status.conditions:
        return event
    spec = event.spec.model_copy(update={"node": of})
    status = event.status.model_copy(update={"conditions": conditions})
    return event.model_copy(update={"spec": spec, "status": status})


def of_node(have: list[Condition], node: Resolution, now: datetime) -> list[Condition]:
    update = ConditionUpdate.of(node.resolved, node.why, node.text)
    return set_condition(have, RESOLVED, update, generation=None, now=now)


def set_ended(
    have: list[Condition], is_ended: bool, reason: str, text: str, now: datetime
) -> list[Condition]:
    """Return the conditions with condition Ended."""
    update = ConditionUpdate.of(is_ended, reason, text)
    return set_condition(have, ENDED, update, generation=None, now=now)
