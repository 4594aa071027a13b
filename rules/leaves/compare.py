"""Reads facts and probes, whose values are compared."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from kubenode.api.duration import format_duration as span
from kubenode.api.recurrence import inside
from kubenode.api.v1alpha1.leaves import FactLeaf, ProbeLeaf
from rules.builtin import BUILTIN, MAINTENANCE_UNTIL, Builtin
from rules.facts import FactSet, ProbeFact
from rules.leaves.describe import subject, windowed, written
from rules.leaves.result import LeafReading
from rules.truth import Truth

PROBE = "probe"
"""Source of a probe's answer."""
PROBE_PAUSE = timedelta(seconds=90)
"""Longest time between the end of `maxAge` and the next answer: a probe is sent once a minute and
is answered within 30 s.
"""
TICK = timedelta(microseconds=1)
FAR = timedelta(days=3650).total_seconds()
"""Seconds; a flip that is further ahead counts as never."""


def fact(leaf: FactLeaf, facts: FactSet, now: datetime) -> LeafReading:
    """Read a fact. A bare `<group>.sameFault` is unknown: `counted` reads it for each rule."""
    builtin = BUILTIN.get(leaf.name)
    if builtin is None:
        return _inferred(leaf, facts)
    if leaf.window is not None:
        is_in, flips_at = inside(leaf.window, now)
        says = f"is {'in' if is_in else 'outside'} {windowed(leaf.window)}"
        return LeafReading(compares(leaf, is_in), "now", says, is_in, "clock", flips_at=flips_at)
    about, value = subject(leaf), facts.values.get(leaf.name)
    if value is None:
        return LeafReading(Truth.UNKNOWN, about, "is not known")
    truth = compares(leaf, value)
    flips_at = _flips(leaf, builtin, value, facts, now)
    text = _describe_value(leaf, value, truth)
    return LeafReading(truth, about, text, value, "built-in fact", flips_at=flips_at)


def counted(leaf: FactLeaf, rule: str, facts: FactSet, now: datetime) -> LeafReading:
    """Read `<group>.sameFault` as it was counted for the rule with this id."""
    if leaf.within is not None:
        return _begun_within(leaf, rule, facts, now)
    count = facts.same_fault.get(rule, {}).get(leaf.name.partition(".")[0])
    if count is None:
        return LeafReading(Truth.UNKNOWN, subject(leaf), "is not counted yet")
    truth = compares(leaf, count)
    return LeafReading(
        truth, subject(leaf), _describe_value(leaf, count, truth), count, "count of nodes"
    )


def _begun_within(leaf: FactLeaf, rule: str, facts: FactSet, now: datetime) -> LeafReading:
    onsets = facts.onsets.get(rule, {}).get(leaf.name.partition(".")[0])
    if onsets is None or leaf.within is None:
        return LeafReading(Truth.UNKNOWN, subject(leaf), "is not counted yet")
    truth, count = within_truth(leaf, onsets, now), _count_within(leaf, onsets, now)
    ends = (at + leaf.within for at in onsets if at > now - leaf.within)
    flips_at = next((end for end in ends if within_truth(leaf, onsets, end) is not truth), None)
    says = _describe_value(leaf, count, truth)
    return LeafReading(truth, subject(leaf), says, count, "count of nodes", flips_at=flips_at)


def within_truth(leaf: FactLeaf, onsets: Sequence[datetime], now: datetime) -> Truth:
    """Compare the number of beginnings within `leaf.within` of `now`."""
    return compares(leaf, _count_within(leaf, onsets, now))


def _count_within(leaf: FactLeaf, onsets: Sequence[datetime], now: datetime) -> int:
    begin = now - (leaf.within or timedelta(0))
    return sum(begin < at for at in onsets)


def _inferred(leaf: FactLeaf, facts: FactSet) -> LeafReading:
    """Read a stored derived fact. The value False means that the fact is known not to hold."""
    about, value = f"derived {subject(leaf)}", facts.inferred.get(leaf.name)
    if value is None:
        return LeafReading(Truth.UNKNOWN, about, "is not known")
    if value is False:
        return LeafReading(Truth.FALSE, about, "does not hold", value, "derived fact")
    truth = compares(leaf, value)
    return LeafReading(truth, about, _describe_value(leaf, value, truth), value, "derived fact")


