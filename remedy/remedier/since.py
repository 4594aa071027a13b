"""Determines since when the evidence of a rule has been there. Pure, except for what Matched
remembers.

Conditions, HostEvents and alerts hold their own start times, over our restarts too. Other evidence
starts when we first saw the rule match, until the evidence is known false: unknown evidence ends
nothing.
"""

from collections.abc import Iterator
from datetime import datetime

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.hostevent import HostEventPhase
from kubenode.api.v1alpha1.leaves import AlertLeaf, ConditionLeaf, HostEventLeaf
from rules.diagnose import Match
from rules.facts import FactSet
from rules.truth import Truth


def began(rule: NodeRemedier, facts: FactSet) -> datetime | None:
    """Return when the youngest part of the rule's evidence began; None if no part has a
    start time.
    """
    return max(_beginnings(rule, facts), default=None)


def _beginnings(rule: NodeRemedier, facts: FactSet) -> Iterator[datetime]:
    for leaf in rule.spec.when.leaves():
        match leaf:
            case ConditionLeaf():
                condition = facts.conditions.get(leaf.type)
                if condition is not None and condition.status == leaf.status:
                    yield condition.began or condition.since
            case HostEventLeaf():
                fits = [
                    event.first_observed_at
                    for event in facts.host_events
                    if leaf.class_ in (None, event.class_) and event.phase in OPEN
                ]
                if fits:
                    yield min(fits)
            case AlertLeaf():
                fits = [a.since for a in facts.alerts if a.firing and a.name == leaf.name]
                if fits:
                    yield min(fits)
            case _:
                pass


OPEN = frozenset(str(phase) for phase in HostEventPhase if phase.open)
"""Phases of HostEvents that are not over."""


class Matched:
    """Since when each rule has matched one node, as far as we observed."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def see(self, matches: tuple[Match, ...], now: datetime) -> None:
        """Take in the current matches."""
        true = [match.rule_id for match in matches if match.evidence is Truth.TRUE]
        if self._since:
            open_ = {m.rule_id for m in matches if m.evidence is not Truth.FALSE}
            self._since = {r: at for r, at in self._since.items() if r in open_}
        for rule_id in true:
            self._since.setdefault(rule_id, now)

    def since(self, rule_id: str, rule: NodeRemedier, facts: FactSet, now: datetime) -> datetime:
        """Return since when the rule's evidence has been there, `now` if unknown."""
        return min(began(rule, facts) or self._since.get(rule_id, now), now)
