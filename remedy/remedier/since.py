"""Since when the evidence of a rule has been there. Pure, but for what its keeper remembers.

Conditions, HostEvents and alerts tell themselves when they began, over our restarts too. For all
other evidence it is the moment at which we first saw the rule match, forgotten once the evidence is
known false: unknown evidence ends nothing.
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
    """When the youngest of what the rule names began; None if nothing of it has a beginning."""
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
                    event.first_seen
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


class Matched:
    """Of one node: since when each rule has matched, as far as we were there to see."""

    __slots__ = ("_since",)

    def __init__(self) -> None:
        self._since: dict[str, datetime] = {}

    def see(self, matches: tuple[Match, ...], now: datetime) -> None:
        true = [match.rule_id for match in matches if match.evidence is Truth.TRUE]
        if self._since:
            open_ = {m.rule_id for m in matches if m.evidence is not Truth.FALSE}
            self._since = {r: at for r, at in self._since.items() if r in open_}
        for rule_id in true:
            self._since.setdefault(rule_id, now)

    def since(self, rule_id: str, rule: NodeRemedier, facts: FactSet, now: datetime) -> datetime:
        return min(began(rule, facts) or self._since.get(rule_id, now), now)
