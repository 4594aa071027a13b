"""Snapshot of what is known of one node at one moment; rules.history builds its parts."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

Value = bool | int | float | str
Gap = tuple[datetime, datetime]
"""Begin and end of a time in which no report could arrive."""


@dataclass(frozen=True, slots=True)
class ConditionFact:
    """A Node condition.

    since: when it got its status, by the local clock (see ConditionClock); it did not have it
        before
    received_at: when its reporter last wrote, by the local clock
    settles: until this instant the status is only what a starting reporter sets, and no finding;
        None: it is a finding
    began: when it may already have got its status; None: at `since`. A decision after this instant
        may be based on this status
    doubted: the Node shows an older report than a known one, because etcd was restored or the
        host's clock was set back. The condition is unknown until the reporter writes again
    """

    type: str
    status: str
    reason: str
    message: str
    since: datetime
    received_at: datetime
    settles: datetime | None = None
    began: datetime | None = None
    doubted: bool = False


@dataclass(frozen=True, slots=True)
class EventFact:
    """`count` occurrences of an Event, the last of them at `at`.

    first: no occurrence was before it; None: all were at `at`
    forgotten: there was no room to store which Events these were, so that any leaf may match them
    uid: of the Event; "" for several Events
    reported_count: total number of occurrences of the Event by then
    about_pod: the kubelet reported it about a pod of the node. The pod's author may have chosen a
        part of its message, so only a leaf that names the reason reads it
    """

    reason: str
    message: str
    source: str
    severity: str
    count: int
    at: datetime
    first: datetime | None = None
    forgotten: bool = False
    uid: str = field(default="", compare=False)
    reported_count: int = field(default=0, compare=False)
    about_pod: bool = False


@dataclass(frozen=True, slots=True)
class HostEventFact:
    """A HostEvent of the node, open or recently closed.

    phase: as in the object's status; "" if not set
    not_before: scheduled start; None: it has started, or the start is unknown
    """

    name: str
    class_: str
    source: str
    phase: str
    severity: str
    message: str
    first_observed_at: datetime
    last_observed_at: datetime
    not_before: datetime | None = None


@dataclass(frozen=True, slots=True)
class AlertFact:
    """An alert that was matched to the node.

    since: when it began to fire, or stopped
    """

    name: str
    labels: Mapping[str, str]
    firing: bool
    since: datetime


@dataclass(frozen=True, slots=True)
class ProbeFact:
    """One field of a probe's answer. value: None: the answer lacks the field, or the probe
    failed. earlier: time and value of the answers before, oldest first
    """

    value: Value | None
    answered_at: datetime
    earlier: tuple[tuple[datetime, Value | None], ...] = ()


@dataclass(frozen=True, slots=True)
class FactSet:
    """Facts of one node.

    taints: key to value
    values: built-in facts by dotted name; a missing one and None are unknown
    alerts_alive_at: when the source of alerts was last known to be alive; None: never
    probes: by `probe.field`
    inferred: derived facts of a wider scope than the node; a missing one and None are unknown
    same_fault: rule id to group (`zone`, `kernel`, ...) to nodes with the same fault
    onsets: rule id to group to when the fault began on its nodes, in order, also if it has ended
    fresh: False: the node's cache is stale or unreadable, and all facts are unknown
    stale: other stale caches (rules.sources): leaves that read them are unknown
    unheard: gaps in which no report could arrive; the present one ends now

    Only absence reads the following facts. A missing one is unknown.

    watched: since when the node and its Events are observed without a gap
    changed: `label:KEY`, `annotation:KEY` or `taint:KEY` to the time of its last change
    unchanged_since: since when keys that are not in `changed` have not changed
    sources_alive_at: source of HostEvents to the time when it was last known to be alive
    """

    node: str
    uid: str = ""
    labels: Mapping[str, str] = field(default_factory=dict)
    annotations: Mapping[str, str] = field(default_factory=dict)
    taints: Mapping[str, str] = field(default_factory=dict)
    conditions: Mapping[str, ConditionFact] = field(default_factory=dict)
    events: Sequence[EventFact] = ()
    host_events: Sequence[HostEventFact] = ()
    alerts: Sequence[AlertFact] = ()
    alerts_alive_at: datetime | None = None
    probes: Mapping[str, ProbeFact] = field(default_factory=dict)
    values: Mapping[str, Value | None] = field(default_factory=dict)
    inferred: Mapping[str, Value | None] = field(default_factory=dict)
    same_fault: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    onsets: Mapping[str, Mapping[str, tuple[datetime, ...]]] = field(default_factory=dict)
    fresh: bool = True
    stale: frozenset[str] = frozenset()
    unheard: Sequence[Gap] = ()
    watched: datetime | None = None
    changed: Mapping[str, datetime] = field(default_factory=dict)
    unchanged_since: datetime | None = None
    sources_alive_at: Mapping[str, datetime] = field(default_factory=dict)
