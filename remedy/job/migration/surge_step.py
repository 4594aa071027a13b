"""The surge part of step `migrate`, before it evicts. Pure."""

from collections.abc import Iterable, Mapping

from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.drain.observation import Surge, Surges
from remedy.job.migration import surge_replicas
from remedy.job.migration.acts import PodAct
from remedy.job.model import Job, JobAct, JobObservation
from remedy.job.moves import Move
from remedy.job.records import disrupt, put


def surge(job: Job, observation: JobObservation, record: StepStatus, surges: Surges) -> Move | None:
    """Return the next move for surge; None: none is needed now."""
    result, mine = observation.act_result, surge_replicas.read(record.output)
    if result is not None and result.act is PodAct.UNSURGE and result.lowered:
        output = surge_replicas.write_plain(record.output, _given_up(mine, result.lowered))
        remaining = [s for s in mine if s.key not in result.lowered]
        return _with(job, record, surge_replicas.write(output, remaining)), JobAct.NONE
    if surges.finished:
        return job, PodAct.UNSURGE
    output = surge_replicas.write_plain(record.output, surges.plain)
    output = surge_replicas.write(output, [*mine, *surges.new]) if surges.new else output
    if surges.new and not job.finalizer:
        return job, JobAct.ADD_FINALIZER
    if output != record.output:
        return _with(job, record, output), JobAct.NONE
    if surges.up and not (result is not None and result.act is PodAct.SURGE):
        return disrupt(job, observation, PodAct.SURGE)
    return None


def lowered(job: Job, observation: JobObservation) -> Move | None:
    """Lower all raised Deployments before the step ends; None: none is raised."""
    if not surge_replicas.owns(job):
        return None
    result = observation.act_result
    if result is not None and result.act is PodAct.UNSURGE and not result.error:
        return surge_replicas.forget(job, result.lowered or None), JobAct.NONE
    return job, PodAct.UNSURGE


def _with(job: Job, record: StepStatus, output: Mapping[str, str]) -> Job:
    return put(job, record.model_copy(update={"output": dict(output)}))


def _given_up(mine: Iterable[Surge], reasons: Mapping[str, str]) -> dict[str, str]:
    return {s.owner: reasons[s.key] for s in mine if reasons.get(s.key)}
