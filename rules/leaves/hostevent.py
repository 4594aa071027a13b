"""Reads open HostEvents of the node."""

from datetime import datetime

from kubenode.api.v1alpha1.leaves import HostEventLeaf
from rules.facts import FactSet, HostEventFact
from rules.leaves.describe import subject
from rules.leaves.result import LeafReading, earliest
from rules.truth import Truth

CLOSED = frozenset({"Completed", "Cancelled", "Expired"})
ACTIVE = "Active"


def host_event(leaf: HostEventLeaf, facts: FactSet, now: datetime) -> LeafReading:
    """Read a HostEvent leaf. One that has not started counts from `startsWithin` before its
    start.
    """
    open_ = [e for e in facts.host_events if e.phase not in CLOSED and fits(leaf, e)]
    waiting = [at for e in open_ if (at := counts_at(leaf, e)) is not None and now < at]
    counted = [e for e in open_ if (at := counts_at(leaf, e)) is None or at <= now]
    if not counted:
        none = "is announced, but does not start so soon" if waiting else "is not open"
        return LeafReading(Truth.FALSE, subject(leaf), none, flips_at=earliest(*waiting))
    event = max(counted, key=lambda e: e.last_observed_at)
    about = f"hostEvent {event.class_} of {event.source}"
    says = f"is {event.phase or 'open'} ({event.name})"
    return LeafReading(Truth.TRUE, about, says, event.class_, "HostEvent", event.last_observed_at)


def counts_at(leaf: HostEventLeaf, event: HostEventFact) -> datetime | None:
    """Return from when an open HostEvent counts; None: it counts already."""
    if event.phase == ACTIVE or event.not_before is None:
        return None
    return event.not_before - leaf.starts_within


def fits(leaf: HostEventLeaf, event: HostEventFact) -> bool:
    return (
        (leaf.class_ is None or event.class_ == leaf.class_)
        and (leaf.source is None or event.source == leaf.source)
        and (leaf.phase is None or event.phase == leaf.phase)
        and (leaf.severity is None or event.severity == leaf.severity)
    )
