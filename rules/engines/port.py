"""Port of a rule engine: loads a program, and returns the outputs that fire for each question.

An engine does no I/O of its own and knows no time. A vector has the truth of each slot of the
program. An output is a name that CompiledRule.output returns: a root known true, or known false.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from rules.program import RuleProgram
from rules.truth import Truth

Vector = bytes
"""One byte for each slot: 0 known false, 1 unknown, 2 known true."""
Outputs = frozenset[str]
FALSE, UNKNOWN, TRUE = 0, 1, 2
TRUTHS = (Truth.FALSE, Truth.UNKNOWN, Truth.TRUE)
"""Truth by the byte of a vector."""


def byte_of(truth: Truth) -> int:
    return TRUE if truth is Truth.TRUE else FALSE if truth is Truth.FALSE else UNKNOWN


def vector_of(truths: Iterable[Truth]) -> Vector:
    return bytes(map(byte_of, truths))


class EngineQuestion(NamedTuple):
    """Asks which outputs of some rules of one stratum fire.

    vector: derived facts of lower strata are final in it; those of others may have any value
    rules: numbers of the rules in the program; None: all of the stratum
    """

    stratum: int
    vector: Vector
    rules: frozenset[int] | None = None


class EngineError(Exception):
    """An engine gave no answer. reason: one word for metrics."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RuleEngine(Protocol):
    def load(self, program: RuleProgram) -> None:
        """Replace the whole program. Raises EngineError: then the old one stays."""
        ...

    def matches(self, questions: Sequence[EngineQuestion]) -> list[Outputs]:
        """Return the outputs that fire for each question, of its rules only. Raises EngineError."""
        ...

    def close(self) -> None: ...
