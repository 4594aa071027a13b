"""Deletion of a Machine in stages. Pure.

- provisioned: hooks, drain, volumes, hooks, instance, Node, our marks, finalizer.
- imported: our marks on the Node, finalizer. With Uninstall hooks, drain and components first.

The reason of condition Deletable records the stage. A stage ends when its effect is observed, so a
crash resumes at the same stage. The finalizer stays until all is removed, whatever the provider
answers.
"""

from dataclasses import dataclass
from datetime import timedelta
from enum import StrEnum

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from machine.bootstrap.agentready import ConditionUpdate
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
    def said(self) -> ConditionUpdate:
        """The condition Deletable for this stage."""
        return ConditionUpdate(ConditionStatus.FALSE, self.stage, self.message)


def deletion(seen: MachineObservation) -> DeletionHold:
    """Return the stage of the deletion and the next act."""
    stage = stage_of(seen)
    if seen.provision and not seen.manages:
        told = "mode Observe: nothing is deleted; set mode Manage to give its instance up"
        return DeletionHold(stage, told)
    if _disrupts(seen) and stage.rank <= DeletionStage.DRAINING.rank:
        return _drain(seen)
    if keeps_permit(seen, stage) and seen.heard.prepared is None:
        return DeletionHold(stage, _message(seen), MachineAct.PREPARE)
    if (held := _emptied(seen, stage)) is not None:
        return held
    if stage.rank < DeletionStage.RELEASING.rank and (hooks := seen.hooks(PRE_TERMINATE)):
        return DeletionHold(DeletionStage.TERMINATION_HOOK, _waits_for(hooks))
    if seen.provision and stage is not DeletionStage.RELEASING:
        return _terminate(seen, stage)
    return _release(seen, stage)


def stage_of(seen: MachineObservation) -> DeletionStage:
    """Return the stage that condition Deletable records, HOOK for none."""
    reason = seen.reason(MachineConditionType.DELETABLE)
    return DeletionStage(reason) if reason in set(DeletionStage) else DeletionStage.HOOK


def keeps_permit(seen: MachineObservation, stage: DeletionStage) -> bool:
    """Return whether the act for which the node was drained is under way and needs its permit."""
    under_way = DeletionStage.DRAINING.rank < stage.rank < DeletionStage.RELEASING.rank
    return _disrupts(seen) and under_way and not replaces(seen)


def _disrupts(seen: MachineObservation) -> bool:
    """Return whether the deletion disturbs what runs on the host. Releasing an imported host does
    not.
    """
    spec = seen.machine.spec
    if seen.provision:
        return bool(seen.token or spec.provider_id)
    return seen.manages and spec.deletion.imported == "Uninstall" and bool(spec.components)


def _drain(seen: MachineObservation) -> DeletionHold:
    """Return the hold for hooks and drain. A drain timeout does not stop the deletion."""
    after = DeletionStage.DETACHING if seen.provision else DeletionStage.UNINSTALLING
    if hooks := seen.hooks(PRE_DRAIN):
        return DeletionHold(DeletionStage.HOOK, _waits_for(hooks))
    if replaces(seen):
        return DeletionHold(after, "drained by the job that replaces it", again=NOW)
    prepared = seen.heard.prepared
    if prepared is None:
        return DeletionHold(
            DeletionStage.DRAINING,
            _message(seen) or "its node is to be drained",
            MachineAct.PREPARE,
        )
    if prepared.state is DisruptionState.READY:
        return DeletionHold(after, "drained", again=NOW)
    told = f"{prepared.reason}: {prepared.message}" if prepared.message else prepared.reason
    if prepared.state is DisruptionState.FAILED:
        if prepared.reason == DisruptionHold.DRAIN_TIMEOUT:
            return DeletionHold(after, f"not drained in time: {told}"[:1024], again=NOW)
        act = MachineAct.NONE if seen.heard.act is MachineAct.END else MachineAct.END
        return DeletionHold(DeletionStage.DRAINING, told, act, AFTER_A_PERSON)
    again = None if prepared.look_again is None else timedelta(seconds=prepared.look_again)
    return DeletionHold(DeletionStage.DRAINING, told, again=FROZEN if seen.frozen else again)


def _emptied(seen: MachineObservation, stage: DeletionStage) -> DeletionHold | None:
    """Return what the host must still be rid of, volumes or components; None for nothing."""
    if not _disrupts(seen) or stage.rank >= DeletionStage.TERMINATION_HOOK.rank:
        return None
    return _detach(seen, stage) if seen.provision else _uninstall(seen)


