"""Deletion of a Machine in stages. Pure.

- provisioned: hooks, drain, volumes, hooks, instance, Node, our marks, finalizer.
- imported: our marks on the Node, finalizer. With Uninstall hooks, drain and components first.

The reason of condition Deletable records the stage. A stage ends when its effect is observed, so a
crash resumes at the same stage. The finalizer stays until all is removed, whatever the provider
answers.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum

from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from machine.disruption.port import DisruptionHold, DisruptionState
from machine.machine import nodesync
from machine.machine.model import (
    LOST_ANSWER,
    PRE_DRAIN,
    PRE_TERMINATE,
    SOON,
    InstanceRequestState,
    MachineAct,
    MachineObservation,
)
from machine.machine.operation import replaces
from machine.machine.success import applied, status_of
from machine.names import MACHINE

NOW = timedelta(0)
AFTER_A_PERSON = timedelta(seconds=300)
"""Time before a drain that a person stopped is tried again."""
FROZEN = timedelta(seconds=5)
"""Interval of reconciles during a meltdown, whose end no watch reports."""


class DeletionStage(StrEnum):
    """Stages in their order. TERMINATION_HOOK differs from HOOK in that the drain is over."""

    HOOK = "HookPending"
    DRAINING = "Draining"
    DETACHING = "Detaching"
    UNINSTALLING = "Uninstalling"
    TERMINATION_HOOK = "TerminationHookPending"
    TERMINATING = "Terminating"
    RELEASING = "Releasing"

    @property
    def rank(self) -> int:
        return list(DeletionStage).index(self)


@dataclass(frozen=True, slots=True)
class DeletionHold:
    """The stage of a deletion, its message and the act to do."""

    stage: DeletionStage
    message: str
    act: MachineAct = MachineAct.NONE
    again: timedelta | None = None

    @property
    def condition(self) -> ConditionUpdate:
        """The condition Deletable for this stage."""
        return ConditionUpdate(ConditionStatus.FALSE, self.stage, self.message)


def deletion(observation: MachineObservation) -> DeletionHold:
    """Return the stage of the deletion and the next act."""
    stage = stage_of(observation)
    if observation.provision and not observation.manages:
        message = "mode Observe: nothing is deleted; set mode Manage to give its instance up"
        return DeletionHold(stage, message)
    if _disrupts(observation) and stage.rank <= DeletionStage.DRAINING.rank:
        return _drain(observation)
    if keeps_permit(observation, stage) and observation.act_result.prepared is None:
        return DeletionHold(stage, _message(observation), MachineAct.PREPARE)
    if (hold := _emptied(observation, stage)) is not None:
        return hold
    if stage.rank < DeletionStage.RELEASING.rank and (hooks := observation.hooks(PRE_TERMINATE)):
        return DeletionHold(DeletionStage.TERMINATION_HOOK, _waits_for(hooks))
    if observation.provision and stage is not DeletionStage.RELEASING:
        return _terminate(observation, stage)
    return _release(observation, stage)


def stage_of(observation: MachineObservation) -> DeletionStage:
    """Return the stage that condition Deletable records, HOOK for none."""
    reason = observation.reason(MachineConditionType.DELETABLE)
    return DeletionStage(reason) if reason in set(DeletionStage) else DeletionStage.HOOK


def stage_since(observation: MachineObservation) -> datetime | None:
    """Return since when the deletion has been in its stage, None if no stage is recorded.

    Earlier versions recorded this time as the transition time of condition Deletable.
    """
    known = observation.known(MachineConditionType.DELETABLE)
    if known is None:
        return None
    recorded = observation.machine.status.deletion_stage_since
    return max(recorded or known.last_transition_time, known.last_transition_time)


def next_stage_since(observation: MachineObservation, stage: DeletionStage) -> datetime | None:
    """Return the time to record for this stage, None to leave the recorded one."""
    entered = observation.reason(MachineConditionType.DELETABLE) != stage
    return observation.now if entered else None


def keeps_permit(observation: MachineObservation, stage: DeletionStage) -> bool:
    """Return whether the act for which the node was drained is under way and needs its permit."""
    acting = DeletionStage.DRAINING.rank < stage.rank < DeletionStage.RELEASING.rank
    return _disrupts(observation) and acting and not replaces(observation)


def _disrupts(observation: MachineObservation) -> bool:
    """Return whether the deletion disturbs what runs on the host. Releasing an imported host does
    not.
    """
    spec = observation.machine.spec
    if observation.provision:
        return bool(observation.token or spec.provider_id)
    return observation.manages and spec.deletion.imported == "Uninstall" and bool(spec.components)


def _drain(observation: MachineObservation) -> DeletionHold:
    """Return the hold for hooks and drain. A drain timeout does not stop the deletion."""
    after = DeletionStage.DETACHING if observation.provision else DeletionStage.UNINSTALLING
    if hooks := observation.hooks(PRE_DRAIN):
        return DeletionHold(DeletionStage.HOOK, _waits_for(hooks))
    if replaces(observation):
        return DeletionHold(after, "drained by the job that replaces it", again=NOW)
    prepared = observation.act_result.prepared
    if prepared is None:
        return DeletionHold(
            DeletionStage.DRAINING,
            _message(observation) or "its node is to be drained",
            MachineAct.PREPARE,
        )
    if prepared.state is DisruptionState.READY:
        return DeletionHold(after, "drained", again=NOW)
    message = f"{prepared.reason}: {prepared.message}" if prepared.message else prepared.reason
    if prepared.state is DisruptionState.FAILED:
        if prepared.reason == DisruptionHold.DRAIN_TIMEOUT:
            return DeletionHold(after, f"not drained in time: {message}"[:1024], again=NOW)
        act = MachineAct.NONE if observation.act_result.act is MachineAct.END else MachineAct.END
        return DeletionHold(DeletionStage.DRAINING, message, act, AFTER_A_PERSON)
    again = None if prepared.requeue_after is None else timedelta(seconds=prepared.requeue_after)
    return DeletionHold(
        DeletionStage.DRAINING, message, again=FROZEN if observation.frozen else again
    )


def _emptied(observation: MachineObservation, stage: DeletionStage) -> DeletionHold | None:
    """Return what the host must still be rid of, volumes or components; None for nothing."""
    if not _disrupts(observation) or stage.rank >= DeletionStage.TERMINATION_HOOK.rank:
        return None
    return _detach(observation, stage) if observation.provision else _uninstall(observation)


def _detach(observation: MachineObservation, stage: DeletionStage) -> DeletionHold | None:
    """Return the hold for attached volumes, None if none is left or their timeout has expired."""
    if stage is not DeletionStage.DETACHING or observation.volumes is None:
        return DeletionHold(DeletionStage.DETACHING, "volumes are looked for", again=NOW)
    since = stage_since(observation)
    assert since is not None  # the stage is recorded
    limit = since + observation.machine.spec.deletion.volume_detach_timeout
    if not observation.volumes or observation.now >= limit:
        return None
    return DeletionHold(
        stage,
        f"{observation.volumes} volumes are still attached",
        again=min(SOON, limit - observation.now),
    )


def _uninstall(observation: MachineObservation) -> DeletionHold | None:
    """Return the hold for installed components, None if none is left.

    A host that does not answer is waited for, because only its agent knows the state.
    """
    spec = observation.machine.spec
    remaining = [
        component.name
        for component in spec.components
        if not applied(component, status_of(observation.machine, component.name))
    ]
    if all(component.desired_state == "Absent" for component in spec.components) and not remaining:
        return None
    message = f"{', '.join(remaining)} to be taken off; imported: Release would leave them"
    return DeletionHold(DeletionStage.UNINSTALLING, message[:1024], MachineAct.UNINSTALL, SOON)


def _terminate(observation: MachineObservation, stage: DeletionStage) -> DeletionHold:
    if stage is not DeletionStage.TERMINATING:
        return DeletionHold(DeletionStage.TERMINATING, "its instance is to be deleted", again=NOW)
    answer, named = observation.instance, bool(observation.machine.spec.provider_id)
    if not named and not observation.token:
        return DeletionHold(DeletionStage.RELEASING, "no instance was asked for", again=NOW)
    if observation.frozen:
        return DeletionHold(stage, observation.frozen, again=FROZEN)
    prepared = observation.act_result.prepared
    if prepared is not None and prepared.state is DisruptionState.WAITING:
        return DeletionHold(stage, f"{prepared.reason}: {prepared.message}", again=SOON)
    if prepared is not None and prepared.state is DisruptionState.FAILED and not prepared.permit:
        act = MachineAct.NONE if observation.act_result.act is MachineAct.END else MachineAct.END
        return DeletionHold(stage, f"{prepared.reason}: {prepared.message}", act, AFTER_A_PERSON)
    match answer.state:
        case InstanceRequestState.PRESENT if not named:
            return DeletionHold(stage, "an instance was made for it", MachineAct.ADOPT)
        case InstanceRequestState.PRESENT:
            return DeletionHold(
                stage, "its instance is being deleted", MachineAct.TERMINATE, answer.again or SOON
            )
        case InstanceRequestState.ERROR:
            return DeletionHold(
                stage, f"{answer.code}: {answer.message}"[:1024], again=answer.again or SOON
            )
        case InstanceRequestState.NOT:
            return DeletionHold(stage, _message(observation), again=answer.again or SOON)
        case InstanceRequestState.ABSENT if (
            not named and (remaining := _unanswered(observation)) > NOW
        ):
            return DeletionHold(
                stage, "an instance may still come of what was asked", again=min(remaining, SOON)
            )
        case InstanceRequestState.ABSENT:
            return DeletionHold(
                DeletionStage.RELEASING, "its provider has no such instance any more", again=NOW
            )


def _unanswered(observation: MachineObservation) -> timedelta:
    """Return how long an instance may still appear whose creation was requested without an
    answer.
    """
    since = stage_since(observation)
    return LOST_ANSWER if since is None else since + LOST_ANSWER - observation.now


def _release(observation: MachineObservation, stage: DeletionStage) -> DeletionHold:
    if stage is not DeletionStage.RELEASING:
        return DeletionHold(DeletionStage.RELEASING, "what is ours is taken off", again=NOW)
    message = "what is ours is taken off"
    if observation.node is not None and observation.provision and _ours(observation):
        return DeletionHold(stage, message, MachineAct.DELETE_NODE)
    if observation.node is not None and nodesync.release(
        observation.node, observation.machine.metadata.name
    ):
        return DeletionHold(stage, message, MachineAct.RELEASE)
    if observation.act_result.act is not MachineAct.END:
        return DeletionHold(stage, message, MachineAct.END)
    if not observation.act_result.done:
        return DeletionHold(stage, message, again=SOON)
    return DeletionHold(stage, message, MachineAct.REMOVE_FINALIZER)


def _ours(observation: MachineObservation) -> bool:
    """Return whether the Node stood for the deleted instance, and not for another one by now."""
    assert observation.node is not None
    ref, meta = observation.machine.status.node_ref, observation.node.metadata
    synced = meta.annotations.get(MACHINE) == observation.machine.metadata.name
    return synced or (ref is not None and ref.uid == meta.uid)


def _waits_for(hooks: tuple[str, ...]) -> str:
    return f"held by annotation {', '.join(hooks)}"[:1024]


def _message(observation: MachineObservation) -> str:
    known = observation.known(MachineConditionType.DELETABLE)
    return "" if known is None else known.message
