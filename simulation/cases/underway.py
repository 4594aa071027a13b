"""Cases with a job that is already running: the job begins as long ago as the case says.

The same holds for the job of an event that was announced before. What the job does is what the
production controller does; nothing is derived from its ladder.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta

from kubenode.api.v1alpha1 import JobPhase, NodeRemedier
from kubenode.api.v1alpha1.ladder import Step
from simulation.cases.actions import WAIT_HUMAN, actions_of
from simulation.cases.form import Case
from simulation.replay.records import JobRecord, StepRun
from simulation.replay.world import World

BEGUN = timedelta(minutes=10)
"""Time in which a job must reach the step that the case says it is in."""
WATCHED = timedelta(hours=2)
"""Longer than any drain may take: what a job has not done then, it does not do by itself."""
STEP = timedelta(seconds=5)
AFTERWARDS = timedelta(minutes=15)
"""Time in which a job observes the signals at `now` and acts on them."""
FORCED = "delete_pod"


def lead(case: Case) -> timedelta:
    """Return how long before the case's `now` its decision was made."""
    job = case.facts.job
    return timedelta(seconds=job.elapsed_s) if job is not None else timedelta(0)


def limited(case: Case, rules: Sequence[NodeRemedier]) -> Sequence[NodeRemedier]:
    """Return the rules with the drain timeout of the case."""
    seconds = case.policy.drain_timeout_s
    if seconds is None:
        return rules
    timeout = timedelta(seconds=seconds)
    return [_with_timeout(rule, timeout) for rule in rules]


def _with_timeout(rule: NodeRemedier, timeout: timedelta) -> NodeRemedier:
    if rule.spec.ladder is None:
        return rule
    ladder = [
        rung.model_copy(update={"steps": [_timed(step, timeout) for step in rung.steps]})
        for rung in rule.spec.ladder
    ]
    return rule.model_copy(update={"spec": rule.spec.model_copy(update={"ladder": ladder})})


def _timed(step: Step, timeout: timedelta) -> Step:
    if step.migrate is None:
        return step
    migrate = step.migrate.model_copy(update={"timeout": timeout})
    return step.model_copy(update={"migrate": migrate})


@dataclass(frozen=True, slots=True)
class JobActions:
    """Actions in the order in which a job began them, each once.

    actions: all of them, with `wait_human` at the end if the job waits for a person.
    first: those of its rung, with `wait_human` if it did not get beyond that.
    """

    actions: tuple[str, ...]
    first: tuple[str, ...]


def watch(world: World, case: Case, job: JobRecord) -> JobActions | None:
    """Follow a running job; None if it never reaches the step that the case names."""
    job_state = case.facts.job
    if job_state is None:
        return None
    end = world.now + BEGUN
    while (run := _run_of(job, job_state.step)) is None and world.now < end:
        world.run_until(world.now + STEP)
    if run is None:
        return None
    world.run_until(run.began + timedelta(seconds=job_state.elapsed_s) + WATCHED)
    return JobActions(
        _list_actions(job, job.steps),
        _list_actions(job, [s for s in job.steps if s.rung == run.rung]),
    )


def answer(world: World, case: Case, job: JobRecord) -> JobActions:
    """Return what a job that was made before `now` does from then on."""
    world.run_until(case.now + AFTERWARDS)
    begun = (run for run in job.steps if run.began >= case.now)
    actions = [word for run in begun for word in actions_of(_step(job, run))]
    if job.uncordoned is not None and job.uncordoned >= case.now:
        actions.append("uncordon")
    distinct = tuple(dict.fromkeys(actions))
    return JobActions(distinct, distinct)


def _run_of(job: JobRecord, action: str) -> StepRun | None:
    return next((run for run in job.steps if action in actions_of(_step(job, run))), None)


def _step(job: JobRecord, run: StepRun) -> Step:
    rung = next(rung for rung in job.ladder if rung.name == run.rung)
    return next(step for step in rung.steps if step.name == run.name)


def _list_actions(job: JobRecord, runs: Sequence[StepRun]) -> tuple[str, ...]:
    """Return the distinct actions. A rung that begins again after a pause repeats its steps."""
    actions = [word for run in runs for word in actions_of(_step(job, run)) if word != FORCED]
    if job.deleted:
        actions.append(FORCED)
    unfinished = runs and runs[-1].state != "Done"
    if job.open and (unfinished or (job.phase is JobPhase.NEEDS_HUMAN and job.steps[-1] in runs)):
        actions.append(WAIT_HUMAN)
    return tuple(dict.fromkeys(actions))
