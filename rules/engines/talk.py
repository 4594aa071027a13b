"""Parent's side of the protocol: length-prefixed JSON, with a deadline for each request.

Many queries are sent in several frames. So the timeout of a frame does not depend on the number of
nodes, and a slow machine is not mistaken for a hung child.
"""

import json
import struct
import time
from collections.abc import Iterator, Sequence
from typing import Any, Protocol, TypeVar

from rules.engines.port import EngineError

MOST_FRAME_QUERIES = 1_000
"""Facts in one frame; measured: some 10 ms of the child's processor, at most 20 ms."""
T = TypeVar("T")
EngineQuery = tuple[int, str]
"""Number of a ruleset, and one of t, f, u for each of its slots."""
HEAD = struct.Struct("!I")
_NOTHING: frozenset[str] = frozenset()


class Child(Protocol):
    """A running `rules.engines.child`. Its calls raise OSError (TimeoutError) if it does not
    answer.
    """

    def send(self, data: bytes, seconds: float) -> None: ...
    def receive(self, length: int, seconds: float) -> bytes: ...
    def kill(self) -> None: ...


def frames(queries: Sequence[T]) -> Iterator[Sequence[T]]:
    for begin in range(0, len(queries), MOST_FRAME_QUERIES):
        yield queries[begin : begin + MOST_FRAME_QUERIES]


def evaluate(
    child: Child, queries: Sequence[EngineQuery], seconds: float
) -> tuple[list[frozenset[str]], int]:
    """Send one frame; return what fired for each query, and the child's memory in bytes.

    Raises EngineError.
    """
    answer = ask(child, {"op": "eval", "asked": queries}, seconds)
    fired, memory_bytes = answer.get("fired"), answer.get("rss")
    if (
        not isinstance(fired, list)
        or len(fired) != len(queries)
        or not isinstance(memory_bytes, int)
    ):
        raise EngineError("protocol", "the engine's child gave no answer to the question")
    return [frozenset(names) if names else _NOTHING for names in fired], memory_bytes


def ask(child: Child, request: dict[str, Any], seconds: float) -> dict[str, Any]:
    """Send a request and return its answer, within `seconds` together. Raises EngineError."""
    deadline = time.monotonic() + seconds
    data = json.dumps(request, separators=(",", ":")).encode()
    try:
        child.send(HEAD.pack(len(data)) + data, _remaining_seconds(deadline))
    except OSError as error:
        raise _unanswered(error) from error
    return hear(child, deadline)


def hear(child: Child, deadline: float) -> dict[str, Any]:
    """Receive one answer. deadline: an instant of time.monotonic. Raises EngineError."""
    try:
        (length,) = HEAD.unpack(child.receive(HEAD.size, _remaining_seconds(deadline)))
        answer = json.loads(child.receive(length, _remaining_seconds(deadline)))
    except OSError as error:
        raise _unanswered(error) from error
    except ValueError as error:
        raise EngineError("protocol", f"the engine's child does not speak: {error}") from error
    if not isinstance(answer, dict):
        raise EngineError("protocol", "the engine's child does not speak")
    return answer


def _remaining_seconds(deadline: float) -> float:
    """Return the seconds until `deadline`. Raises TimeoutError if it has passed."""
    remaining = deadline - time.monotonic()
    if remaining <= 0:
        raise TimeoutError
    return remaining


def _unanswered(error: OSError) -> EngineError:
    if isinstance(error, TimeoutError):
        return EngineError("timeout", "the engine's child did not answer in time")
    return EngineError("died", f"the engine's child ended: {error}")
