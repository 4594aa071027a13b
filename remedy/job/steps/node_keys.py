"""Steps that change one label or annotation of the Node. Pure.

A step is done once the Node is observed with the change. The key is checked again right before the
act, since the rule may have been stored before the key was refused.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Protocol

from kubenode.api.v1alpha1 import Disruption, Step
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.api.v1alpha1.steps import AnnotateStep, LabelStep, NodeKeyStep, StepBody
from remedy.job.model import Job, JobActResult, JobObservation, NodeObservation, StepAct
from remedy.job.moves import Move
from remedy.job.steps.handler import StepHandler
from remedy.job.steps.single_act import act_until
from remedy.power.observation import RequestOutcome


class NodeKeyAct(StepAct):
    LABEL = "Label"
    ANNOTATE = "Annotate"


@dataclass(frozen=True, slots=True)
class NodeKeyChange:
    """The change that a step makes.

    field: of the Node's metadata, labels or annotations
    value: None removes the key
    """

    act: NodeKeyAct
    field: str
    key: str
    value: str | None

    def is_shown(self, node: NodeObservation) -> bool:
        """Report whether the Node is observed with the change."""
        keys = node.labels if self.field == "labels" else node.annotations
        return keys.get(self.key) == self.value


def change_of(body: StepBody) -> NodeKeyChange:
    """Return the change that a step makes. Raises TypeError for a step of another kind."""
    match body:
        case LabelStep():
            return NodeKeyChange(NodeKeyAct.LABEL, "labels", body.key, body.value)
        case AnnotateStep():
            return NodeKeyChange(NodeKeyAct.ANNOTATE, "annotations", body.key, body.value)
        case _:
            raise TypeError(f"{type(body).__name__} changes no key of a Node")


def change_key(
    job: Job, observation: JobObservation, node: NodeObservation, step: Step, record: StepStatus
) -> Move:
    change = change_of(step.body)
    shown = change.is_shown(node)
    return act_until(job, observation, step, record, change.act, shown=shown)


class NodeKeyWriter(Protocol):
    async def set(self, job: Job, kind: str, key: str, value: str | None) -> None:
        """Set one key of the job's Node, or remove it with None; `kind` is the metadata field."""
        ...


@dataclass(frozen=True, slots=True)
class NodeKeyActor:
    """Carries the acts out.

    refusal: returns why rules may not set a key in a rung of a class, "" if they may
    """

    nodes: NodeKeyWriter
    refusal: Callable[[str, Disruption], str]

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        """Change the key. Outcome REFUSED: rules may not set this key."""
        body = job.step.body if job.step is not None else None
        if not isinstance(body, NodeKeyStep):
            return JobActResult(what)
        if why := self.refusal(body.key, job.disruption):
            return JobActResult(what, outcome=RequestOutcome.REFUSED, error=f"key {why}")
        change = change_of(body)
        await self.nodes.set(job, change.field, change.key, change.value)
        return JobActResult(what)


HANDLERS: Mapping[str, StepHandler] = dict.fromkeys(
    ("label", "annotate"), StepHandler(change_key, NodeKeyAct)
)
