"""What a job has of its own on the cluster, and how each thing is taken off again. Pure.

Every row stands in `status.owned`, or in the output of a step, before the thing is made, and is
guarded by our finalizer. A job closes only once each is seen to be off; whatever is not ours any
more (a person took it, the node is gone) is merely forgotten.
"""

from collections.abc import Callable
from dataclasses import dataclass

from remedy.job.model import Act, Job, NodeSeen


@dataclass(frozen=True, slots=True)
class Thing:
    """act    takes it off; idempotent
    owned  whether the status says that it may be there
    there  whether it is there, and ours; the node is None once it is gone
    off    the job that owns it no more
    """

    act: Act
    owned: Callable[[Job], bool]
    there: Callable[[Job, NodeSeen | None], bool]
    off: Callable[[Job], Job]


def disowned(job: Job, *names: str) -> Job:
    """Without these fields of `status.owned`."""
    return job.having(owned=job.status.owned.model_copy(update=dict.fromkeys(names, False)))


THINGS: tuple[Thing, ...] = (
    Thing(
        act=Act.UNCORDON,
        owned=lambda job: job.status.owned.cordon,
        there=lambda job, node: node is not None and node.cordoned_by == job.mark,
        off=lambda job: disowned(job, "cordon"),
    ),
)
"""In the order in which they are taken off: marks, fence, cordon."""


def owns(job: Job) -> bool:
    return any(thing.owned(job) for thing in THINGS)


def next_undo(job: Job, node: NodeSeen | None) -> Act | None:
    """The act that takes off the first thing that is there; None: nothing of ours is left."""
    left = (thing.act for thing in THINGS if thing.owned(job) and thing.there(job, node))
    return next(left, None)


def forget(job: Job) -> Job:
    """Nothing is owned any more."""
    for thing in THINGS:
        if thing.owned(job):
            job = thing.off(job)
    return job
