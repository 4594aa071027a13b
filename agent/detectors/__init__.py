"""What watches this host: log lines, checks, counters. Detectors report, one publisher tells.

A detector knows nothing of Kubernetes: it says what it saw, of which condition, and when. What is
told to the API server, how often, and what is kept while it is away is the publisher's.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class ReportedStatus(StrEnum):
    """Of a Node condition. UNKNOWN is neither well nor faulty, and starts no repair alone."""

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


NOT_LOOKED_AT = "NotLookedAtYet"
"""Reason of UNKNOWN at a detector's start. The publisher then keeps what an earlier process found
on the same boot, as a restart finds out nothing; UNKNOWN with any other reason is a finding.
"""


CONFIG_INVALID = "DetectorConfigInvalid"
"""Reason of the Event for a detector's file that cannot be used."""


class EventSeverity(StrEnum):
    """`type` of an Event, as its readers know it."""

    INFO = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """How a condition of the node is, as one detector sees it now.

    type      as in `status.conditions`: `KernelDeadlock`
    reason    one word, such as `DockerHung`
    message   for people, bounded by the publisher
    at        when the host had it so; a line's own time where it has one
    detector  who says so: one detector owns a condition
    """

    type: str
    status: ReportedStatus
    reason: str
    message: str
    at: datetime
    detector: str


@dataclass(frozen=True, slots=True)
class EventReport:
    """Something that happened and is over: told as an Event of the node."""

    reason: str
    message: str
    severity: EventSeverity
    at: datetime
    detector: str


Report = ConditionReport | EventReport


class Sink(Protocol):
    """Where reports go."""

    def report(self, report: Report) -> None:
        """Never blocks and never raises; what is too much is counted and left out."""
        ...


class Detector(Protocol):
    """A Part: runs until cancelled.

    conditions  the types that it owns; at its start each is reported before anything else, as it
                was found to be, or as UNKNOWN with NOT_LOOKED_AT until it has been looked at
    """

    @property
    def name(self) -> str: ...

    @property
    def conditions(self) -> tuple[str, ...]: ...

    async def run(self, sink: Sink) -> None: ...
