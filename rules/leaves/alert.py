"""Reads alerts that were matched to the node."""

from datetime import datetime, timedelta

from kubenode.api.duration import format_duration as span
from kubenode.api.v1alpha1.leaves import AlertLeaf
from rules.facts import AlertFact, FactSet
from rules.leaves.describe import subject
from rules.leaves.pattern import whole
from rules.leaves.result import LeafReading
from rules.truth import Truth

SILENCE = timedelta(minutes=10)
"""A source of alerts that was silent this long may be dead.

With the setup in its docs, Alertmanager repeats its Watchdog more often. A source that has silently
stopped would otherwise read as "no alert".
"""


def alert(leaf: AlertLeaf, facts: FactSet, now: datetime) -> LeafReading:
    about, alive_at = subject(leaf), facts.alerts_alive_at
    if alive_at is None:
        never = "is not known: no source of alerts was ever heard from"
        return LeafReading(Truth.UNKNOWN, about, never)
    silent_at = alive_at + SILENCE
    if now >= silent_at:
        silent = f"is not known: alerts were not heard from for {span(SILENCE)}"
        return LeafReading(Truth.UNKNOWN, about, silent, observed_at=alive_at)
    firing = [a for a in facts.alerts if a.firing and fits(leaf, a)]
    if not firing:
        return LeafReading(
            Truth.FALSE, about, "does not fire", False, "Alertmanager", alive_at, silent_at
        )
    oldest = min(firing, key=lambda a: a.since)
    holds_at = oldest.since + leaf.for_
    says = "fires" if oldest.name == leaf.name else f"fires as {oldest.name}"
    if now < holds_at:
        young = f"{says}, not yet for {span(leaf.for_)}"
        flips_at = min(holds_at, silent_at)
        return LeafReading(
            Truth.FALSE, about, young, True, "Alertmanager", alive_at, flips_at, holds_at
        )
    return LeafReading(Truth.TRUE, about, says, True, "Alertmanager", alive_at, silent_at)


def fits(leaf: AlertLeaf, fact: AlertFact) -> bool:
    """Return whether the whole name and every label that the leaf names match."""
    return whole(leaf.name, fact.name) and all(
        fact.labels.get(key) == value for key, value in leaf.labels.items()
    )
