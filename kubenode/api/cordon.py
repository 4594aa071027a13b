"""Cordon of a Node and its owners. Pure.

The annotation `kubenode.io/cordoned-by` lists the marks of the owners that need the cordon,
separated by commas. The mark of a job of the Remedy operator is its name. The mark of any other
holder is `Kind/name/uid`. Earlier versions wrote the same marks, but either one job or a list of
holders.

Each owner adds and removes only its own mark, and the last one uncordons the node. A cordon without
marks is manual: it gets no mark and stays.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from pydantic import ValidationError

from kubenode.api.v1alpha1.permit import Holder

CORDONED_BY = "kubenode.io/cordoned-by"
"""Annotation on a Node: marks of the owners of its cordon."""
KEEP_CORDONED = "kubenode.io/keep-cordoned"
"""Annotation on a Node that keeps the cordon when the last owner removes its mark.

Any value except "false" applies; use a reason as the value. `kubectl cordon` cannot express this,
because it changes nothing on a cordoned node.
"""


def keeps_cordon(annotations: Mapping[str, str]) -> bool:
    value = annotations.get(KEEP_CORDONED)
    return value is not None and value.strip().lower() != "false"


@dataclass(frozen=True, slots=True)
class CordonChange:
    """Change of a Node.

    mark: value of the annotation, None to remove it.
    unschedulable: whether the node is cordoned.
    """

    mark: str | None
    unschedulable: bool


@dataclass(frozen=True, slots=True)
class CordonState:
    """Cordon of a Node."""

    unschedulable: bool = False
    annotations: Mapping[str, str] = field(default_factory=dict)

    @property
    def marks(self) -> tuple[str, ...]:
        """Return the marks of all owners, including jobs."""
        return marks_in(self.annotations.get(CORDONED_BY, ""))

    @property
    def jobs(self) -> tuple[str, ...]:
        """Return the names of the jobs among the owners."""
        return tuple(mark for mark in self.marks if "/" not in mark)

    @property
    def holders(self) -> tuple[Holder, ...]:
        """Return the owners other than jobs."""
        return holders_in(self.annotations.get(CORDONED_BY, ""))


def owners_in(value: str) -> tuple[str, ...]:
    """Return the owners in a value of the annotation as text, such as `our job n1-4ad5`."""
    return tuple(
        f"{holder.kind} {holder.name}" if (holder := holder_in(mark)) else f"our job {mark}"
        for mark in marks_in(value)
    )


def marks_in(value: str) -> tuple[str, ...]:
    """Return the marks in a value of the annotation, each once."""
    return tuple(dict.fromkeys(mark for entry in value.split(",") if (mark := entry.strip())))


def holders_in(value: str) -> tuple[Holder, ...]:
    """Return the holders in a value of the annotation, without jobs and malformed marks."""
    holders = map(holder_in, marks_in(value))
    return tuple(holder for holder in holders if holder is not None)


def mark_of(holder: Holder) -> str:
    """Return the mark of a holder other than a job: `Kind/name/uid`."""
    return f"{holder.kind}/{holder.name}/{holder.uid}"


def holder_in(mark: str) -> Holder | None:
    """Return the holder that the mark names, None if it does not have this form."""
    parts = mark.split("/")
    if len(parts) != 3:
        return None
    try:
        return Holder(kind=parts[0], name=parts[1], uid=parts[2])
    except ValidationError:
        return None  # an empty or oversized part


def add_mark(state: CordonState, mark: str) -> CordonChange | None:
    """Return the change that cordons the node for this owner, None if no write is needed.

    Marks on a node that a person uncordoned are obsolete and are replaced. A manual cordon gets no
    mark.
    """
    if not state.unschedulable:
        return CordonChange(mark, True)
    if not state.marks or mark in state.marks:
        return None
    return CordonChange(",".join([*state.marks, mark]), True)


def remove_mark(state: CordonState, mark: str) -> CordonChange | None:
    """Return the change that removes the owner's mark, None if it has none.

    Removing the last mark uncordons the node, unless a person has set the annotation
    `kubenode.io/keep-cordoned`.
    """
    if mark not in state.marks:
        return None
    if rest := [each for each in state.marks if each != mark]:
        return CordonChange(",".join(rest), state.unschedulable)
    return CordonChange(None, state.unschedulable and keeps_cordon(state.annotations))


def replace_mark(state: CordonState, old: str, new: str) -> CordonChange | None:
    """Return the change that replaces the old owner by the new one, None if the old one has no
    mark."""
    if not state.unschedulable or old not in state.marks:
        return None
    marks = dict.fromkeys(new if mark == old else mark for mark in state.marks)
    return CordonChange(",".join(marks), True)


def was_uncordoned(state: CordonState, mark: str) -> bool:
    """Return whether a person uncordoned the node while this owner needed the cordon."""
    return mark in state.marks and not state.unschedulable