def probe(leaf: ProbeLeaf, facts: FactSet, now: datetime) -> LeafReading:
    about, answer = subject(leaf), facts.probes.get(leaf.name)
    if answer is None:
        return LeafReading(Truth.UNKNOWN, about, "was not answered")
    old_at, source = answer.answered_at + leaf.max_age, PROBE
    if now >= old_at:
        old = f"was answered longer than {span(leaf.max_age)} ago"
        return LeafReading(Truth.UNKNOWN, about, old, answer.value, source, answer.answered_at)
    if answer.value is None:
        failed = "failed, or its answer does not have it"
        return LeafReading(Truth.UNKNOWN, about, failed, None, source, answer.answered_at)
    truth = compares(leaf, answer.value)
    says = _describe_value(leaf, answer.value, truth)
    if truth is Truth.TRUE and leaf.for_ and not _lasts(leaf, answer):
        young = f"{says}, not yet for {span(leaf.for_)}"
        return LeafReading(Truth.UNKNOWN, about, young, answer.value, source, answer.answered_at)
    flips_at = None if truth is Truth.UNKNOWN else old_at
    return LeafReading(truth, about, says, answer.value, source, answer.answered_at, flips_at)


def _lasts(leaf: ProbeLeaf, answer: ProbeFact) -> bool:
    """Return whether all answers of the last `leaf.for_` fit, without a gap between them.

    Only an answer proves that the comparison still holds: time alone does not.
    """
    newer = answer.answered_at
    for at, value in reversed(answer.earlier):
        if answer.answered_at - newer >= leaf.for_:
            return True
        if value is None:
            continue
        if newer - at > leaf.max_age + PROBE_PAUSE or compares(leaf, value) is not Truth.TRUE:
            return False
        newer = at
    return answer.answered_at - newer >= leaf.for_


def compares(leaf: FactLeaf | ProbeLeaf, value: object) -> Truth:
    """Compare the value; UNKNOWN if its type does not fit the comparison."""
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


def _describe_value(leaf: FactLeaf | ProbeLeaf, value: object, truth: Truth) -> str:
    """Describe the value. A number, which may tick, is described by the comparison."""
    if isinstance(value, bool | str):
        shown = str(value).lower() if isinstance(value, bool) else repr(value)
        return f"is {shown}{'' if truth is not Truth.UNKNOWN else ', which cannot be compared so'}"
    if truth is Truth.UNKNOWN:
        return "is a number, which cannot be compared so"
    is_ = "is" if truth is Truth.TRUE else "is not"
    if leaf.below is not None:
        return f"{is_} below {written(leaf.below)}"
    if leaf.above is not None:
        return f"{is_} above {written(leaf.above)}"
    if leaf.in_ is not None:
        return f"{is_} one of {', '.join(map(str, leaf.in_))}"
    return f"{is_} {leaf.equals}"


# -- effects of time alone on a fact --------------------------------------------------------------


def _flips(
    leaf: FactLeaf, builtin: Builtin, value: object, facts: FactSet, now: datetime
) -> datetime | None:
    """Return when time alone changes the comparison; None: never, or unknown."""
    if builtin.time == "grows" and isinstance(value, int | float):
        return None if _stands(leaf.name, value, facts) else _grown(leaf, value, now)
    if leaf.name == "maintenance.active" and value is True:
        return _maintenance_ends(facts, now)
    return None


def _stands(name: str, value: float, facts: FactSet) -> bool:
    """Return whether the fact does not grow: node.notReadyFor of a node that is Ready."""
    return name == "node.notReadyFor" and value == 0 and facts.values.get("node.ready") is True


def _grown(leaf: FactLeaf, value: float, now: datetime) -> datetime | None:
    """Return when a number that grows by one each second passes the bound."""
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
