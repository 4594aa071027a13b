"""Finds the HostEvents that are a rule's evidence, and when they require an empty node. Pure."""

from collections.abc import Sequence
from datetime import datetime

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase
from kubenode.api.v1alpha1.leaves import HostEventLeaf
from remedy.plannedevents.observation import PLANNED, due_at
from rules.facts import HostEventFact
from rules.leaves.hostevent import CLOSED, counts_at, fits

MOST = 16
"""Most HostEvents of one job."""
CLASSES = frozenset(str(c) for c in HostEventClass)
PHASES = frozenset(str(p) for p in HostEventPhase)


def evidence_events(
    when: Expression, events: Sequence[HostEventFact], now: datetime
) -> list[HostEventFact]:
    """Return the events that a leaf `hostEvent` of `when` counts now, the most urgent first."""
    leaves = [leaf for leaf in when.leaves() if isinstance(leaf, HostEventLeaf)]
    counted = [e for e in events if any(_counts(leaf, e, now) for leaf in leaves)]
    return sorted(counted, key=lambda e: (_due(e) or e.last_observed_at, e.name))[:MOST]


def deadline(events: Sequence[HostEventFact]) -> datetime | None:
    """Return when the first planned event begins; None: none is planned, or none has a
    start time.
    """
    planned = [e for e in events if e.class_ in CLASSES and HostEventClass(e.class_) in PLANNED]
    return min((at for e in planned if (at := _due(e)) is not None), default=None)


def _counts(leaf: HostEventLeaf, event: HostEventFact, now: datetime) -> bool:
    at = counts_at(leaf, event)
    return event.phase not in CLOSED and fits(leaf, event) and (at is None or at <= now)


def _due(event: HostEventFact) -> datetime | None:
    phase = HostEventPhase(event.phase) if event.phase in PHASES else None
    return due_at(phase, event.not_before, event.first_observed_at)
