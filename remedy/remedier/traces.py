"""Emits the first spans of a fault: its signal, the diagnosis, and the creation of the job."""

from dataclasses import dataclass
from datetime import datetime

from kubenode.runtime.kube.objects import Node
from kubenode.runtime.telemetry.places import SpanContext, place_of
from kubenode.runtime.telemetry.tracing import TraceSpan, Value, emit, on
from remedy.remedier.decide import JobOrder


@dataclass(frozen=True, slots=True)
class Decided:
    """Times of one decision.

    turned: when a condition of the node last changed its status, by its reporter, and when we
        observed it; None: we observed no change
    asked, judged: when the rule engine was asked, and when it had answered
    """

    turned: tuple[datetime, datetime] | None
    started: datetime
    judged: datetime


def fault_of(order: JobOrder, node: Node) -> SpanContext | None:
    """Return the span of the fault that the order's job is for; None while no traces
    are collected.
    """
    return place_of(node.metadata.uid, order.name) if on() else None


def made(
    fault: SpanContext, order: JobOrder, node: Node, decided: Decided, sent: datetime, now: datetime
) -> None:
    """Emit the spans of a created job; `sent` is when the create request was sent."""
    turned, noticed = decided.turned or (order.candidate.since, decided.started)
    about: dict[str, Value] = {
        "kubenode.job": order.name,
        "k8s.node.name": node.metadata.name,
        "kubenode.rule": order.candidate.name,
    }
    since = min(turned, noticed)
    decide = fault.part("decide")
    for span in (
        TraceSpan("detect", fault.part("detect"), fault.span, since, noticed, about),
        TraceSpan("decide", decide, fault.span, noticed, now, about),
        TraceSpan("diagnose", fault.part("diagnose"), decide.span, decided.started, decided.judged),
        TraceSpan("create job", fault.part("create"), decide.span, sent, now),
    ):
        emit(span)
