"""What is looked at after a batch, and what it says of the batch."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Protocol

from kubenode.api.v1alpha1.machinecomponentset import InspectionCheck


class InspectionResult(StrEnum):
    """PENDING       a Job runs: ask again
    PASSED        every check holds
    FAILED        one does not
    INCONCLUSIVE  none is known not to hold, and one says nothing
    """

    PENDING = "Pending"
    PASSED = "Passed"
    FAILED = "Failed"
    INCONCLUSIVE = "Inconclusive"


@dataclass(frozen=True, slots=True)
class InspectionAnswer:
    """`message` names the first check that decides, and why; "" when all hold."""

    judged: InspectionResult
    message: str = ""


PASSED = InspectionAnswer(InspectionResult.PASSED)


@dataclass(frozen=True, slots=True)
class Inspected:
    """What is inspected: a batch of a set, once.

    set, uid   name and uid of the MachineComponentSet
    run        what tells this inspection from every other of the set: revision, batch and number.
               Asked again with the same run, a Job that was started is looked at, not repeated.
    nodes      names of the batch's Nodes
    """

    set: str
    uid: str
    run: str
    nodes: Sequence[str]


class Inspector(Protocol):
    async def inspect(self, checks: Sequence[InspectionCheck], what: Inspected) -> InspectionAnswer:
        """Raises nothing: what cannot be looked at says nothing."""
        ...


def together(answers: Sequence[tuple[str, InspectionAnswer]]) -> InspectionAnswer:
    """Of checks by name: a failure counts most, then what is pending, then what says nothing."""
    for judged in (
        InspectionResult.FAILED,
        InspectionResult.PENDING,
        InspectionResult.INCONCLUSIVE,
    ):
        for name, answer in answers:
            if answer.judged is judged:
                return InspectionAnswer(judged, f"{name}: {answer.message}")
    return PASSED
