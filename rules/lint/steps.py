"""Remarks on steps that the agent or the operator would refuse; the CRD takes any parameters."""

from collections.abc import Iterator

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.ladder import AgentAction
from kubenode.runtime.agentparams import UNITS, complaint, is_listed_unit
from rules.lint.finding import Remark
from rules.nodekeys import NodeKeys, is_protected, list_key_uses


def remarks(rule: NodeRemedier, node_keys: NodeKeys) -> Iterator[Remark]:
    for number, rung in enumerate(rule.spec.ladder or []):
        for place, step in enumerate(rung.steps):
            if step.agent is None:
                continue
            if why := complaint(step.agent.action.value, step.agent.params):
                path = f"spec.ladder[{number}].steps[{place}].agent.params"
                yield path, "unfit-parameters", why
            if (unit := step.agent.unit) is not None and not is_listed_unit(unit, UNITS):
                setting = "stop_units" if step.agent.action is AgentAction.STOP_UNIT else "units"
                path = f"spec.ladder[{number}].steps[{place}].agent.unit"
                why = f"{unit} is not in the agent's default list: add it to repairs.{setting}"
                yield path, "unlisted-unit", f"{why} of the hosts' configuration"
    for use in list_key_uses(rule.spec):
        if why := node_keys.refusal(use.key, use.disruption):
            yield use.path, "protected-key" if is_protected(use.key) else "unlisted-key", why
