"""How far it is that a component of a node's machine is taken back. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Back(StrEnum):
    """UNKNOWN  it could not be read: `why` says so
    READY    it can be taken back, and nobody was asked yet
    GOING    asked for by this job, and not done
    DONE     the machine has the revision before, and is well with it
    FAILED   there is nothing to go back to, or the host did not take it: `why` says so
    """

    UNKNOWN = "Unknown"
    READY = "Ready"
    GOING = "Going"
    DONE = "Done"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class RollbackSeen:
    """machine  name of the Machine, "" where it is not known
    from_    the revision that it has, or had when it was asked for
    to       the one before
    """

    state: Back
    machine: str = ""
    from_: str = ""
    to: str = ""
    why: str = ""
