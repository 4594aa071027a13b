"""What stands in for hosts, clouds and people: how long each step takes, and what it does. Pure.

A rung runs through the production state machine. Steps that need a host, a provider or another
system are played as requests to an agent, whose answers come after the time below; those that
only take time are waits.
"""

from collections.abc import Mapping
from datetime import timedelta

from defender.store import LIFE
from kubenode.api.v1alpha1 import Disruption, Rung, Step
from kubenode.api.v1alpha1.ladder import MigrateStep, Verify, WaitStep
from kubenode.api.v1alpha1.steps import AgentAction, AgentStep, PodPolicy, PodPolicyMode

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
"""How long a step takes, unless its own timeout is shorter. Central steps take no time."""
GRACE, EACH_POD = 30 * SECOND, 2 * SECOND
"""Time in which the first evicted pod ends, and then each further one."""
HEALS_AFTER = 30 * SECOND
"""From the end of a step that heals to the detectors' next word."""
WITHIN_A_PERMIT = LIFE - timedelta(minutes=1)
"""A request to an agent must end before the permit does; what is played takes no longer."""
BOOTS = frozenset({"reboot", "powerOn", "powerCycle"})
REAL = frozenset(
    {
        "cordon",
        "uncordon",
        "notify",
        "label",
        "annotate",
        "wait",
        "migrate",
        "waitForEvent",
        "waitForApproval",
    }
)
"""Steps that the production code itself carries out on our simulated Node."""


def played(ladder: list[Rung]) -> list[Rung]:
    """The ladder as it is run here: rung by rung, step by step, of the same classes."""
    return [
        Rung.model_construct(
            name=rung.name,
            disruption=rung.disruption_class,
            steps=[_played(step) for step in rung.steps],
            verify=_proof(rung.verify),
        )
        for rung in ladder
    ]


def takes(step: Step) -> timedelta:
    return min(TAKES.get(step.name, timedelta(0)), step.body.timeout)


def heals(step: Step) -> bool:
    """Whether the end of this step can be the end of a fault."""
    return step.disruption is not Disruption.NONE and step.name not in ("cordon", "migrate")


def _played(step: Step) -> Step:
    if step.migrate is not None:
        return Step(migrate=_migrate(step.migrate))
    if step.name in REAL:
        return step
    if step.agent is not None:
        return step
    timeout = min(step.body.timeout, WITHIN_A_PERMIT)
    given = {"timeout": timeout, "on_failure": step.body.on_failure}
    if step.disruption is Disruption.NONE:
        return Step(wait=WaitStep(for_=takes(step), **given))
    return Step(agent=AgentStep(action=AgentAction.RUN_SCRIPT, script=step.name, **given))


def _migrate(step: MigrateStep) -> MigrateStep:
    """Pods here have no owners: what a policy says of some of them counts as plain eviction."""
    plain = [_plain(policy) for policy in step.pod_policies]
    return step.model_copy(update={"pod_policies": plain, "surge": "None"})


def _plain(policy: PodPolicy) -> PodPolicy:
    if policy.mode not in (PodPolicyMode.DELETE_AFTER, PodPolicyMode.GANG):
        return policy
    return policy.model_copy(update={"mode": PodPolicyMode.EVICT, "after": None, "gang": None})


def _proof(verify: Verify) -> Verify:
    return verify.model_copy(update={"checks": []})
