"""Detectors of this host: log lines, checks, counters. They report, and one publisher publishes.

A detector knows nothing of Kubernetes. It reports a condition or an Event and its time. The
publisher decides what the API server gets, how often, and what is stored while it is unreachable.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Protocol


class ReportedStatus(StrEnum):
    """Status of a Node condition. UNKNOWN is neither healthy nor faulty, and starts no repair
    alone.
    """

    TRUE = "True"
    FALSE = "False"
    UNKNOWN = "Unknown"


NOT_LOOKED_AT = "NotLookedAtYet"
"""Reason of UNKNOWN at a detector's start.

A restart is no observation, so the publisher keeps the last condition of the same boot. UNKNOWN
with another reason is a finding.
"""


CONFIG_INVALID = "DetectorConfigInvalid"
"""Reason of the Event for a detector's configuration file that cannot be used."""


class EventSeverity(StrEnum):
    """Values of an Event's `type`."""

    INFO = "Normal"
    WARNING = "Warning"


@dataclass(frozen=True, slots=True)
class ConditionReport:
    """State of a condition of the node, as one detector observes it now.

    type: as in `status.conditions`, such as `KernelDeadlock`
    reason: one word, such as `DockerHung`
    message: for people; the publisher shortens it
    at: when the host had this state; a log line's own time if it has one
    detector: owner of the condition; each condition has one
    """

    type: str
    status: ReportedStatus
    reason: str
    message: str
    at: datetime
    detector: str


@dataclass(frozen=True, slots=True)
class EventReport:
    """A single occurrence, published as an Event of the node."""

    reason: str
    message: str
    severity: EventSeverity
    at: datetime
    detector: str


Report = ConditionReport | EventReport


class Sink(Protocol):
    """Receives reports."""

    def report(self, report: Report) -> None:
        """Take a report. Never blocks and never raises; excess reports are counted and dropped."""
        ...


class Detector(Protocol):
    """Part: reports conditions and Events.

    conditions: types that it owns. At its start it reports each of them first, either as observed
        or as UNKNOWN with NOT_LOOKED_AT
    """

    @property
    def name(self) -> str: ...

    @property
    def conditions(self) -> tuple[str, ...]: ...

    async def run(self, sink: Sink) -> None: ...
