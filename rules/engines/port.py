"""The port of a rule engine: a program in, the outputs that fire for each question out.

An engine performs nothing and knows no time. A vector says of each slot of the program what is
known; an output is the name that CompiledRule.output gives: a root known true, or known false.
"""

from collections.abc import Iterable, Sequence
from typing import NamedTuple, Protocol

from rules.program import RuleProgram
from rules.truth import Truth

Vector = bytes
"""One byte per slot: 0 known false, 1 unknown, 2 known true."""
Outputs = frozenset[str]
FALSE, UNKNOWN, TRUE = 0, 1, 2
TRUTHS = (Truth.FALSE, Truth.UNKNOWN, Truth.TRUE)
"""By the byte of a vector."""


def byte_of(truth: Truth) -> int:
    return TRUE if truth is Truth.TRUE else FALSE if truth is Truth.FALSE else UNKNOWN


def vector_of(truths: Iterable[Truth]) -> Vector:
    return bytes(map(byte_of, truths))


class EngineQuestion(NamedTuple):
    """What fires of some rules of one stratum.

    vector  the derived facts of lower strata are finished in it; of others any value will do
    rules   their numbers within the program; None: all of the stratum
    """

    stratum: int
    vector: Vector
    rules: frozenset[int] | None = None


class EngineError(Exception):
    """An engine gave no answer; `reason` is one word for metrics."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class RuleEngine(Protocol):
    def load(self, program: RuleProgram) -> None:
        """Replace the program, all or nothing. Raises EngineError; the old one then stays."""
        ...

    def matches(self, questions: Sequence[EngineQuestion]) -> list[Outputs]:
        """What fires for each question, of the rules asked about only. Raises EngineError."""
        ...

    def close(self) -> None: ...
