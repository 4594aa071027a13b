"""What is known of one node at one moment: a snapshot, whose parts rules.history makes."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

Value = bool | int | float | str
Gap = tuple[datetime, datetime]
"""From when until when nobody was heard."""


@dataclass(frozen=True, slots=True)
class ConditionFact:
    """A Node condition.

    since        when it got its status, by our own clock (see ConditionClock): not before that
    received_at  when its reporter was last heard from, by our own clock
    settles      the status is what its reporter sets when it starts, and no finding before this
                 instant; None: it is a finding
    began        when it may have got its status already; None: at `since`. What was decided after
                 this instant may have been decided on this status
    doubted      the Node shows an older report than one that we have seen, so etcd was restored or
                 the host's clock was set back: nothing is known until the reporter writes again
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

    first      none of them was before it; None: all were at `at`
    forgotten  there was no room to remember which Events these were: any leaf may mean them
    uid        of the Event, which had occurred `reported_count` times in all by then; "" of several
               Events
    about_pod  the kubelet reported it about a pod of the node, whose author may have chosen a part
               of its message: only a leaf that names the reason reads it
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
    """A HostEvent of the node, open or closed a short time ago.

    phase       as in the object's status; "" while nobody has set it
    not_before  its scheduled start; None: already running, or unknown
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
    """An alert that was resolved to the node.

    since  when it began to fire, or when it was resolved
    """

    name: str
    labels: Mapping[str, str]
    firing: bool
    since: datetime


@dataclass(frozen=True, slots=True)
class ProbeFact:
    """One field of an answer; `value` None: the field was not in it, or the probe failed."""

    value: Value | None
    answered_at: datetime


@dataclass(frozen=True, slots=True)
class FactSet:
    """One node.

    taints           key to value
    values           built-in facts by dotted name; a missing one and None are unknown
    alerts_alive_at  when the source of alerts was last known to be alive; None: never
    probes           by `probe.field`
    inferred         derived facts of a scope wider than the node; a missing one and None are
                     unknown
    same_fault       rule id to group (`zone`, `kernel`, ...) to nodes with the same fault
    fresh            False: the cache behind it is stale or unreadable, and all of it is unknown
    stale            further caches that are stale (rules.sources): what reads them is unknown
    unheard          gaps in which no reporter could be heard, the present one until now

    What only absence reads; what is missing is unknown:

    watched           since when we hear of the node and its Events without a gap
    changed           `label:KEY`, `annotation:KEY` or `taint:KEY` to when it became what it is
    unchanged_since   since when keys that are not in `changed` are what they are
    sources_alive_at  source of HostEvents to when it was last known to be alive
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
    fresh: bool = True
    stale: frozenset[str] = frozenset()
    unheard: Sequence[Gap] = ()
    watched: datetime | None = None
    changed: Mapping[str, datetime] = field(default_factory=dict)
    unchanged_since: datetime | None = None
    sources_alive_at: Mapping[str, datetime] = field(default_factory=dict)
