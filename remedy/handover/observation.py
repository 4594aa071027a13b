"""Observation of an object that another system works on. Pure."""

from dataclasses import dataclass
from enum import StrEnum


class Handed(StrEnum):
    """State of the object.

    UNKNOWN: it could not be read or rendered: `why` has the reason
    ABSENT: it does not exist
    FOREIGN: an object of that name exists that we did not create: it is never touched
    GOING: ours, without a result yet
    DONE: ours, and it says that the work is done
    FAILED: ours, and it says that the work failed
    """

    UNKNOWN = "Unknown"
    ABSENT = "Absent"
    FOREIGN = "Foreign"
    GOING = "Going"
    DONE = "Done"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class HandoverObservation:
    """Observation of the object.

    path: of the object at the API server, "" if unknown
    keep: it stays when the job ends: the other system deletes it
    final: reading it again does not help
    """

    state: Handed
    path: str = ""
    why: str = ""
    keep: bool = False
    final: bool = False
