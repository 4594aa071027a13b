"""The cordon of a node and the holders that asked for it. Pure.

The annotation `kubenode.io/cordoned-by` lists holders as `Kind/name/uid`, separated by commas. A
job of the Remedy operator writes its bare name there, without a slash; that cordon is not ours, nor
is one without the annotation. A node that was cordoned before gets no mark and stays cordoned.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from kubenode.api.cordon import keeps_cordon
from kubenode.api.v1alpha1.permit import Holder

CORDONED_BY = "kubenode.io/cordoned-by"


@dataclass(frozen=True, slots=True)
class CordonChange:
    """A change of a Node.

    mark: the value of the annotation, None to remove it.
    unschedulable: whether the node is cordoned.
    """

    mark: str | None
    unschedulable: bool


@dataclass(frozen=True, slots=True)
class Cordoned:
    """The cordon state of a Node."""

    unschedulable: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def marks(self) -> tuple[str, ...]:
        """The marks of holders; empty if the annotation is a job's."""
        entries = self.annotations.get(CORDONED_BY, "").split(",")
        return tuple(mark for mark in entries if "/" in mark)

    def has(self, holder: Holder) -> bool:
        """Return whether the holder has a mark."""
        return mark_of(holder) in self.marks


def mark_of(holder: Holder) -> str:
    """Return the mark of the holder: `Kind/name/uid`."""
    return f"{holder.kind}/{holder.name}/{holder.uid}"


def holder_in(mark: str) -> Holder | None:
    """Return the holder that the mark names, None if it does not have this form."""
    parts = mark.split("/")
    return Holder(kind=parts[0], name=parts[1], uid=parts[2]) if _is_mark(parts) else None


def _is_mark(parts: list[str]) -> bool:
    return len(parts) == 3 and all(parts)


def joined(state: Cordoned, holder: Holder) -> CordonChange | None:
    """Return the change that cordons the node for this holder, None if nothing is to be written.

    Marks on a node that a person uncordoned are obsolete and are replaced.
    """
    if not state.unschedulable:
        return CordonChange(mark_of(holder), True)
    if not state.marks or state.has(holder):
        return None
    return CordonChange(",".join([*state.marks, mark_of(holder)]), True)


def remove_mark(state: Cordoned, holder: Holder) -> CordonChange | None:
    """Return the change that removes the holder's mark, None if it has none.

    Removing the last mark uncordons the node, unless a person has set the annotation
    `kubenode.io/keep-cordoned`.
    """
    if not state.has(holder):
        return None
    rest = [mark for mark in state.marks if mark != mark_of(holder)]
    if rest:
        return CordonChange(",".join(rest), state.unschedulable)
    return CordonChange(None, state.unschedulable and keeps_cordon(state.annotations))


def uncordoned(state: Cordoned, holder: Holder) -> bool:
    """Return whether a person uncordoned the node while this holder needed the cordon."""
    return state.has(holder) and not state.unschedulable
