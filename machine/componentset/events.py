"""Events about the progress of a set, one for each change."""

from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import RolloutPhase as P
from kubenode.runtime.recorder import EventRecorder
from machine.componentset.rollout import ConditionMessage, RolloutPlan, RolloutState


async def tell(
    recorder: EventRecorder,
    set_: MachineComponentSet,
    before: RolloutState,
    after: RolloutState,
    plan: RolloutPlan,
) -> None:
    """Emit an Event for each difference between the two states."""
    for warns, message in list_messages(before, after, plan):
        type_ = "Warning" if warns else "Normal"
        await recorder.emit(_regarding(set_), type_, str(message.reason), message.message)


def list_messages(
    before: RolloutState, after: RolloutState, plan: RolloutPlan
) -> list[tuple[bool, ConditionMessage]]:
    """Return the messages to emit, each with whether it is a warning."""
    entries: list[tuple[bool, ConditionMessage]] = []
    if after.stop is not None and after.stop != before.stop:
        entries.append((True, after.stop))
    if after.rejected and after.rejected != before.rejected:
        what = f"revision {after.rejected} is rejected: machines return to {after.current}"
        entries.append(
            (True, ConditionMessage(P.ROLLING_BACK, f"{what}; {plan.progressing[1].message}"))
        )
    if after.batch.started_at is not None and after.batch.started_at != before.batch.started_at:
        what = f"batch {after.batch.index} of {after.batch.size} starts: {after.update}"
        entries.append((False, ConditionMessage("BatchStarted", what)))
    if after.current and after.current != before.current:
        entries.append((False, ConditionMessage(P.COMPLETED, f"revision {after.current}")))
    return entries


def _regarding(set_: MachineComponentSet) -> dict[str, str]:
    meta = set_.metadata
    return {
        "kind": set_.kind,
        "api_version": set_.api_version,
        "name": meta.name,
        "uid": meta.uid,
    }
