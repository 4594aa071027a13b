"""Simulates hosts, providers and people: how long each step takes and what it does. Pure.

A rung runs through the production state machine. Steps that need a host, a provider or another
system are replaced by requests to an agent, which are answered after the time in TAKES. Steps that
only take time are replaced by waits.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import timedelta

from defender.server.store import LIFE
from kubenode.api.v1alpha1 import Disruption, Rung, Step
from kubenode.api.v1alpha1.ladder import MigrateStep, WaitStep
from kubenode.api.v1alpha1.steps import (
    AgentAction,
    AgentStep,
    NodeKeyStep,
    PodPolicy,
    PodPolicyMode,
)
from remedy.job.model import Job

SECOND = timedelta(seconds=1)
TAKES: Mapping[str, timedelta] = {
    "collect": 30 * SECOND,
    "approveEvent": timedelta(0),
    "webhook": timedelta(0),
    "createObject": timedelta(0),
    "agent": 10 * SECOND,
    "reboot": 180 * SECOND,
    "powerOff": 180 * SECOND,
    "powerOn": 180 * SECOND,
    "powerCycle": 180 * SECOND,
    "fence": 5 * SECOND,
    "replace": 600 * SECOND,
    "rollbackComponent": 60 * SECOND,
}
"""The duration of a step, unless its timeout is shorter. Steps that are not listed take no time."""
GRACE, EACH_POD = 30 * SECOND, 2 * SECOND
"""Time after which the first evicted pod is gone, and then each further pod."""
HEALS_AFTER = 30 * SECOND
"""Time between the end of a step that heals and the next report of the detectors."""
WITHIN_A_PERMIT = LIFE - timedelta(minutes=1)
"""A request to an agent must end before the permit expires, so replaced steps take no longer."""
BOOTS = frozenset({"reboot", "powerOn", "powerCycle"})
EVICTED = frozenset({PodPolicyMode.DELETE_AFTER, PodPolicyMode.GANG})
"""Modes of pod policies that depend on owners of pods."""
REAL = frozenset(
    {
        "cordon",
        "uncordon",
        "notify",
        "wait",
        "migrate",
        "waitForEvent",
        "waitForApproval",
    }
)
"""Steps, besides those that set a key, that production code carries out on the simulated Node."""


def play_ladder(job: Job, ladder: list[Rung], *, checks: bool) -> Job:
    """Return the job with the ladder as it is run here: the same rungs, steps and classes.

    checks: whether `verify.checks` are requested. Without them the evidence alone is the proof.
    """
    played = [
        Rung.model_construct(
            name=rung.name,
            disruption=rung.disruption_class,
            window=rung.window,
            steps=[_played(step) for step in rung.steps],
            verify=rung.verify if checks else rung.verify.model_copy(update={"checks": []}),
        )
        for rung in ladder
    ]
    return replace(job, spec=job.spec.model_copy(update={"ladder": played}))


def takes(step: Step) -> timedelta:
    return min(TAKES.get(step.name, timedelta(0)), step.body.timeout)


def heals(step: Step) -> bool:
    """Return whether this step can end a fault."""
    return step.disruption is not Disruption.NONE and step.name not in ("cordon", "migrate")


def list_unsimulated(rung: Rung) -> Iterator[str]:
    """Yield what a run of this rung leaves out, as clauses."""
    migrations = [step.migrate for step in rung.steps if step.migrate is not None]
    modes = {policy.mode for step in migrations for policy in step.pod_policies}
    for mode in sorted(modes & EVICTED):
        yield f"pods with the policy {mode} are evicted one by one"
    if any(step.surge != "None" for step in migrations):
        yield "no pod is started elsewhere before an eviction (surge)"


def _played(step: Step) -> Step:
    if step.migrate is not None:
        return Step(migrate=_migrate(step.migrate))
    if step.name in REAL or isinstance(step.body, NodeKeyStep):
        return step
    if step.agent is not None:
        return step
    timeout = min(step.body.timeout, WITHIN_A_PERMIT)
    given = {"timeout": timeout, "on_failure": step.body.on_failure}
    if step.disruption is Disruption.NONE:
        return Step(wait=WaitStep(for_=takes(step), **given))
    return Step(agent=AgentStep(action=AgentAction.RUN_SCRIPT, script=step.name, **given))


def _migrate(step: MigrateStep) -> MigrateStep:
    """Return the step without policies for pods of some owners, which become plain evictions.

    Simulated pods have no owners.
    """
    plain = [_plain(policy) for policy in step.pod_policies]
    return step.model_copy(update={"pod_policies": plain, "surge": "None"})


def _plain(policy: PodPolicy) -> PodPolicy:
    if policy.mode not in EVICTED:
        return policy
    return policy.model_copy(update={"mode": PodPolicyMode.EVICT, "after": None, "gang": None})
