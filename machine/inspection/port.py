"""Interface of the inspections of a batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kubenode.api.v1alpha1.machinecomponentset import InspectionCheck


class InspectionResult(StrEnum):
    """Result of an inspection.

    PENDING: a Job runs; ask again.
    PASSED: all checks hold.
    FAILED: at least one check does not hold.
    INCONCLUSIVE: no check is known to fail, and at least one has no answer.
    """

    PENDING = "Pending"
    PASSED = "Passed"
    FAILED = "Failed"
    INCONCLUSIVE = "Inconclusive"


@dataclass(frozen=True, slots=True)
class InspectionAnswer:
    """Result and message. `message` names the deciding check and the reason; "" if all checks
    hold.
    """

    judged: InspectionResult
    message: str = ""


PASSED = InspectionAnswer(InspectionResult.PASSED)


@dataclass(frozen=True, slots=True)
class Inspected:
    """The subject of an inspection: a batch of a set, once.

    set, uid: name and uid of the MachineComponentSet.
    run: identifies the inspection within the set by revision, batch and number. A repeated request
        with the same run reuses a Job that was started.
    nodes: names of the batch's Nodes.
    unjoined: names of the batch's Machines that expect a Node and have none yet.
    """

    set: str
    uid: str
    run: str
    nodes: Sequence[str]
    unjoined: Sequence[str] = ()


class Inspector(Protocol):
    """Service that inspects batches."""

    async def inspect(self, checks: Sequence[InspectionCheck], what: Inspected) -> InspectionAnswer:
        """Return the combined answer. Errors are inconclusive and not raised."""
        ...


def together(answers: Sequence[tuple[str, InspectionAnswer]]) -> InspectionAnswer:
    """Return the combined answer: a failure takes precedence, then pending, then inconclusive."""
    for judged in (
        InspectionResult.FAILED,
        InspectionResult.PENDING,
        InspectionResult.INCONCLUSIVE,
    ):
        for name, answer in answers:
            if answer.judged is judged:
                return InspectionAnswer(judged, f"{name}: {answer.message}")
    return PASSED
