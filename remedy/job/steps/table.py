"""The handler of each kind of step, by the name of the step. Pure."""

from kubenode.api.v1alpha1 import Rung, Step
from kubenode.api.v1alpha1.noderemedier import NodeRemedierSpec
from remedy.job.model import ACTING, StepAct
from remedy.job.steps import (
    agent,
    approval,
    collect,
    cordon,
    events,
    fence,
    handover,
    migrate,
    node_keys,
    notify,
    pause,
    power,
    reboot,
    replace,
    rollback,
)
from remedy.job.steps.handler import StepHandler

STEPS: dict[str, StepHandler] = {
    **agent.HANDLERS,
    **approval.HANDLERS,
    **collect.HANDLERS,
    **cordon.HANDLERS,
    **events.HANDLERS,
    **fence.HANDLERS,
    **handover.HANDLERS,
    **migrate.HANDLERS,
    **node_keys.HANDLERS,
    **notify.HANDLERS,
    **pause.HANDLERS,
    **power.HANDLERS,
    **reboot.HANDLERS,
    **replace.HANDLERS,
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
