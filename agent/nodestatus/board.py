"""Newest state of every condition that the agent owns, and which of them are unpublished. Pure.

A condition belongs to one detector. While the detector does not run, its conditions are not
renewed: readers see them become stale (failure mode F03) instead of trusting an old report.
"""

from collections.abc import Iterable, Mapping
from datetime import datetime
from enum import Enum, auto

import msgspec

from agent.detectors import NOT_LOOKED_AT, ConditionReport, ReportedStatus

FOREIGN = frozenset(
    {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable"}
)
"""Conditions of the kubelet and the node controller; the API server refuses the agent's."""
MOST = 90
MESSAGE_BYTES = 1024
REASON_BYTES = 128
"""The agents' admission policies accept as many characters of a message and of a reason."""
MESSAGES_BYTES = 32 * 1024
"""All messages together: half of what the policy accepts; the rest is for other writers."""
NOBODY = "NotWatched"


class KnownCondition(msgspec.Struct, frozen=True, kw_only=True):
    """State of one condition.

    since: when its status changed, by the host's clock
    """

    type: str
    status: ReportedStatus
    reason: str
    message: str
    since: datetime
    detector: str


class ReportNews(Enum):
    """What a report changes for the API server."""

    NONE = auto()
    MESSAGE = auto()
    """The message changed: published with the next patch."""
    UNSEEN = auto()
    """Not checked yet: a detector that starts checks soon."""
    STATE = auto()


class ConditionBoard:
    """Holds the conditions.

    owners: condition type to detector
    known: conditions that an earlier process stored on this boot
    """

    def __init__(self, owners: Mapping[str, str], known: Iterable[KnownCondition] = ()) -> None:
        self._owners = dict(owners)
        self._message_bytes = min(MESSAGE_BYTES, MESSAGES_BYTES // max(1, len(self._owners)))
        self._known: dict[str, KnownCondition] = {}
        self._untold: set[str] = set()
        self._running: set[str] = set()
        for condition in known:
            if condition.type not in FOREIGN and len(self._known) < MOST:
                self._known[condition.type] = condition

    def begin(self, now: datetime) -> None:
        """Set conditions to UNKNOWN that were not checked on this boot or that no detector
        watches.
        """
        for type_, detector in self._owners.items():
            known = self._known.get(type_)
            if known is None or known.detector != detector:
                self._put(_unseen(type_, detector, now))
        for type_ in self._known.keys() - self._owners.keys():
            self._put(_unseen(type_, "", now, NOBODY, "no detector watches this any more"))

    def started(self, detector: str) -> None:
        self._running.add(detector)

    def failed(self, detector: str) -> None:
        self._running.discard(detector)

    def put(self, detector: str, report: ConditionReport, now: datetime) -> ReportNews:
        """Take a report; return what it changes. Raises ValueError if the detector does not own
        it.
        """
        if self._owners.get(report.type) != detector:
            raise ValueError(f"{detector} does not own condition {report.type}")
        known = self._known.get(report.type)
        if known is not None and report.reason == NOT_LOOKED_AT:
            return ReportNews.NONE  # a detector's start is no observation
        since = report.at
        if known is not None:  # reports are in order, whatever the clock did
            same = known.status == report.status
            since = known.since if same else max(report.at, known.since)
        new = KnownCondition(
            type=report.type,
            status=ReportedStatus(report.status),
            reason=cut(report.reason, REASON_BYTES) or "Unknown",
            message=cut(report.message, self._message_bytes),
            since=min(since, now),
            detector=detector,
        )
        if known is not None and _same(known, new):
            self._known[report.type] = new
            return ReportNews.NONE if known.message == new.message else ReportNews.MESSAGE
        self._put(new)
        return ReportNews.UNSEEN if new.reason == NOT_LOOKED_AT else ReportNews.STATE

    def _put(self, new: KnownCondition) -> None:
        self._known[new.type] = new
        self._untold.add(new.type)

    def status(self, type_: str) -> ReportedStatus | None:
        known = self._known.get(type_)
        return known.status if known is not None else None

    def all(self) -> list[KnownCondition]:
        return list(self._known.values())

    def untold(self) -> list[KnownCondition]:
        return [self._known[type_] for type_ in sorted(self._untold)]

    def renewable(self) -> list[KnownCondition]:
        """Return what may be renewed: unpublished conditions, and those of running detectors."""
        return [
            known
            for type_, known in sorted(self._known.items())
            if type_ in self._untold or known.detector in self._running
        ]

    def mark_published(self, conditions: Iterable[KnownCondition]) -> None:
        """Mark conditions as published; those that changed meanwhile stay unpublished."""
        for condition in conditions:
            known = self._known.get(condition.type)
            if known is not None and _same(known, condition) and known.since == condition.since:
                self._untold.discard(condition.type)
                if not known.detector:
                    del self._known[condition.type]

    def forget_published(self) -> None:
        """Mark all conditions as unpublished, because the Node is a new object."""
        self._untold = set(self._known)


def _same(a: KnownCondition, b: KnownCondition) -> bool:
    return (a.status, a.reason) == (b.status, b.reason)


def _unseen(
    type_: str,
    detector: str,
    now: datetime,
    reason: str = NOT_LOOKED_AT,
    message: str = "nobody has looked at this since the host booted",
) -> KnownCondition:
    return KnownCondition(
        type=type_,
        status=ReportedStatus.UNKNOWN,
        reason=reason,
        message=message,
        since=now,
        detector=detector,
    )


def cut(text: str, limit: int) -> str:
    """Shorten to `limit` bytes of UTF-8 without NUL characters, as the API server requires."""
    raw = text.encode(errors="replace").replace(b"\0", b" ")
    if len(raw) <= limit:
        return raw.decode()
    return raw[: limit - 3].decode(errors="ignore") + "…"
