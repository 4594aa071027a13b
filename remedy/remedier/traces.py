"""The first part of a fault's way as spans: its signal, what was judged, and the job that came."""

from dataclasses import dataclass
from datetime import datetime

from kubenode.runtime.kube.objects import Node
from kubenode.runtime.telemetry.places import SpanContext, place_of
from kubenode.runtime.telemetry.tracing import TraceSpan, Value, emit, on
from remedy.remedier.decide import JobOrder


@dataclass(frozen=True, slots=True)
class Decided:
    """turned  when a condition of the node last turned, by its reporter, and when we noticed;
            None: we did not see one turn
    asked   when the rule engine was asked, and `judged` when it had answered
    """

    turned: tuple[datetime, datetime] | None
    asked: datetime
    judged: datetime


def fault_of(order: JobOrder, node: Node) -> SpanContext | None:
    """The span of the fault that the order's job is for; None while nobody collects."""
    return place_of(node.metadata.uid, order.name) if on() else None


def made(
    fault: SpanContext, order: JobOrder, node: Node, decided: Decided, sent: datetime, now: datetime
) -> None:
    """The job was `sent` and is made."""
    turned, noticed = decided.turned or (order.candidate.since, decided.asked)
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
        TraceSpan("diagnose", fault.part("diagnose"), decide.span, decided.asked, decided.judged),
        TraceSpan("create job", fault.part("create"), decide.span, sent, now),
    ):
        emit(span)
