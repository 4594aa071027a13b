"""Requests of jobs to the guard of destructive acts: permit, target and intent.

The intent is the record in the job's status, which is stored before any request. A refusal of the
guard becomes an outcome of its own: no request was sent, and the step decides again.
"""

from typing import Protocol

from kubenode.runtime.disruption.request import (
    ActRefused,
    ActRequest,
    DisruptiveAct,
    LiveTarget,
    RefusalReason,
)
from remedy.job.model import Job, JobActResult, NodeObservation, StepAct
from remedy.job.power_record import REQUEST, PowerAct, machine_of_record
from remedy.job.steps.replace import ReplaceAct
from remedy.power.observation import RequestOutcome

ACTS: dict[StepAct, DisruptiveAct] = {
    PowerAct.POWER_OFF: DisruptiveAct.POWER_OFF,
    PowerAct.RESET: DisruptiveAct.RESET,
    ReplaceAct.REPLACE: DisruptiveAct.REPLACE,
}
REQUEST_VALUES = {PowerAct.POWER_OFF: "off", PowerAct.RESET: "reset", ReplaceAct.REPLACE: "replace"}
"""Words of the acts in a record's output."""


class NodeReader(Protocol):
    async def read(self, job: Job, *, live: bool) -> NodeObservation | None:
        """Return the job's Node; None if it is gone or has another uid. Raises KubeError."""
        ...


def request_of(job: Job) -> str:
    """Return the ID of the job's request: the same in every process, and unique."""
    record = job.record
    if record is None or job.close_reason is not None:
        return f"{job.uid}.undo"
    return f"{job.uid}.{record.request_id}"


def act_request(job: Job, what: StepAct, target: str) -> ActRequest:
    """Build the request for the act in the job's record; `target` is the machine or the object."""
    record, step, permit = job.record, job.step, job.status.permit
    rule = job.spec.remedier.name if job.spec.remedier is not None else "a person"
    return ActRequest(
        ACTS[what],
        target=target,
        node=job.spec.node_name,
        who=f"RemedyOperationJob {job.name}",
        request=request_of(job),
        permit=permit.name if permit is not None else "",
        holder_uid=job.uid,
        class_=str(step.disruption) if step is not None else "",
        expires=record.expires_at if record is not None else None,
        boot_id=record.boot_id if record is not None else "",
        evidence=f"{job.spec.fault_class}, by {rule}, rung {job.rung.name}",
    )


async def is_written(job: Job, what: StepAct) -> bool:
    """Report whether the job's stored status requests this act."""
    record = job.record
    return (
        job.in_flight and record is not None and record.output.get(REQUEST) == REQUEST_VALUES[what]
    )


async def live_target(nodes: NodeReader, job: Job) -> LiveTarget:
    """Check live that the Node and its machine are the recorded ones; return the boot ID or the
    reason why not.
    """
    node = await nodes.read(job, live=True)
    if node is None:
        return LiveTarget(f"node {job.spec.node_name} is gone, or another one by now")
    written, record = machine_of_record(job), job.record
    if written and node.provider_id and written != node.provider_id:
        return LiveTarget(f"the machine of node {job.spec.node_name} is another one by now")
    if record is not None and record.boot_id and not node.boot_id:
        return LiveTarget(f"nobody tells which boot node {job.spec.node_name} runs")
    return LiveTarget(boot_id=node.boot_id)


def to_refused_result(what: StepAct, refused: ActRefused) -> JobActResult:
    booted = refused.reason is RefusalReason.BOOT_CHANGED
    return JobActResult(what, outcome=RequestOutcome.PREVENTED, error=str(refused), booted=booted)
