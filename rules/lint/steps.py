"""Steps whose parameters the agent would refuse: the CRD knows them as text alone."""

from collections.abc import Iterator

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.agentparams import complaint
from rules.lint.finding import Remark


def remarks(rule: NodeRemedier) -> Iterator[Remark]:
    for number, rung in enumerate(rule.spec.ladder or []):
        for place, step in enumerate(rung.steps):
            if step.agent is None:
                continue
            if why := complaint(step.agent.action.value, step.agent.params):
                path = f"spec.ladder[{number}].steps[{place}].agent.params"
                yield path, "unfit-parameters", why
