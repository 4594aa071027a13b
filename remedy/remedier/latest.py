"""Finds which Events the evidence of a rule consists of, by their reporter's timestamps. Pure.

An Event stays in its window for hours after the repair of what it reports. Its timestamp tells
whether evidence is new, and stays the same over our restarts.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.leaves import EventLeaf
from remedy.remedier.proof import fold
from rules.atoms import read
from rules.facts import EventFact, FactSet
from rules.leaves.event import fits
from rules.truth import Truth


def events_until(
    when: Expression | None, events: Sequence[EventFact], closed: datetime | None
) -> datetime | None:
    """Return the timestamp of the youngest Event that the expression names, up to the closing of a
    job, which may be evaluated long afterwards. If all are younger, the reporter's clock is ahead,
    and the youngest counts. None: the expression names no Event.
    """
    stamps = _stamps(when, events)
    before = [at for at in stamps if closed is None or at <= closed]
    return max(before or stamps, default=None)


def needed_since(when: Expression, facts: FactSet, now: datetime) -> datetime | None:
    """Return the timestamp of the oldest Event in the shortest series up to the youngest Event that
    makes the expression true. None: it is true without any Event, or not known true.
    """
    stamps = sorted(_stamps(when, facts.events), reverse=True)
    if not stamps or _holds(when, facts, (), now):
        return None
    for at in stamps:
        if _holds(when, facts, [e for e in facts.events if e.at >= at], now):
            return at
    return None


def _stamps(when: Expression | None, events: Sequence[EventFact]) -> set[datetime]:
    leaves = [leaf for leaf in when.leaves() if isinstance(leaf, EventLeaf)] if when else []
    return {event.at for event in events if any(fits(leaf, event) for leaf in leaves)}


def _holds(when: Expression, facts: FactSet, events: Sequence[EventFact], now: datetime) -> bool:
    among = replace(facts, events=events)
    return fold(when, lambda leaf: read(leaf, among, now).truth) is Truth.TRUE
