"""An object that another remediator works on, as it is seen. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Handed(StrEnum):
    """How the object stands.

    UNKNOWN  it could not be read, or nobody knows what it should be: `why` says so
    ABSENT   there is none
    FOREIGN  there is one of that name that we did not make: never touched
    GOING    ours, and nothing is said yet
    DONE     ours, and it says that the work is done
    FAILED   ours, and it says that the work failed
    """

    UNKNOWN = "Unknown"
    ABSENT = "Absent"
    FOREIGN = "Foreign"
    GOING = "Going"
    DONE = "Done"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class HandedSeen:
    """path   of the object at the API server, "" when it cannot be known
    keep   it stays when the job ends: whoever works on it deletes it
    final  looking again does not help
    """

    state: Handed
    path: str = ""
    why: str = ""
    keep: bool = False
    final: bool = False
