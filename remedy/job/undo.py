"""Changes that a job owns on the cluster, and how each is undone. Pure.

Every change is recorded in `status.owned`, or in the output of a step, before it is made, and our
finalizer guards it. A job closes only once each is observed undone; what is no longer ours (a
person took it, the node is gone) is only forgotten.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass

from remedy.job import marks
from remedy.job.created_objects import handed, taken_back
from remedy.job.migration import surge_replicas
from remedy.job.model import Job, JobAct, JobObservation, NodeSeen
from remedy.job.power_record import left_off
from remedy.job.power_undo import switch_on_again


@dataclass(frozen=True, slots=True)
class Thing:
    """A kind of change that a job may own.

    act: undoes it; idempotent
    owned: whether the status says that it may exist
    off: returns the job without it
    there: whether the live node, None once it is gone, shows it as ours; None for a change that no
        node shows, which is undone when its act returned without an error
    move: returns the next move towards undoing it, if a single act is not enough
    """

    act: JobAct
    owned: Callable[[Job], bool]
    off: Callable[[Job], Job]
    there: Callable[[Job, NodeSeen | None], bool] | None = None
    move: Callable[[Job, JobObservation], tuple[Job, JobAct] | None] | None = None


def disowned(job: Job, *names: str) -> Job:
    """Return the job without these fields of `status.owned`."""
    return job.having(owned=job.status.owned.model_copy(update=dict.fromkeys(names, False)))


THINGS: tuple[Thing, ...] = (
    Thing(act=JobAct.TAKE_BACK, owned=lambda job: bool(handed(job)), off=taken_back),
    Thing(act=JobAct.UNSURGE, owned=surge_replicas.owns, off=surge_replicas.forget),
    Thing(
        act=JobAct.UNPROTECT,
        owned=lambda job: job.status.owned.scale_down_disabled,
        off=lambda job: disowned(job, "scale_down_disabled"),
        there=marks.there,
    ),
    Thing(
        act=JobAct.UNFENCE,
        owned=lambda job: job.status.owned.fenced,
        off=lambda job: disowned(job, "fenced"),
        there=lambda job, node: node is not None and node.fenced_by == job.mark,
    ),
    Thing(act=JobAct.POWER_ON, owned=left_off, off=lambda job: job, move=switch_on_again),
    Thing(
        act=JobAct.UNCORDON,
        owned=lambda job: job.status.owned.cordon,
        off=lambda job: disowned(job, "cordon"),
        there=lambda job, node: node is not None and node.cordoned_by == job.mark,
    ),
)
"""In the order in which they are undone: objects, surge, autoscaler annotations, fence, power,
cordon.
"""


def adopted(job: Job, seen: JobObservation) -> Job:
    """Return the job owning all that its node shows as its own: a removed status no
    longer says it.
    """
    node = seen.node
    if node is None:
        return job
    owned = job.status.owned
    found = owned.model_copy(
        update={
            "cordon": owned.cordon or node.cordoned_by == job.mark,
            "fenced": owned.fenced or node.fenced_by == job.mark,
            "scale_down_disabled": owned.scale_down_disabled or marks.there(job, node),
        }
    )
    return job if found == owned else job.having(owned=found)


def owns(job: Job) -> bool:
    """Report whether the job owns anything on the cluster."""
    return any(thing.owned(job) for thing in THINGS)


def undo(job: Job, seen: JobObservation) -> tuple[Job, JobAct] | None:
    """Undo the first change that exists; None: nothing of ours is left. Marks on the node that name
    the job are its own, even if somebody removed the status that said so.
    """
    for thing in THINGS:
        if thing.there is not None and not thing.owned(job) and thing.there(job, seen.node):
            return job, thing.act
    return _undo(THINGS, job, seen)


def _undo(things: Iterable[Thing], job: Job, seen: JobObservation) -> tuple[Job, JobAct] | None:
    for thing in things:
        if not thing.owned(job):
            continue
        if thing.move is not None:
            if (move := thing.move(job, seen)) is not None:
                return move
        elif thing.there is not None:
            if thing.there(job, seen.node):
                return job, thing.act
        elif seen.heard is None or seen.heard.act is not thing.act:
            return job, thing.act
        else:  # after an error it is tried again at the next reconcile
            return job if seen.heard.error else thing.off(job), JobAct.NONE
    return None


def undo_others(job: Job, seen: JobObservation, kept: JobAct) -> tuple[Job, JobAct] | None:
    """Undo all but the change that the act `kept` would undo, and forget what is undone; None:
    done.
    """
    left = [thing for thing in THINGS if thing.act is not kept and thing.owned(job)]
    if (move := _undo(left, job, seen)) is not None:
        return move
    for thing in left:
        job = thing.off(job)
    return (job, JobAct.NONE) if left else None


def owns_others(job: Job, kept: JobAct) -> bool:
    """Report whether the job owns anything but the change that the act `kept` would undo."""
    return any(thing.owned(job) for thing in THINGS if thing.act is not kept)


def forget(job: Job) -> Job:
    """Return the job without anything that it owns."""
    for thing in THINGS:
        if thing.owned(job):
            job = thing.off(job)
    return job
