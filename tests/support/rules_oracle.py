"""What a program should say of a node, by looking at one rule at a time from the top.

No rounds, no slots, no disjuncts, nothing remembered: a derived fact is asked for by evaluating the
rules that infer it, and a leaf is read in the plainest way. It shares nothing with the engines.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta

from support.clock import T0

from kubenode.api.v1alpha1 import Expression
from kubenode.api.v1alpha1.hostevent import HostEventClass
from kubenode.api.v1alpha1.leaves import (
    AlertLeaf,
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
    LabelLeaf,
    ProbeLeaf,
    TaintLeaf,
)
from rules.facts import FactSet
from rules.program import RuleVersion

Three = bool | None


class Oracle:
    def __init__(self, rules: Sequence[RuleVersion], facts: FactSet, now: datetime = T0) -> None:
        self._rules, self._facts, self._now = rules, facts, now

    def evidence(self, rule: RuleVersion) -> Three:
        return self._value(rule.remedier.spec.when)

    def guards(self, rule: RuleVersion) -> Three:
        unless = rule.remedier.spec.unless
        return False if unless is None else self._value(unless)

    def _value(self, expression: Expression) -> Three:
        if (leaf := expression.leaf) is not None:
            return self._leaf(leaf) if self._facts.fresh or self._derived(leaf) else None
        members = [self._value(member) for member in expression.members]
        if expression.not_ is not None:
            return _not(members[0])
        if expression.any is not None:
            return _or(members)
        return _not(_or([_not(member) for member in members]))

    def _derived(self, leaf: object) -> list[RuleVersion]:
        """The rules that infer what the leaf asks."""
        name = leaf.name if isinstance(leaf, FactLeaf) else None
        inferring = [(r, r.remedier.spec.infer) for r in self._rules]
        return [rule for rule, infer in inferring if infer is not None and infer.fact == name]

    def _leaf(self, leaf: object) -> Three:
        facts, now = self._facts, self._now
        if inferring := self._derived(leaf):
            return _or([self.evidence(rule) for rule in inferring])
        if self._is_stale(leaf):
            return None
        match leaf:
            case ConditionLeaf():
                return self._condition(leaf)
            case EventLeaf():
                return self._event(leaf)
            case HostEventLeaf():
                open_ = [e for e in facts.host_events if e.phase in ("Active", "Scheduled")]
                starts = [now if e.phase == "Active" else e.not_before or now for e in open_]
                return any(at - now <= leaf.starts_within for at in starts)
            case AlertLeaf():
                heard = facts.alerts_alive_at
                if heard is None or now - heard >= timedelta(minutes=10):
                    return None
                return any(a.firing and now - a.since >= leaf.for_ for a in facts.alerts)
            case LabelLeaf():
                return facts.labels.get(leaf.key) == leaf.value
            case AnnotationLeaf():
                return leaf.key in facts.annotations
            case TaintLeaf():
                return (leaf.key in facts.taints) == (leaf.exists is not False)
            case FactLeaf():
                return _above(leaf.above, facts.values.get(leaf.name))
            case ProbeLeaf():
                answer = facts.probes.get(leaf.name)
                if answer is None or now - answer.answered_at >= leaf.max_age:
                    return None
                return _above(leaf.above, answer.value)
            case _:
                raise AssertionError(f"the oracle cannot read {leaf!r}")

    def _is_stale(self, leaf: object) -> bool:
        """Whether a cache that the leaf reads is stale. HostEvents are read as Events, too."""
        stale = self._facts.stale
        match leaf:
            case EventLeaf():
                both = leaf.reason is None or leaf.reason in list(HostEventClass)
                return "Events" in stale or ("HostEvents" in stale and both)
            case HostEventLeaf() | AlertLeaf():
                return "HostEvents" in stale
            case _:
                return False

    def _condition(self, leaf: ConditionLeaf) -> Three:
        fact = self._facts.conditions.get(leaf.type)
        if fact is None or self._now - fact.received_at >= leaf.max_age:
            return None
        if fact.settles is not None and self._now < fact.settles:
            return None
        if fact.status != leaf.status:
            return None if fact.status == "Unknown" else False
        lasted = self._now - fact.since
        if lasted >= leaf.for_ > lasted - self._outages(max(fact.since, fact.received_at)):
            return None
        return lasted >= leaf.for_

    def _outages(self, since: datetime) -> timedelta:
        """Return the time since `since` in which the API server could not be reached."""
        gaps = ((max(start, since), min(end, self._now)) for start, end in self._facts.unheard)
        return sum((end - start for start, end in gaps if end > start), timedelta(0))

    def _event(self, leaf: EventLeaf) -> Three:
        """Of an aggregated Event that began before the window one occurrence is certain."""
        near = [e for e in self._facts.events if timedelta(0) <= self._now - e.at < leaf.within]
        of_it = [e for e in near if e.reason == leaf.reason and not e.forgotten]
        whole = [e for e in of_it if e.first is None or self._now - e.first < leaf.within]
        sure = sum(e.count for e in whole) + len(of_it) - len(whole)
        perhaps = sum(e.count for e in near if e in of_it or e.forgotten)
        return True if sure >= leaf.count else None if perhaps >= leaf.count else False


def _above(bound: float | None, value: object) -> Three:
    if not isinstance(value, int | float) or bound is None:
        return None
    return value > bound


def _not(value: Three) -> Three:
    return None if value is None else not value


def _or(values: list[Three]) -> Three:
    if True in values:
        return True
    return None if None in values else False
