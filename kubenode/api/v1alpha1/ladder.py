"""Ladder of a repair: rungs, mildest first. Each has steps and a verification."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum
from typing import Any, ClassVar

from pydantic import Field, JsonValue, field_validator, model_validator
from pydantic.alias_generators import to_camel

from kubenode.api.base import CelRule, Model
from kubenode.api.duration import Duration
from kubenode.api.v1alpha1.leaves import Expression, shallow
from kubenode.api.v1alpha1.steps import (
    UNIT_ACTIONS,
    AgentAction,
    AgentStep,
    AnnotateStep,
    ApproveEventStep,
    CheckpointWebhook,
    CollectStep,
    CordonStep,
    CreateObjectStep,
    FenceStep,
    Gang,
    LabelStep,
    MigrateStep,
    NotifyStep,
    OnFailure,
    OnTimeout,
    PodPolicy,
    PodPolicyMode,
    PodVolume,
    PowerPath,
    PowerStep,
    RebootStep,
    ReplacePath,
    ReplaceStep,
    RollbackComponentStep,
    StepBody,
    UncordonStep,
    WaitForApprovalStep,
    WaitForEventStep,
    WaitStep,
    WebhookStep,
)
from kubenode.api.v1alpha1.window import TimeWindow

__all__ = [
    "STEP_KINDS",
    "UNIT_ACTIONS",
    "AgentAction",
    "AgentStep",
    "AnnotateStep",
    "ApproveEventStep",
    "CheckpointWebhook",
    "CollectStep",
    "CordonStep",
    "CreateObjectStep",
    "Disruption",
    "FenceStep",
    "Gang",
    "LabelStep",
    "MigrateStep",
    "NotifyStep",
    "OnFailure",
    "OnTimeout",
    "PodPolicy",
    "PodPolicyMode",
    "PodVolume",
    "PowerPath",
    "PowerStep",
    "RebootStep",
    "Remainder",
    "ReplacePath",
    "ReplaceStep",
    "RollbackComponentStep",
    "Rung",
    "Step",
    "StepKind",
    "UncordonStep",
    "Verify",
    "WaitForApprovalStep",
    "WaitForEventStep",
    "WaitStep",
    "WebhookStep",
    "list_steps",
    "only_notifies",
]


class Disruption(StrEnum):
    """Disruption class of a rung, mildest first. Host and above require a permit."""

    NONE = "None"
    HOST = "Host"
    PODS = "Pods"
    NODE = "Node"

    @property
    def weight(self) -> int:
        return list(Disruption).index(self)


class Remainder(StrEnum):
    """Effect of a step that later steps of its rung depend on.

    NOTHING   the step changes nothing on the host and leaves nothing in progress
    COMPLETE  after it no later step is needed: the job itself removes a cordon, and a boot restarts
        everything on the host
    OPEN      a machine is off or gone, or a later restart loads what the step changed
    OTHERS    other systems act on the node; whether they rely on the rest of the rung is unknown
    """

    NOTHING = "Nothing"
    COMPLETE = "Complete"
    OPEN = "Open"
    OTHERS = "Others"


@dataclass(frozen=True, slots=True)
class StepKind:
    """Properties of a kind of step that do not depend on its fields.

    disruption: disruption class; class None needs no permit
    signals: whether the step makes other programs act on a node although it needs no permit
    """

    disruption: Disruption
    remainder: Remainder
    signals: bool = False


STEP_KINDS: dict[str, StepKind] = {
    "collect": StepKind(Disruption.NONE, Remainder.NOTHING),
    "notify": StepKind(Disruption.NONE, Remainder.NOTHING),
    "label": StepKind(Disruption.NONE, Remainder.NOTHING, signals=True),
    "annotate": StepKind(Disruption.NONE, Remainder.NOTHING, signals=True),
    "wait": StepKind(Disruption.NONE, Remainder.NOTHING),
    "wait_for_event": StepKind(Disruption.NONE, Remainder.OTHERS),
    "wait_for_approval": StepKind(Disruption.NONE, Remainder.NOTHING),
    "approve_event": StepKind(Disruption.NONE, Remainder.OTHERS, signals=True),
    "uncordon": StepKind(Disruption.NONE, Remainder.NOTHING),
    "webhook": StepKind(Disruption.NONE, Remainder.OTHERS, signals=True),
    "create_object": StepKind(Disruption.NONE, Remainder.OTHERS, signals=True),
    "rollback_component": StepKind(Disruption.HOST, Remainder.OPEN),
    "cordon": StepKind(Disruption.PODS, Remainder.COMPLETE),
    "migrate": StepKind(Disruption.PODS, Remainder.COMPLETE),
    "reboot": StepKind(Disruption.NODE, Remainder.COMPLETE),
    "power_off": StepKind(Disruption.NODE, Remainder.OPEN),
    "power_on": StepKind(Disruption.NODE, Remainder.COMPLETE),
    "power_cycle": StepKind(Disruption.NODE, Remainder.COMPLETE),
    "fence": StepKind(Disruption.NODE, Remainder.OPEN),
    "replace": StepKind(Disruption.NODE, Remainder.OPEN),
}
"""Kinds by the field of Step. Those of an agent step depend on its action."""


INFORMING = frozenset({"collect", "notify", "wait"})
"""Steps that inform people and change nothing anywhere."""


def only_notifies(rungs: "Sequence[Rung]") -> bool:
    """Return whether the ladder notifies people and does nothing else."""
    names = {step.name for rung in rungs for step in rung.steps}
    return "notify" in names and names <= INFORMING


def list_steps(is_chosen: Callable[[StepKind], bool]) -> frozenset[str]:
    """Return the camelCase names of the kinds of steps that the predicate accepts."""
    return frozenset(to_camel(field) for field, kind in STEP_KINDS.items() if is_chosen(kind))


_AGENT_HOST = "s.agent.action != 'RunCheck'"
_AGENT_PODS = (
    "s.agent.action == 'ResetGPU' || (s.agent.action == 'CleanDisk' && has(s.agent.params)"
    " && 'target' in s.agent.params && s.agent.params['target'] == 'imagesInUse')"
)


def _cel_some_step(disruption: Disruption, agent: str = "false") -> str:
    """Return a CEL expression: whether a rung has a step of this class."""
    own = " || ".join(
        f"has(s.{to_camel(name)})"
        for name, kind in STEP_KINDS.items()
        if kind.disruption is disruption
    )
    return f"self.steps.exists(s, {own} || (has(s.agent) && ({agent})))"


NOT_LOWERED = CelRule(
    "!has(self.disruption) || self.disruption in ['', 'Node']"
    f" || !{_cel_some_step(Disruption.NODE)}"
    f" && (self.disruption == 'Pods' || !{_cel_some_step(Disruption.PODS, _AGENT_PODS)}"
    f" && (self.disruption == 'Host' || !{_cel_some_step(Disruption.HOST, _AGENT_HOST)}))",
    "lower than what the steps of the rung do: leave it out or raise it",
    "disruption",
)


_ACTS = (*STEP_KINDS, "agent")
_HAS_ACT = ", ".join(f"has(self.{to_camel(name)})" for name in _ACTS)


class Step(Model):
    """Step with exactly one key: `{cordon: {}}`, `{agent: {action: RestartUnit, …}}`."""

    cordon: CordonStep | None = None
    uncordon: UncordonStep | None = None
    collect: CollectStep | None = None
    migrate: MigrateStep | None = None
    reboot: RebootStep | None = None
    power_off: PowerStep | None = None
    power_on: PowerStep | None = None
    power_cycle: PowerStep | None = None
    fence: FenceStep | None = None
    replace: ReplaceStep | None = None
    rollback_component: RollbackComponentStep | None = None
    label: LabelStep | None = None
    annotate: AnnotateStep | None = None
    wait: WaitStep | None = None
    wait_for_event: WaitForEventStep | None = None
    wait_for_approval: WaitForApprovalStep | None = None
    approve_event: ApproveEventStep | None = None
    notify: NotifyStep | None = None
    webhook: WebhookStep | None = None
    create_object: CreateObjectStep | None = None
    agent: AgentStep | None = None

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            f"[{_HAS_ACT}].filter(x, x).size() == 1",
            "not one act: write one a line, such as `- cordon: {}`",
        ),
    )

    @model_validator(mode="before")
    @classmethod
    def _bare_name(cls, data: Any) -> Any:
        """Read `{cordon: null}`, which YAML makes of `cordon:`, as a step without parameters."""
        if not isinstance(data, dict):
            return data
        if len(data) == 1:
            return {name: {} if body is None else body for name, body in data.items()}
        return {name: body for name, body in data.items() if body is not None}

    @model_validator(mode="after")
    def _check_act(self) -> "Step":
        if sum(getattr(self, field) is not None for field in _ACTS) != 1:
            raise self.cel[0].broken()
        return self

    @property
    def _act(self) -> str:
        return next(field for field in _ACTS if getattr(self, field) is not None)

    @property
    def name(self) -> str:
        """Return the camelCase name of the step, such as `powerCycle`."""
        return to_camel(self._act)

    @property
    def body(self) -> StepBody:
        body: StepBody = getattr(self, self._act)
        return body

    @property
    def disruption(self) -> Disruption:
        if self.agent is not None:
            return _of_agent(self.agent)
        return STEP_KINDS[self._act].disruption

    @property
    def irreversible(self) -> bool:
        """Return whether the step cannot be undone. A cordon and a drain can be undone, a restart
        cannot."""
        return self.disruption is not Disruption.NONE and self._act not in ("cordon", "migrate")


def _of_agent(step: AgentStep) -> Disruption:
    match step.action:
        case AgentAction.RUN_CHECK:
            return Disruption.NONE
        case AgentAction.RESET_GPU:
            return Disruption.PODS
        case AgentAction.CLEAN_DISK if step.params.get("target") == "imagesInUse":
            return Disruption.PODS
        case _:
            return Disruption.HOST


EMPTY_MEANS_ABSENT: dict[str, JsonValue] = {"emptyMeansAbsent": True}
"""Schema extension for fields in which "" or {} stands for an absent value."""

CLEARED_DEPTH = 1
"""Maximum depth of `cleared`: a leaf, or one combinator of leaves."""

CHECKS_ONLY = CelRule(
    "!has(self.checks) || self.checks.all(c, has(c.agent) && c.agent.action == 'RunCheck')",
    "a check only looks: write agent steps with `action: RunCheck`",
    "checks",
)


class Verify(Model):
    """Verification that the fault is gone."""

    for_: Duration = Field(default=timedelta(minutes=2), alias="for")
    """Minimum time for which fresh reports must show no fault."""
    timeout: Duration = timedelta(minutes=15)
    settle: Duration = timedelta(minutes=3)
    """Time after a boot or detector start in which a reported "False" counts as unknown."""
    cleared: Expression | None = Field(
        default=None, json_schema_extra=EMPTY_MEANS_ABSENT | {"deepest": CLEARED_DEPTH}
    )
    """Expression that proves the repair.

    Defaults to: reports after the act make each evidence leaf false.
    """
    checks: list[Step] = Field(default_factory=list, max_length=8)
    """Agent steps with action RunCheck. Without `cleared`, they replace the evidence."""
    probation: Duration = timedelta(hours=24)
    """Time after a success in which a relapse counts as a failed repair."""

    cel: ClassVar[tuple[CelRule, ...]] = (CHECKS_ONLY,)
    _shallow = field_validator("cleared")(shallow(CLEARED_DEPTH))

    @model_validator(mode="before")
    @classmethod
    def _empty_cleared_is_the_default(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("cleared") == {}:
            return {k: v for k, v in data.items() if k != "cleared"}
        return data

    @model_validator(mode="after")
    def _checks_only(self) -> "Verify":
        for step in self.checks:
            if step.agent is None or step.agent.action is not AgentAction.RUN_CHECK:
                raise CHECKS_ONLY.broken()
        return self


class Rung(Model):
    """Steps in order, followed by a verification."""

    name: str = Field(min_length=1, max_length=63, pattern=r"^[a-z0-9]([a-z0-9-]*[a-z0-9])?$")
    disruption: Disruption | None = Field(default=None, json_schema_extra=EMPTY_MEANS_ABSENT)
    """Disruption class. Defaults to that of the steps; cannot be lower."""
    window: TimeWindow | None = None
    """Window in which the rung may begin, in addition to that of the rule."""
    steps: list[Step] = Field(min_length=1, max_length=16)
    verify: Verify = Field(default_factory=Verify)

    cel: ClassVar[tuple[CelRule, ...]] = (NOT_LOWERED,)

    @model_validator(mode="before")
    @classmethod
    def _empty_disruption_is_computed(cls, data: Any) -> Any:
        if isinstance(data, dict) and data.get("disruption") == "":
            return {k: v for k, v in data.items() if k != "disruption"}
        return data

    @model_validator(mode="after")
    def _not_lowered(self) -> "Rung":
        computed = self._computed()
        if self.disruption is not None and self.disruption.weight < computed.weight:
            raise NOT_LOWERED.broken()
        return self

    def _computed(self) -> Disruption:
        return max((s.disruption for s in self.steps), key=lambda d: d.weight)

    @property
    def disruption_class(self) -> Disruption:
        """Return the disruption class to request from Kube Defender."""
        return self.disruption if self.disruption is not None else self._computed()
