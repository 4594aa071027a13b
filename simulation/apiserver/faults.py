"""Faults that can be injected, for chaos tests and the demo.

A fault is a function of the call; it returns what happens, or None. Faults are evaluated in order
before a call is executed, and the first that returns something decides:

    server.faults.append(lambda call: Fail(503) if call.verb == "list" else None)
"""

from collections.abc import Callable
from dataclasses import dataclass

from simulation.apiserver.calls import Call


@dataclass(frozen=True, slots=True)
class Fail:
    """Respond with an error.

    retry_after: seconds, for the header Retry-After.
    """

    code: int
    reason: str = "InternalError"
    message: str = "a fault was injected"
    retry_after: int | None = None


@dataclass(frozen=True, slots=True)
class Delay:
    """Respond after a delay."""

    seconds: float


@dataclass(frozen=True, slots=True)
class Drop:
    """Cut the connection.

    done: execute the call first, so that only its response is lost.
    """

    done: bool = False


Fault = Callable[[Call], Fail | Delay | Drop | None]
