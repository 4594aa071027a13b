"""The handler of each kind of step, by the name of the step. Pure."""

from kubenode.api.v1alpha1 import Rung, Step
from kubenode.api.v1alpha1.noderemedier import NodeRemedierSpec
from remedy.job.model import ACTING, StepAct
from remedy.job.steps import rollback
from remedy.job.steps.agent import agent
from remedy.job.steps.approval import wait_for_approval
from remedy.job.steps.collect import collect
from remedy.job.steps.cordon import cordon
from remedy.job.steps.events import approve_event, wait_for_event
from remedy.job.steps.fence import fence
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.handover import create_object, webhook
from remedy.job.steps.migrate import migrate
from remedy.job.steps.power import power_cycle, power_off, power_on
from remedy.job.steps.reboot import reboot
from remedy.job.steps.replace import replace
from remedy.job.steps.small import small, wait

STEPS: dict[str, StepHandler] = {
    "cordon": StepHandler(cordon),
    "uncordon": StepHandler(small),
    "migrate": StepHandler(migrate),
    "agent": StepHandler(agent),
    "collect": StepHandler(collect),
    "wait": StepHandler(wait),
    "notify": StepHandler(small),
    "label": StepHandler(small),
    "annotate": StepHandler(small),
    "reboot": StepHandler(reboot, polled=True),
    "powerOff": StepHandler(power_off, polled=True),
    "powerOn": StepHandler(power_on, polled=True),
    "powerCycle": StepHandler(power_cycle, polled=True),
    "fence": StepHandler(fence, polled=True),
    "replace": StepHandler(replace, polled=True),
    "waitForEvent": StepHandler(wait_for_event),
    "waitForApproval": StepHandler(wait_for_approval),
    "approveEvent": StepHandler(approve_event),
    "webhook": StepHandler(webhook),
    "createObject": StepHandler(create_object, polled=True),
    **rollback.HANDLERS,
}
SUPPORTED = frozenset(STEPS)
"""Names of the steps that this version can do."""
STEP_ACTS: frozenset[type[StepAct]] = frozenset(
    handler.acts for handler in STEPS.values() if handler.acts is not None
)
"""Acts that belong to kinds of steps."""


def unsupported(ladder: list[Rung]) -> str:
    """Return what this version cannot do in `ladder`, as a sentence; "" if it supports
    all of it.
    """
    for rung in ladder:
        for step in rung.steps:
            if why := unsupported_step(step):
                return f"rung {rung.name}: {why}"
    return ""


def unable(rule: NodeRemedierSpec) -> str:
    """Return why this version cannot do what a rule asks for; "" if it can.

    Only modes that act take steps, so a rule in DryRun may name steps of later versions.
    """
    return unsupported(rule.ladder or []) if rule.mode in ACTING else ""


def unsupported_step(step: Step) -> str:
    """Return why this version cannot do the step; "" if it can."""
    if step.name not in SUPPORTED:
        return f"step {step.name} is not available in this version"
    if step.replace is not None and step.replace.surge != "None":
        return "step replace with surge First is not available in this version"
    return ""
