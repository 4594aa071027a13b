"""The result of a reconcile: done, or a time to reconcile again. A failure is an exception."""

from dataclasses import dataclass
from datetime import timedelta


@dataclass(frozen=True, slots=True)
class Result:
    """A result. `requeue_after` None means that there is nothing to do until something changes."""

    requeue_after: timedelta | None = None

    def __bool__(self) -> bool:
        raise TypeError("compare with DONE or read .requeue_after")


DONE = Result()


class TerminalError(Exception):
    """An error that a retry cannot fix. The key waits for a change of its object."""


def soonest(*results: Result) -> Result:
    """Combine the results of several steps: the earliest requeue counts."""
    waits = [r.requeue_after for r in results if r.requeue_after is not None]
    return Result(min(waits)) if waits else DONE
