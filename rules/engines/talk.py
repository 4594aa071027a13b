"""How the parent asks the child: length-prefixed JSON, each question within one deadline.

Many vectors are asked in several frames, so that the time that a frame may take does not depend on
how many nodes somebody asks about at once: a slow machine is not taken for a hung child.
"""

import json
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from rules.engines.port import EngineError, Outputs, Vector
from rules.truth import Truth

MOST_VECTORS = 32
"""Vectors in one frame."""
MOST_WORK = 20_000
"""Vectors times terms in one frame; measured: some 50 ms of the child's processor."""
T = TypeVar("T")
HEAD = struct.Struct("!I")
_LETTER = {Truth.TRUE: "t", Truth.FALSE: "f", Truth.UNKNOWN: "u"}


class Child(Protocol):
    """A running `rules.engines.child`. Its calls raise OSError (TimeoutError) for no answer."""

    def send(self, data: bytes, seconds: float) -> None: ...
    def receive(self, length: int, seconds: float) -> bytes: ...
    def kill(self) -> None: ...


def frames(asked: Sequence[T], terms: int) -> Iterator[Sequence[T]]:
    """`asked` in pieces, smaller ones for a stratum of many `terms`."""
    size = max(1, min(MOST_VECTORS, MOST_WORK // max(terms, 1)))
    for begin in range(0, len(asked), size):
        yield asked[begin : begin + size]


def evaluate(
    child: Child, stratum: int, vectors: Sequence[Vector], seconds: float
) -> list[Outputs]:
    """One frame. Raises EngineError."""
    texts = ["".join([_LETTER[truth] for truth in vector]) for vector in vectors]
    answer = ask(child, {"op": "eval", "stratum": stratum, "vectors": texts}, seconds)
    fired = answer.get("fired")
    if not isinstance(fired, list) or len(fired) != len(vectors):
        raise EngineError("protocol", "the engine's child gave no answer to the question")
    return [frozenset(names) for names in fired]


def ask(child: Child, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """`seconds` are for question and answer together."""
    deadline = time.monotonic() + seconds
    data = json.dumps(request, separators=(",", ":")).encode()
    try:
        child.send(HEAD.pack(len(data)) + data, _left(deadline))
    except OSError as error:
        raise _unanswered(error) from error
    return hear(child, deadline)


def hear(child: Child, deadline: float) -> dict[str, Any]:
    """deadline  an instant of time.monotonic"""
    try:
        (length,) = HEAD.unpack(child.receive(HEAD.size, _left(deadline)))
        answer = json.loads(child.receive(length, _left(deadline)))
    except OSError as error:
        raise _unanswered(error) from error
    except ValueError as error:
        raise EngineError("protocol", f"the engine's child does not speak: {error}") from error
    if not isinstance(answer, dict):
        raise EngineError("protocol", "the engine's child does not speak")
    return answer


def _left(deadline: float) -> float:
    """Seconds until `deadline`. Raises TimeoutError when there are none."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _unanswered(error: OSError) -> EngineError:
    if isinstance(error, TimeoutError):
        return EngineError("timeout", "the engine's child did not answer in time")
    return EngineError("died", f"the engine's child ended: {error}")
