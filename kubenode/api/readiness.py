"""Derives the conditions that kstatus reads, Ready, Reconciling and Stalled, from our own. Pure.

kstatus is the library with which Flux, kpt and Helm decide that an object is ready
(https://github.com/kubernetes-sigs/cli-utils/tree/v0.37.2/pkg/kstatus). Its rules:

- An object whose `status.observedGeneration` is not its generation is in progress. The CRDs default
  it to 0, so a new object is in progress until its controller has reconciled it.
- Reconciling and Stalled are present only while they are True. Ready is always present.
- Stalled means that a person must act. Whatever can end by itself is Reconciling: a tool waits for
  it and gives up by its own timeout.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from kubenode.api.conditions import ConditionUpdate, find_condition, set_condition
from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.rollouts import STICKY, RolloutReason
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase

READY, RECONCILING, STALLED = "Ready", "Reconciling", "Stalled"
UNOBSERVED: Mapping[str, Any] = {"observedGeneration": 0}
"""Default of the status in the CRD: no controller has reconciled the object yet."""
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


class Progress(StrEnum):
    """Progress of an object towards its spec, by the names of kstatus."""

    CURRENT = "Current"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Readiness:
    """Progress of an object, with reason and message of the condition that decides it."""

    progress: Progress
    reason: str
    message: str = ""


CURRENT = Readiness(Progress.CURRENT, Progress.CURRENT)
UNREPORTED = "Unreported"
"""Reason of a progress that waits for a condition which is not set yet."""


@dataclass(frozen=True, slots=True)
class ReadinessRule:
    """Progress that follows from a condition.

    status: statuses of the condition for which the rule holds. An absent condition is Unknown.
    reasons: reasons for which it holds; empty for all.
    """

    type: str
    status: frozenset[ConditionStatus]
    progress: Progress
    reasons: frozenset[str] = frozenset()

    def apply(self, conditions: Sequence[Condition]) -> Readiness | None:
        """Return the progress if the rule holds, else None."""
        condition = find_condition(conditions, self.type)
        if condition is None:
            status, reason, message = UNKNOWN, UNREPORTED, f"condition {self.type} is not set yet"
        else:
            status, reason, message = condition.status, condition.reason, condition.message
        if status not in self.status or (self.reasons and reason not in self.reasons):
            return None
        return (
            CURRENT
            if self.progress is Progress.CURRENT
            else Readiness(self.progress, reason, message)
        )


def _if_true(type_: str, progress: Progress, *reasons: str) -> ReadinessRule:
    return ReadinessRule(type_, frozenset({TRUE}), progress, frozenset(reasons))


def _if_false(type_: str, progress: Progress, *reasons: str) -> ReadinessRule:
    return ReadinessRule(type_, frozenset({FALSE}), progress, frozenset(reasons))


def _unless_true(type_: str, progress: Progress, *reasons: str) -> ReadinessRule:
    return ReadinessRule(type_, frozenset({FALSE, UNKNOWN}), progress, frozenset(reasons))


def _always(type_: str, progress: Progress, *reasons: str) -> ReadinessRule:
    return ReadinessRule(type_, frozenset(ConditionStatus), progress, frozenset(reasons))


_IN_PROGRESS, _FAILED = Progress.IN_PROGRESS, Progress.FAILED
RULES: Mapping[str, tuple[ReadinessRule, ...]] = {
    "NodeRemedier": (_if_false("Compiled", _FAILED), _if_false("EnginesAgree", _FAILED)),
    "DefenderPolicy": (_if_true("NotEnforced", _FAILED),),
    "MachineClass": (_if_false(READY, _FAILED), _unless_true(READY, _IN_PROGRESS)),
    "MemberCluster": (
        _always("Reachable", Progress.CURRENT, "Paused"),
        _if_false(
            "Reachable",
            _FAILED,
            "SecretMissing",
            "InvalidKubeconfig",
            "UntrustedCertificate",
            "Unauthorized",
            "Forbidden",
        ),
        _unless_true("Reachable", _IN_PROGRESS),
        _if_false("Installed", _FAILED),
    ),
    "MachineComponent": (_if_false("Valid", _FAILED), _unless_true("Valid", _IN_PROGRESS)),
    "ReleasePipeline": (_if_false("Valid", _FAILED), _unless_true("Valid", _IN_PROGRESS)),
    "Release": (
        _if_true("Paused", _FAILED, "ClustersFailed"),
        _if_false("Progressing", Progress.CURRENT, "Succeeded"),
        _if_false("Progressing", _FAILED),
        _always("Progressing", _IN_PROGRESS),
    ),
    "Machine": (
        _if_false("InstanceReady", _FAILED, "CreateFailed", "InstanceGone"),
        _if_false("Healthy", _FAILED, "StartupTimeout"),
        _if_false("ComponentsReady", _FAILED, "DependencyCycle", "FileConflict", "DriftFight"),
        _unless_true("Healthy", _IN_PROGRESS),
        _unless_true("ComponentsReady", _IN_PROGRESS),
    ),
    "MachineSet": (
        _if_false("Healthy", _FAILED, "TooManyUnhealthy"),
        _unless_true("Scaled", _IN_PROGRESS),
        _unless_true("Healthy", _IN_PROGRESS),
    ),
    "NodeClass": (_if_false(READY, _FAILED), _unless_true(READY, _IN_PROGRESS)),
    "NodeSet": (
        _if_false("Converted", _FAILED, "NameTaken", "NameTooLong"),
        _unless_true("Converted", _IN_PROGRESS),
        _if_false("Healthy", _FAILED, "TooManyUnhealthy"),
        _unless_true("Scaled", _IN_PROGRESS),
        _unless_true("Healthy", _IN_PROGRESS),
    ),
    "MachineComponentSet": (
        _if_true("Paused", _FAILED, *STICKY),
        _if_true("Degraded", _FAILED, RolloutReason.ROLLED_BACK, RolloutReason.CONFLICT),
        _if_true("Progressing", _IN_PROGRESS),
        _if_false("Progressing", _FAILED, RolloutReason.DEADLINE_EXCEEDED),
        _if_true("Degraded", _FAILED, RolloutReason.MACHINES_FAILED),
        _if_true("Degraded", _IN_PROGRESS),
        _always(
            "Progressing",
            Progress.CURRENT,
            RolloutPhase.COMPLETED,
            RolloutPhase.IDLE,
            RolloutReason.PARTITION_REACHED,
        ),
        _always("Progressing", _IN_PROGRESS),
    ),
}
"""Rules of each kind with a desired state, by kind. The first one that holds decides; if none
holds, the object is current.
"""


def find_readiness(kind: str, conditions: Sequence[Condition]) -> Readiness:
    """Return the progress of an object by the conditions that its controller has set."""
    answers = (rule.apply(conditions) for rule in RULES[kind])
    return next((answer for answer in answers if answer is not None), CURRENT)


def set_readiness(
    kind: str, conditions: Sequence[Condition], *, generation: int, now: datetime
) -> list[Condition]:
    """Return the conditions with Ready, Reconciling and Stalled as the others demand.

    A condition Ready that the kind sets itself stays as it is.
    """
    readiness = find_readiness(kind, conditions)
    after = list(conditions)
    if all(rule.type != READY for rule in RULES[kind]):
        update = ConditionUpdate.of(
            readiness.progress is Progress.CURRENT, readiness.reason, readiness.message
        )
        after = set_condition(after, READY, update, generation=generation, now=now)
    for type_, progress in ((RECONCILING, _IN_PROGRESS), (STALLED, _FAILED)):
        if readiness.progress is not progress:
            after = [condition for condition in after if condition.type != type_]
            continue
        update = ConditionUpdate(TRUE, readiness.reason, readiness.message)
        after = set_condition(after, type_, update, generation=generation, now=now)
    return after


def read_progress(
    kind: str, generation: int, observed: int, conditions: Sequence[Condition]
) -> Readiness:
    """Return the progress of an object as kstatus computes it.

    generation: metadata.generation; 0 if unknown.
    observed: status.observedGeneration.
    """
    if observed != generation:
        message = f"generation is {generation}, observed generation is {observed}"
        return Readiness(_IN_PROGRESS, "GenerationNotObserved", message)
    return find_readiness(kind, conditions)
