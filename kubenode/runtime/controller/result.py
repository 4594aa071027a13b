"""What one reconcile answers: done, or look again later. Failure is an exception."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Result:
    """`requeue_after` None: nothing to do until something changes."""

    requeue_after: timedelta | None = None

    def __bool__(self) -> bool:
        raise TypeError("compare with DONE or read .requeue_after")


DONE = Result()


class TerminalError(Exception):
    """Retrying cannot help; wait for the object to change."""


def soonest(*results: Result) -> Result:
    """Several steps, one answer: the earliest wake-up wins."""
    waits = [r.requeue_after for r in results if r.requeue_after is not None]
    return Result(min(waits)) if waits else DONE
