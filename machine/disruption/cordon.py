"""The cordon under our mark: who of us wants it, and what was there before. Pure.

The annotation `kubenode.io/cordoned-by` names our holders as `Kind/name/uid`, commas between. A job
of the Remedy operator writes its bare name there, which holds no slash: that is not ours, nor is a
cordon without the annotation. What was cordoned when we came gets no mark, and stays so after us.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubenode.api.cordon import keeps_cordon
from kubenode.api.v1alpha1.permit import Holder

CORDONED_BY = "kubenode.io/cordoned-by"


@dataclass(frozen=True, slots=True)
class CordonChange:
    """Of a Node: its annotation, None to take it off, and whether pods may be scheduled there."""

    mark: str | None
    unschedulable: bool


@dataclass(frozen=True, slots=True)
class Cordoned:
    """What a Node says of it."""

    unschedulable: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def marks(self) -> tuple[str, ...]:
        """Of ours; none where the annotation is a job's."""
        found = self.annotations.get(CORDONED_BY, "").split(",")
        return tuple(mark for mark in found if "/" in mark)

    def has(self, holder: Holder) -> bool:
        return mark_of(holder) in self.marks


def mark_of(holder: Holder) -> str:
    return f"{holder.kind}/{holder.name}/{holder.uid}"


def holder_in(mark: str) -> Holder | None:
    """None: it is not of our form."""
    parts = mark.split("/")
    return Holder(kind=parts[0], name=parts[1], uid=parts[2]) if _is_mark(parts) else None


def _is_mark(parts: list[str]) -> bool:
    return len(parts) == 3 and all(parts)


def joined(seen: Cordoned, holder: Holder) -> CordonChange | None:
    """What makes the node cordoned with this holder; None: nothing is to be written.

    Marks on a node that somebody made schedulable are of plans that ended with it.
    """
    if not seen.unschedulable:
        return CordonChange(mark_of(holder), True)
    if not seen.marks or seen.has(holder):
        return None
    return CordonChange(",".join([*seen.marks, mark_of(holder)]), True)


def left(seen: Cordoned, holder: Holder) -> CordonChange | None:
    """What takes this holder off, with the last one the cordon; None: nothing is ours.

    The cordon stays where a person annotated the node with `kubenode.io/keep-cordoned`.
    """
    if not seen.has(holder):
        return None
    rest = [mark for mark in seen.marks if mark != mark_of(holder)]
    if rest:
        return CordonChange(",".join(rest), seen.unschedulable)
    return CordonChange(None, seen.unschedulable and keeps_cordon(seen.annotations))


def uncordoned(seen: Cordoned, holder: Holder) -> bool:
    """Whether somebody made schedulable what this holder had cordoned."""
    return seen.has(holder) and not seen.unschedulable
