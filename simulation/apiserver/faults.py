"""What can be made to go wrong, for chaos tests and the demo.

A fault is a function of the call: it returns what happens to it, or None for nothing. Faults are
asked in order before a call is answered; the first that returns something wins.

    server.faults.append(lambda call: Fail(503) if call.verb == "list" else None)
"""

from collections.abc import Callable
from dataclasses import dataclass

from simulation.apiserver.calls import Call


@dataclass(frozen=True, slots=True)
class Fail:
    """Answer with an error; `retry_after` in seconds goes into the Retry-After header."""

    code: int
    reason: str = "InternalError"
    message: str = "a fault was injected"
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """Answer later."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Cut the connection: before the call is done, or after, so that only its answer is lost."""

    done: bool = False


Fault = Callable[[Call], Fail | Delay | Drop | None]
