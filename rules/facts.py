"""What is known of one node at one moment: a snapshot, whose parts rules.history makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

Value = bool | int | float | str


@dataclass(frozen=True, slots=True)
class ConditionFact:
    """A Node condition.

    since  when it got its status, by our own clock (see ConditionClock)
    heard  when its reporter was last heard from
    """

    type: str
    status: str
    reason: str
    message: str
    since: datetime
    heard: datetime


@dataclass(frozen=True, slots=True)
class EventFact:
    """`count` occurrences of an Event, the last of them at `at`.

    first      none of them was before it; None: all were at `at`
    forgotten  there was no room to remember which Events these were: any leaf may mean them
    """

    reason: str
    message: str
    source: str
    severity: str
    count: int
    at: datetime
    first: datetime | None = None
    forgotten: bool = False


@dataclass(frozen=True, slots=True)
class FactSet:
    """One node.

    taints  key to value
    values  built-in facts by dotted name; a missing one and None are unknown
    fresh   False: the cache behind it is stale or unreadable, and all of it is unknown
    """

    node: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, ConditionFact] = field(default_factory=dict)
    events: Sequence[EventFact] = ()
    values: Mapping[str, Value | None] = field(default_factory=dict)
    fresh: bool = True
