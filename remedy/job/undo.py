"""Changes that a job owns on the cluster, and how each is undone. Pure.

Every change is recorded in `status.owned`, or in the output of a step, before it is made, and our
finalizer guards it. A job closes only once each is observed undone; what is no longer ours (a
person took it, the node is gone) is only forgotten.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from remedy.job import marks
from remedy.job.created_objects import HandoverAct, handed, taken_back
from remedy.job.migration import surge_replicas
from remedy.job.migration.acts import PodAct
from remedy.job.model import Act, Job, JobAct, JobObservation, NodeObservation
from remedy.job.power_record import FenceAct, PowerAct, must_switch_on
from remedy.job.power_undo import switch_on_again


@dataclass(frozen=True, slots=True)
class OwnedChange:
    """A kind of change that a job may own.

    act: undoes it; idempotent
    owned: whether the status says that it may exist
    off: returns the job without it
    there: whether the live node, None once it is gone, shows it as ours; None for a change that no
        node shows, which is undone when its act returned without an error
    move: returns the next move towards undoing it, if a single act is not enough
    """

    act: Act
    owned: Callable[[Job], bool]
    off: Callable[[Job], Job]
    there: Callable[[Job, NodeObservation | None], bool] | None = None
    move: Callable[[Job, JobObservation], tuple[Job, Act] | None] | None = None


def disowned(job: Job, *names: str) -> Job:
    """Return the job without these fields of `status.owned`."""
    return job.having(owned=job.status.owned.model_copy(update=dict.fromkeys(names, False)))


OWNED_CHANGES: tuple[OwnedChange, ...] = (
    OwnedChange(act=HandoverAct.TAKE_BACK, owned=lambda job: bool(handed(job)), off=taken_back),
    OwnedChange(act=PodAct.UNSURGE, owned=surge_replicas.owns, off=surge_replicas.forget),
    OwnedChange(
        act=JobAct.UNPROTECT,
        owned=lambda job: job.status.owned.scale_down_disabled,
        off=lambda job: disowned(job, "scale_down_disabled"),
        there=marks.there,
    ),
    OwnedChange(
        act=FenceAct.UNFENCE,
        owned=lambda job: job.status.owned.fenced,
        off=lambda job: disowned(job, "fenced"),
        there=lambda job, node: node is not None and node.fenced_by == job.mark,
    ),
    OwnedChange(
        act=PowerAct.POWER_ON, owned=must_switch_on, off=lambda job: job, move=switch_on_again
    ),
    OwnedChange(
        act=JobAct.UNCORDON,
        owned=lambda job: job.status.owned.cordon,
        off=lambda job: disowned(job, "cordon"),
        there=lambda job, node: node is not None and node.cordoned_by == job.mark,
    ),
)
"""In the order in which they are undone: objects, surge, autoscaler annotations, fence, power,
cordon.
"""


def adopted(job: Job, observation: JobObservation) -> Job:
    """Return the job owning all that its node shows as its own: a removed status no
    longer says it.
    """
    node = observation.node
    if node is None:
        return job
    owned = job.status.owned
    updated = owned.model_copy(
        update={
            "cordon": owned.cordon or node.cordoned_by == job.mark,
            "fenced": owned.fenced or node.fenced_by == job.mark,
            "scale_down_disabled": owned.scale_down_disabled or marks.there(job, node),
        }
    )
    return job if updated == owned else job.having(owned=updated)


def owns(job: Job) -> bool:
    """Report whether the job owns anything on the cluster."""
    return any(change.owned(job) for change in OWNED_CHANGES)


def undo(job: Job, observation: JobObservation) -> tuple[Job, Act] | None:
    """Undo the first change that exists; None: nothing of ours is left. Marks on the node that name
    the job are its own, even if somebody removed the status that said so.
    """
    for change in OWNED_CHANGES:
        if (
            change.there is not None
            and not change.owned(job)
            and change.there(job, observation.node)
        ):
            return job, change.act
    return _undo(OWNED_CHANGES, job, observation)


def _undo(
    candidates: Iterable[OwnedChange], job: Job, observation: JobObservation
) -> tuple[Job, Act] | None:
    for change in candidates:
        if not change.owned(job):
            continue
        if change.move is not None:
            if (move := change.move(job, observation)) is not None:
                return move
        elif change.there is not None:
            if change.there(job, observation.node):
                return job, change.act
        elif observation.act_result is None or observation.act_result.act is not change.act:
            return job, change.act
        else:  # after an error it is tried again at the next reconcile
            return job if observation.act_result.error else change.off(job), JobAct.NONE
    return None


def undo_others(job: Job, observation: JobObservation, excluded: Act) -> tuple[Job, Act] | None:
    """Undo all but the change that the act `excluded` would undo, and forget what is undone; None:
    done.
    """
    others = [
        change for change in OWNED_CHANGES if change.act is not excluded and change.owned(job)
    ]
    if (move := _undo(others, job, observation)) is not None:
        return move
    for change in others:
        job = change.off(job)
    return (job, JobAct.NONE) if others else None


def owns_others(job: Job, excluded: Act) -> bool:
    """Report whether the job owns anything but the change that the act `excluded` would undo."""
    return any(change.owned(job) for change in OWNED_CHANGES if change.act is not excluded)


def forget(job: Job) -> Job:
    """Return the job without anything that it owns."""
    for change in OWNED_CHANGES:
        if change.owned(job):
            job = change.off(job)
    return job
