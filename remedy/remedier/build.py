"""Builds the RemedyOperationJob of an order: the rule as it was, and the observed
evidence. Pure.
"""

from collections.abc import Sequence
from datetime import datetime
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import API_VERSION, Mode
from kubenode.api.v1alpha1.remedyoperationjob import (
    RemedierReference,
    RemedyOperationJobSpec,
    Trigger,
    TriggerFact,
)
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.telemetry.places import ANNOTATION as TRACEPARENT
from kubenode.runtime.telemetry.places import SpanContext
from remedy.job.model import ALSO_MATCHED
from remedy.remedier.decide import JobOrder
from remedy.remedier.events import deadline, evidence_events
from rules.facts import HostEventFact

REMEDIER_LABEL = "kubenode.io/remedier"
MACHINE = "kubenode.io/machine"
"""Annotation on a Node: the Machine it belongs to, which is also the name of its agent."""
DECIDED_AT = "kubenode.io/decided-at"
"""Annotation on a job: when the remedier decided on it."""
EXPLANATION = 4096
"""Longest explanation of a job, in characters."""
LABEL_VALUE = 63


def agent_of(node: Node) -> str:
    """Return the name of the node's agent: its Machine, else the node itself."""
    return node.metadata.annotations.get(MACHINE) or node.metadata.name


def build(
    order: JobOrder,
    node: Node,
    facts: Sequence[TriggerFact],
    explanation: str,
    now: datetime,
    host_events: Sequence[HostEventFact] = (),
    fault: SpanContext | None = None,
) -> dict[str, Any]:
    """Return the body of the create request.

    facts: readings of the evidence
    host_events: all HostEvents of the node
    fault: span of the fault; None: no traces are collected
    """
    rule = order.candidate.rule
    spec = rule.spec
    events = evidence_events(spec.when, host_events, now)
    job = RemedyOperationJobSpec(
        node_name=node.metadata.name,
        agent=agent_of(node),
        node_uid=node.metadata.uid,
        remedier=RemedierReference(
            name=rule.metadata.name, uid=rule.metadata.uid, generation=rule.metadata.generation
        ),
        trigger=Trigger(
            first_true=min(order.candidate.since, now),
            facts=list(facts[:64]),
            explanation=explanation[:EXPLANATION],
        ),
        mode=spec.mode,
        priority=spec.priority,
        severity=spec.severity,
        fault_class=spec.fault_class,
        deadline=deadline(events),
        host_events=[event.name for event in events],
        previous=order.previous,
        supersedes=order.supersedes,
        initial_wait=order.wait,
        window=spec.window,
        group=order.group,
        start_rung=order.start_rung,
        ladder=spec.ladder or [],
        when=spec.when,
        unless=spec.unless,
        on_give_up=spec.on_give_up,
        notify=spec.notify,
    )
    if spec.mode is Mode.APPROVE:
        job.approval.required = True
    metadata: dict[str, Any] = {
        "name": order.name,
        "annotations": {DECIDED_AT: format_time(now)},
    }
    if fault is not None:
        metadata["annotations"][TRACEPARENT] = fault.header
    if order.others:
        lines = "\n".join(f"{name}: {why}" for name, why in order.others)
        metadata["annotations"][ALSO_MATCHED] = lines
    if len(rule.metadata.name) <= LABEL_VALUE:
        metadata["labels"] = {REMEDIER_LABEL: rule.metadata.name}
    return {
        "apiVersion": API_VERSION,
        "kind": "RemedyOperationJob",
        "metadata": metadata,
        "spec": job.to_dict(),
    }
