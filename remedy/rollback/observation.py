"""Observation of the rollback of a component of a node's machine. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Back(StrEnum):
    """State of the rollback.

    UNKNOWN: it could not be read: `why` has the reason
    READY: a rollback is possible, and not requested yet
    GOING: requested by this job, and not done
    DONE: the machine has the previous revision, and is healthy with it
    FAILED: there is no previous revision, or the host did not accept it: `why` has the reason
    """

    UNKNOWN = "Unknown"
    READY = "Ready"
    GOING = "Going"
    DONE = "Done"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class RollbackObservation:
    """Observation of the rollback.

    machine: name of the Machine, "" if unknown
    from_: the revision that it has, or had at the request
    to: the previous revision
    """

    state: Back
    machine: str = ""
    from_: str = ""
    to: str = ""
    why: str = ""
