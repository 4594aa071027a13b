"""Reads Node conditions."""

from datetime import datetime

from kubenode.api.duration import format_duration as span
from kubenode.api.v1alpha1.leaves import ConditionLeaf
from rules.facts import ConditionFact, FactSet
from rules.leaves.describe import subject
from rules.leaves.pattern import finds_pattern
from rules.leaves.result import LeafReading
from rules.truth import Truth
from rules.unheard import unobserved_time

SOURCE = "Node condition"


def condition(leaf: ConditionLeaf, facts: FactSet, now: datetime) -> LeafReading:
    """Read a condition.

    A status that its reporter set at its start is unknown until it settles. It is also unknown
    whether a status lasted through a time in which no report could arrive.
    """
    about, fact = subject(leaf), facts.conditions.get(leaf.type)
    if fact is None:
        return LeafReading(Truth.UNKNOWN, about, "is not reported")
    silent_at = fact.received_at + leaf.max_age
    says = f"is {fact.status} ({fact.reason or 'no reason'})"
    if now >= silent_at:
        silent = f"{says}, not heard from for longer than {span(leaf.max_age)}"
        return LeafReading(Truth.UNKNOWN, about, silent, fact.status, SOURCE, fact.received_at)
    if fact.doubted:
        old = (
            f"was {fact.status}, and the Node shows an older report; its reporter has to repeat it"
        )
        return LeafReading(Truth.UNKNOWN, about, old, fact.status, SOURCE, fact.received_at)
    if fact.settles is not None and now < fact.settles:
        reset = f"{says}, but only since its reporter started anew"
        settles_at = fact.settles if fact.settles < silent_at else None
        return LeafReading(
            Truth.UNKNOWN, about, reset, fact.status, SOURCE, fact.received_at, settles_at
        )
    truth, holds_at = Truth.TRUE, fact.since + leaf.for_
    if fact.status != leaf.status and fact.status not in ("True", "False"):
        return LeafReading(Truth.UNKNOWN, about, says, fact.status, SOURCE, fact.received_at)
    if fact.status != leaf.status:
        truth = Truth.FALSE
    elif not says_so(leaf, fact):
        truth, says = Truth.FALSE, f"{says}: another reason or message"
    elif now < holds_at:
        young = f"{says}, not yet for {span(leaf.for_)}"
        flips_at = min(holds_at, silent_at)
        return LeafReading(
            Truth.FALSE, about, young, fact.status, SOURCE, fact.received_at, flips_at, holds_at
        )
    elif (known_at := holds_at + unobserved_time(fact, facts, now)) > now:
        deaf = f"{says}, not for {span(leaf.for_)} in which its reporter could be heard"
        flips_at = min(known_at, silent_at)
        return LeafReading(
            Truth.UNKNOWN, about, deaf, fact.status, SOURCE, fact.received_at, flips_at, known_at
        )
    return LeafReading(truth, about, says, fact.status, SOURCE, fact.received_at, silent_at)


def says_so(leaf: ConditionLeaf, fact: ConditionFact) -> bool:
    """Return whether reason and message match the leaf's patterns."""
    return finds_pattern(leaf.reason, fact.reason) and finds_pattern(leaf.message, fact.message)
