"""The port of a rule engine: a program in, the outputs that fire for each vector out.

An engine performs nothing and knows no time. A vector has a Truth for each slot of the program; an
output is the name that CompiledRule.output gives: a root known true, or known false.
"""

from collections.abc import Sequence
from typing import Protocol

from rules.program import Program
from rules.truth import Truth

Vector = tuple[Truth, ...]
Outputs = frozenset[str]


class EngineError(Exception):
    """An engine gave no answer; `reason` is one word for metrics."""

    def __init__(self, reason: str, message: str) -> None:
        super().__init__(message)
        self.reason = reason


class Engine(Protocol):
    def load(self, program: Program) -> None:
        """Replace the program, all or nothing. Raises EngineError; the old one then stays."""
        ...

    def matches(self, stratum: int, vectors: Sequence[Vector]) -> list[Outputs]:
        """What fires in one stratum, for each vector. Raises EngineError."""
        ...

    def close(self) -> None: ...
