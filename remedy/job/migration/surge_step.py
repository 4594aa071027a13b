"""The surge part of step `migrate`, before it evicts. Pure."""

from collections.abc import Iterable, Mapping

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.drain.observation import Surge, Surges
from remedy.job.migration import surge_replicas
from remedy.job.model import Job, JobAct, JobObservation
from remedy.job.moves import Move
from remedy.job.records import disrupt, put


def surge(job: Job, seen: JobObservation, record: StepStatus, surges: Surges) -> Move | None:
    """Return the next move for surge; None: none is needed now."""
    heard, mine = seen.heard, surge_replicas.read(record.output)
    if heard is not None and heard.act is JobAct.UNSURGE and heard.lowered:
        output = surge_replicas.write_plain(record.output, _given_up(mine, heard.lowered))
        left = [s for s in mine if s.key not in heard.lowered]
        return _with(job, record, surge_replicas.write(output, left)), JobAct.NONE
    if surges.over:
        return job, JobAct.UNSURGE
    output = surge_replicas.write_plain(record.output, surges.plain)
    output = surge_replicas.write(output, [*mine, *surges.new]) if surges.new else output
    if surges.new and not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    if output != record.output:
        return _with(job, record, output), JobAct.NONE
    if surges.up and not (heard is not None and heard.act is JobAct.SURGE):
        return disrupt(job, seen, JobAct.SURGE)
    return None


def lowered(job: Job, seen: JobObservation) -> Move | None:
    """Lower all raised Deployments before the step ends; None: none is raised."""
    if not surge_replicas.owns(job):
        return None
    heard = seen.heard
    if heard is not None and heard.act is JobAct.UNSURGE and not heard.error:
        return surge_replicas.forget(job, heard.lowered or None), JobAct.NONE
    return job, JobAct.UNSURGE


def _with(job: Job, record: StepStatus, output: Mapping[str, str]) -> Job:
    return put(job, record.model_copy(update={"output": dict(output)}))


def _given_up(mine: Iterable[Surge], over: Mapping[str, str]) -> dict[str, str]:
    return {s.owner: over[s.key] for s in mine if over.get(s.key)}