def _detach(seen: MachineObservation, stage: DeletionStage) -> DeletionHold | None:
    """Return the hold for attached volumes, None if none is left or their timeout has expired."""
    if stage is not DeletionStage.DETACHING or seen.volumes is None:
        return DeletionHold(DeletionStage.DETACHING, "volumes are looked for", again=NOW)
    since = seen.known(MachineConditionType.DELETABLE)
    assert since is not None  # its reason is the stage
    limit = since.last_transition_time + seen.machine.spec.deletion.volume_detach_timeout
    if not seen.volumes or seen.now >= limit:
        return None
    return DeletionHold(
        stage, f"{seen.volumes} volumes are still attached", again=min(SOON, limit - seen.now)
    )


def _uninstall(seen: MachineObservation) -> DeletionHold | None:
    """Return the hold for installed components, None if none is left.

    A host that does not answer is waited for, because only its agent knows the state.
    """
    spec = seen.machine.spec
    left = [
        one.name for one in spec.components if not applied(one, status_of(seen.machine, one.name))
    ]
    if all(one.desired_state == "Absent" for one in spec.components) and not left:
        return None
    told = f"{', '.join(left)} to be taken off; imported: Release would leave them"
    return DeletionHold(DeletionStage.UNINSTALLING, told[:1024], MachineAct.UNINSTALL, SOON)


def _terminate(seen: MachineObservation, stage: DeletionStage) -> DeletionHold:
    if stage is not DeletionStage.TERMINATING:
        return DeletionHold(DeletionStage.TERMINATING, "its instance is to be deleted", again=NOW)
    asked, named = seen.instance, bool(seen.machine.spec.provider_id)
    if not named and not seen.token:
        return DeletionHold(DeletionStage.RELEASING, "no instance was asked for", again=NOW)
    if seen.frozen:
        return DeletionHold(stage, seen.frozen, again=FROZEN)
    prepared = seen.heard.prepared
    if prepared is not None and prepared.state is DisruptionState.WAITING:
        return DeletionHold(stage, f"{prepared.reason}: {prepared.message}", again=SOON)
    if prepared is not None and prepared.state is DisruptionState.FAILED and not prepared.permit:
        act = MachineAct.NONE if seen.heard.act is MachineAct.END else MachineAct.END
        return DeletionHold(stage, f"{prepared.reason}: {prepared.message}", act, AFTER_A_PERSON)
    match asked.asked:
        case InstanceRequestState.FOUND if not named:
            return DeletionHold(stage, "an instance was made for it", MachineAct.ADOPT)
        case InstanceRequestState.FOUND:
            return DeletionHold(
                stage, "its instance is being deleted", MachineAct.TERMINATE, asked.again or SOON
            )
        case InstanceRequestState.ERROR:
            return DeletionHold(
                stage, f"{asked.code}: {asked.told}"[:1024], again=asked.again or SOON
            )
        case InstanceRequestState.NOT:
            return DeletionHold(stage, _message(seen), again=asked.again or SOON)
        case InstanceRequestState.ABSENT if not named and (left := _unanswered(seen)) > NOW:
            return DeletionHold(
                stage, "an instance may still come of what was asked", again=min(left, SOON)
            )
        case InstanceRequestState.ABSENT:
            return DeletionHold(
                DeletionStage.RELEASING, "its provider has no such instance any more", again=NOW
            )


def _unanswered(seen: MachineObservation) -> timedelta:
    """Return how long an instance may still appear whose creation was requested without an
    answer.
    """
    known = seen.known(MachineConditionType.DELETABLE)
    return LOST_ANSWER if known is None else known.last_transition_time + LOST_ANSWER - seen.now


def _release(seen: MachineObservation, stage: DeletionStage) -> DeletionHold:
    if stage is not DeletionStage.RELEASING:
        return DeletionHold(DeletionStage.RELEASING, "what is ours is taken off", again=NOW)
    told = "what is ours is taken off"
    if seen.node is not None and seen.provision and _ours(seen):
        return DeletionHold(stage, told, MachineAct.DELETE_NODE)
    if seen.node is not None and nodesync.release(seen.node, seen.machine.metadata.name):
        return DeletionHold(stage, told, MachineAct.RELEASE)
    if seen.heard.act is not MachineAct.END:
        return DeletionHold(stage, told, MachineAct.END)
    if not seen.heard.done:
        return DeletionHold(stage, told, again=SOON)
    return DeletionHold(stage, told, MachineAct.REMOVE_FINALIZER)


def _ours(seen: MachineObservation) -> bool:
    """Return whether the Node stood for the deleted instance, and not for another one by now."""
    assert seen.node is not None
    ref, meta = seen.machine.status.node_ref, seen.node.metadata
    synced = meta.annotations.get(MACHINE) == seen.machine.metadata.name
    return synced or (ref is not None and ref.uid == meta.uid)


def _waits_for(hooks: tuple[str, ...]) -> str:
    return f"held by annotation {', '.join(hooks)}"[:1024]


def _message(seen: MachineObservation) -> str:
    known = seen.known(MachineConditionType.DELETABLE)
    return "" if known is None else known.message
