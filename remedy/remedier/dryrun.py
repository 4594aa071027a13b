"""Turns an order of a rule in DryRun into a result in the node record, without a job."""

from datetime import datetime

from kubenode.api.step_text import NO_PERMIT_VERDICT, describe_steps
from kubenode.api.v1alpha1 import Ask, Disruption, RemedyOperationJob
from kubenode.api.v1alpha1.noderecord import WouldHave
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.kube.objects import Node
from remedy.job.act import ask_for
from remedy.job.model import Job
from remedy.remedier.build import build
from remedy.remedier.choice import trigger
from remedy.remedier.decide import JobOrder
from rules.diagnose import Match
from rules.facts import FactSet


def result_of(
    order: JobOrder, match: Match, node: Node, facts: FactSet, now: datetime
) -> tuple[WouldHave, Ask | None]:
    """Return the result, and the request that Kube Defender would have received; None if no permit
    is needed.
    """
    now = now.replace(microsecond=now.microsecond // 1000 * 1000)  # as times are stored
    rung = order.candidate.rule.spec.ladder[order.start_rung]  # type: ignore[index]
    disruption = rung.disruption_class
    result = WouldHave(
        at=now,
        first_true=min(order.candidate.since, now),
        class_=disruption,
        rung=rung.name,
        steps=describe_steps(rung.steps),
        said=NO_PERMIT_VERDICT if disruption is Disruption.NONE else "",
    )
    if disruption is Disruption.NONE:
        return result, None
    body = build(order, node, trigger(match), "", now, facts.host_events)
    body["metadata"] |= {"uid": "none", "creationTimestamp": now}
    job = Job.of(RemedyOperationJob.model_validate(body))
    holder = Holder(kind="NodeRecord", name=job.spec.node_name, uid=node.metadata.uid or "none")
    return result, ask_for(job).model_copy(update={"holder": holder})
