"""Facts and probes: values that are compared."""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1.leaves import FactLeaf, ProbeLeaf
from rules.builtin import BUILTIN, MAINTENANCE_UNTIL, Builtin
from rules.facts import FactSet
from rules.leaves.describe import describe
from rules.leaves.reading import Reading, span
from rules.leaves.window import inside
from rules.truth import Truth

TICK = timedelta(microseconds=1)
FAR = timedelta(days=3650).total_seconds()
"""Seconds; what lies further ahead never comes."""


def fact(leaf: FactLeaf, facts: FactSet, now: datetime) -> Reading:
    """A bare `<group>.sameFault` is unknown: it is counted for each rule, see `counted`."""
    builtin = BUILTIN.get(leaf.name)
    if builtin is None:
        return _inferred(leaf, facts)
    if leaf.window is not None:
        is_in, flips_at = inside(leaf.window, now)
        says = f"now is {'in' if is_in else 'outside'} the window of {describe(leaf)}"
        return Reading(compares(leaf, is_in), says, is_in, "clock", flips_at=flips_at)
    value = facts.values.get(leaf.name)
    if value is None:
        return Reading(Truth.UNKNOWN, f"fact {leaf.name} is not known")
    truth = compares(leaf, value)
    known = "" if truth is not Truth.UNKNOWN else f": {value!r} cannot be compared so"
    flips_at = _flips(leaf, builtin, value, facts, now)
    return Reading(truth, f"{describe(leaf)}{known}", value, "built-in fact", flips_at=flips_at)


def counted(leaf: FactLeaf, rule: str, facts: FactSet) -> Reading:
    """`<group>.sameFault`, as it was counted for the rule with this id."""
    count = facts.same_fault.get(rule, {}).get(leaf.name.partition(".")[0])
    if count is None:
        return Reading(Truth.UNKNOWN, f"{describe(leaf)}: not counted yet")
    return Reading(compares(leaf, count), describe(leaf), count, "count of nodes")


def _inferred(leaf: FactLeaf, facts: FactSet) -> Reading:
    """False stands for a fact that is known not to hold, whatever its value would be."""
    value = facts.inferred.get(leaf.name)
    if value is None:
        return Reading(Truth.UNKNOWN, f"derived fact {leaf.name} is not known")
    if value is False:
        gone = f"derived fact {leaf.name} does not hold"
        return Reading(Truth.FALSE, gone, value, "derived fact")
    return Reading(compares(leaf, value), describe(leaf), value, "derived fact")


def probe(leaf: ProbeLeaf, facts: FactSet, now: datetime) -> Reading:
    answer = facts.probes.get(leaf.name)
    if answer is None:
        return Reading(Truth.UNKNOWN, f"probe {leaf.name} was not answered")
    old_at, source = answer.answered_at + leaf.max_age, "probe"
    if now >= old_at:
        old = f"probe {leaf.name} was answered longer than {span(leaf.max_age)} ago"
        return Reading(Truth.UNKNOWN, old, answer.value, source, answer.answered_at)
    if answer.value is None:
        failed = f"probe {leaf.name} failed, or its answer does not have it"
        return Reading(Truth.UNKNOWN, failed, None, source, answer.answered_at)
    truth, says = compares(leaf, answer.value), describe(leaf)
    if truth is Truth.UNKNOWN:
        says = f"{says}: {answer.value!r} cannot be compared so"
        return Reading(truth, says, answer.value, source, answer.answered_at)
    return Reading(truth, says, answer.value, source, answer.answered_at, old_at)


def compares(leaf: FactLeaf | ProbeLeaf, value: object) -> Truth:
    """UNKNOWN when `value` is of a type that the comparison does not fit."""
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if leaf.below is not None or leaf.above is not None:
        if not number or not isinstance(value, int | float):
            return Truth.UNKNOWN
        if leaf.below is not None:
            return Truth.of(value < leaf.below)
        assert leaf.above is not None
        return Truth.of(value > leaf.above)
    if leaf.equals is not None:
        return Truth.of(value == leaf.equals and type(value) is not bool)
    if leaf.in_ is not None:
        return Truth.of(value in leaf.in_ and type(value) is not bool)
    if not isinstance(value, bool):
        return Truth.UNKNOWN
    return Truth.of(value is (leaf.is_ is not False))


# -- what time alone does to a fact ---------------------------------------------------------------


def _flips(
    leaf: FactLeaf, builtin: Builtin, value: object, facts: FactSet, now: datetime
) -> datetime | None:
    """When the comparison changes if nothing but time goes on; None: never, or nobody can tell."""
    if builtin.time == "grows" and isinstance(value, int | float):
        return None if _stands(leaf.name, value, facts) else _grown(leaf, value, now)
    if leaf.name == "maintenance.active" and value is True:
        return _maintenance_ends(facts, now)
    return None


def _stands(name: str, value: float, facts: FactSet) -> bool:
    """Only a node that is not ready is not ready for longer and longer."""
    return name == "node.notReadyFor" and value == 0 and facts.values.get("node.ready") is True


def _grown(leaf: FactLeaf, value: float, now: datetime) -> datetime | None:
    """When a number that grows by one each second passes the bound."""
    if leaf.above is not None and value <= leaf.above < value + FAR:
        return now + timedelta(seconds=leaf.above - value) + TICK
    if leaf.below is not None and value < leaf.below < value + FAR:
        return max(now + timedelta(seconds=leaf.below - value), now + TICK)
    return None


def _maintenance_ends(facts: FactSet, now: datetime) -> datetime | None:
    try:
        until = datetime.fromisoformat(facts.annotations.get(MAINTENANCE_UNTIL, ""))
    except ValueError:
        return None
    return until if until.tzinfo is not None and until > now else None
