"""One waiting request, and what determines its place in the queue:

- deadline: requests with a planned event come before all others, by its time.
- severity: then by severity.
- turn: then in rounds over the zones (defender.decision.queue.lane), so that no zone starves.
- age: then the older fault. Each earlier permit of the node makes it PENALTY younger.

A request that has waited for PATIENCE joins those with a deadline, as if that were its deadline. So
none starves behind a stream of more severe ones.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Ask, Reason, Verdict
from kubenode.api.v1alpha1.noderemedier import Severity
from kubenode.api.v1alpha1.permit import Holder

PATIENCE = {
    Severity.CRITICAL: timedelta(minutes=30),
    Severity.WARNING: timedelta(hours=1),
    Severity.INFO: timedelta(hours=2),
}
"""Time after which a waiting request is treated like one with a deadline."""
LONGEST_DEADLINE = timedelta(days=1)
"""Greatest effective distance of a deadline. Else a holder with a distant one would wait for weeks.
"""
PENALTY = timedelta(minutes=10)
"""Time by which each earlier permit of the node makes a fault younger."""
MOST_PENALTIES = 6
"""Greatest number of earlier permits that count."""
DUE = 0
"""The first band: requests with a deadline, or that have waited for PATIENCE."""
BANDS = {Severity.CRITICAL: 1, Severity.WARNING: 2, Severity.INFO: 3}
"""Band of the others, by severity."""

Key = tuple[str, str, str]
"""Kind and UID of the holder, and the node."""
LaneKey = tuple[str, str, str, str, bool]
"""Reason and scope of the refusal; operation, class and inevitability of the request."""


def key_of(ask: Ask) -> Key:
    return ask.holder.kind, ask.holder.uid, ask.node


@dataclass(slots=True)
class QueueEntry:
    """One waiting request.

    since: time of the first refusal.
    fault_since: start of the fault, if known; else the first refusal.
    requested_at: time of the last ask.
    requeue_at: the time to ask again that was returned.
    failures: earlier permits of the node within a day.
    missed: it was called and did not ask. When it asks again, it can be called again.
    """

    ask: Ask
    since: datetime
    fault_since: datetime
    requested_at: datetime
    requeue_at: datetime
    reason: Reason
    scope: str = ""
    message: str = ""
    zone: str = ""
    failures: int = 0
    missed: bool = False

    @property
    def key(self) -> Key:
        return key_of(self.ask)

    @property
    def lane(self) -> LaneKey:
        ask = self.ask
        return self.reason, self.scope, ask.operation, ask.class_, ask.inevitable

    @property
    def due(self) -> datetime:
        """When it enters the first band, if it has no deadline; also its place there."""
        if self.ask.deadline is not None:
            return min(self.ask.deadline, self.since + LONGEST_DEADLINE)
        return self.since + PENALTY * self.failures + PATIENCE[self.ask.severity]

    def band(self, now: datetime) -> int:
        return DUE if self.ask.deadline or self.due <= now else BANDS[self.ask.severity]

    def sort_key(self, now: datetime) -> "SortKey":
        band = self.band(now)
        due = self.due.timestamp() if band == DUE else 0.0
        age = (self.fault_since + PENALTY * self.failures).timestamp()
        return band, due, age, self.since.timestamp(), self.key

    def refused(self, ask: Ask, verdict: Verdict, now: datetime) -> None:
        """Record that the request was refused, for the first time or again."""
        self.ask, self.requested_at, self.missed = ask, now, False
        self.reason, self.scope, self.message = verdict.reason, verdict.scope, verdict.message


SortKey = tuple[int, float, float, float, Key]
"""Band, time in the first band, age of the fault, first refusal, key."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """Place of a request in the queue, for people. It is never written to a job.

    place: 1 for the next in line among requests for the same.
    ahead: number of requests before it.
    called: a slot is kept for it at the moment.
    """

    holder: Holder
    node: str
    operation: str
    class_: str
    severity: str
    fault_class: str
    place: int
    ahead: int
    reason: Reason
    scope: str
    message: str
    since: datetime
    fault_since: datetime
    deadline: datetime | None
    requeue_at: datetime
    called: bool

    @classmethod
    def of(cls, entry: QueueEntry, ahead: int, *, called: bool) -> "QueuePlace":
        ask = entry.ask
        return cls(
            holder=ask.holder,
            node=ask.node,
            operation=ask.operation,
            class_=ask.class_,
            severity=ask.severity,
            fault_class=ask.fault_class,
            place=ahead + 1,
            ahead=ahead,
            reason=entry.reason,
            scope=entry.scope,
            message=entry.message,
            since=entry.since,
            fault_since=entry.fault_since,
            deadline=ask.deadline,
            requeue_at=entry.requeue_at,
            called=called,
        )

    def to_dict(self) -> dict[str, Any]:
        return {
            "holder": self.holder.to_dict(),
            "node": self.node,
            "operation": self.operation,
            "class": self.class_,
            "severity": self.severity,
            "faultClass": self.fault_class,
            "place": self.place,
            "ahead": self.ahead,
            "reason": str(self.reason),
            "scope": self.scope,
            "message": self.message,
            "since": format_time(self.since),
            "faultSince": format_time(self.fault_since),
            "deadline": format_time(self.deadline) if self.deadline else None,
            "lookAgainAt": format_time(self.requeue_at),
            "called": self.called,
        }
