"""Step `replace`: the system that created the machine replaces it. Pure.

Done when the old Node is gone and a Node of the same group that came since is Ready; when the same
machine was set up again and is Ready; or when the old Node is gone and the group needs no other. A
running machine is given up only while the fault is known true.
"""

from datetime import timedelta

from kubenode.api.duration import format_duration
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Step
from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from remedy.job.model import Job, JobAct, JobObservation, NodeObservation, StepAct
from remedy.job.moves import Move, wait
from remedy.job.power_record import WAS
from remedy.job.records import begun, done, failed, put
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.provider_request import (
    ProviderRequest,
    away,
    free_to_ask,
    get_request_word,
    go_on,
    has_step_ended,
    never_shown,
    proven_dark,
    waits_for_provider,
    write,
)
from remedy.power.observation import ReplacementObservation, RequestOutcome


class ReplaceAct(StepAct):
    REPLACE = "Replace"

    @property
    def asks_provider(self) -> bool:
        return True


REPLACE = ProviderRequest(
    "replace", ReplaceAct.REPLACE, state=False, guarded=True, gone_is_known=True
)
PATH, TARGET, GROUP, NEWEST, GONE_AT = "path", "target", "group", "newest", "goneAt"
ENOUGH = timedelta(minutes=1)
"""An autoscaler that creates machines on demand has had this time to request one."""


def replace(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    read, unread = observation.step, ReplacementObservation(outcome=RequestOutcome.UNCLEAR)
    far = read if isinstance(read, ReplacementObservation) else unread
    if get_request_word(record):
        return _follow_request(job, observation, step, record, far)
    if has_step_ended(step, record, observation):
        why = job.status.hold.message if job.status.hold is not None else "nobody could be asked"
        return never_shown(job, observation, step, record, f"not replaced: {why}")
    if not far.path:
        return _nobody(job, observation, step, record, far)
    if (stop := free_to_ask(job, observation, evidence=_evidence(job, observation))) is not None:
        return stop
    was = (
        observation.power.description
        if observation.power is not None and observation.power.power is not None
        else ""
    )
    to = {PATH: far.path, TARGET: far.target, GROUP: far.group, **({WAS: was} if was else {})}
    to |= {NEWEST: far.newest} if far.newest else {}
    return write(job, observation, node, step, record, REPLACE, **to)


def _evidence(job: Job, observation: JobObservation) -> bool:
    """Report whether the fault must be known true; not for a machine that this rung
    switched off.
    """
    return not (begun(job) and proven_dark(job, observation.power))


def _nobody(
    job: Job,
    observation: JobObservation,
    step: Step,
    record: StepStatus,
    far: ReplacementObservation,
) -> Move:
    """Wait, or fail, while no system is known that can replace the machine."""
    if far.outcome in (RequestOutcome.REFUSED, RequestOutcome.GONE):
        return failed(job, observation, step, record, f"nobody can replace the machine: {far.why}")
    if waits_for_provider(job, observation.now):
        return wait(job)
    return away(job, observation, record, far.why or "it is not known who can replace the machine")


def _follow_request(
    job: Job,
    observation: JobObservation,
    step: Step,
    record: StepStatus,
    far: ReplacementObservation,
) -> Move:
    """Wait for the new node; repeat the request where that is safe."""
    gone = observation.node is None and far.gone
    since = record.output.get(GONE_AT, "")
    if far.renewed:
        return done(job, observation, record, f"made anew through {record.output[PATH]}, and Ready")
    if gone and far.new:
        return done(
            job, observation, record, f"replaced by {far.new} through {record.output[PATH]}"
        )
    if gone and far.enough and since and format_time(observation.now - ENOUGH) >= since:
        return done(
            job, observation, record, f"{far.group} wants no other node; the old one is gone"
        )
    if has_step_ended(step, record, observation):
        still = (
            far.why if observation.node is None or not far.gone else "the old Node is still there"
        )
        within = format_duration(step.body.timeout)
        return never_shown(job, observation, step, record, f"not replaced within {within}: {still}")
    if gone and not since:
        output = {**record.output, GONE_AT: format_time(observation.now)}
        return put(job, record.model_copy(update={"output": output})), JobAct.NONE

    def no(why: str) -> Move:
        return failed(job, observation, step, record, why)

    if observation.node is None:
        return wait(job)
    repeatable = record.output.get(PATH) != ReplacePath.INSTANCE_GROUP or (
        observation.power is not None and observation.power.can.repeatable
    )
    evidence = not proven_dark(job, observation.power)
    return go_on(job, observation, record, REPLACE, no, evidence=evidence, repeatable=repeatable)


HANDLERS = {"replace": StepHandler(replace, ReplaceAct, polled=True, reads_power=True)}
