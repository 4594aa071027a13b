"""Holds back new versions of rules that would match too much of the fleet, when they are loaded.

The webhook checks the same at admission, but may have been unavailable or not installed. A version
that was loaded before is not checked again: a good rule may match many nodes in an incident, which
Kube Defender's limits hold.
"""

import logging
from collections.abc import Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass, field
from typing import Protocol

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.runtime.clock import Clock
from remedy.registry.radius import (
    ACCEPT,
    MOST_MATCHING,
    acceptance,
    acts,
    limit_for,
    limit_of,
    most_at_once,
)
from remedy.registry.select import id_of
from remedy.webhook.estimate import FleetReader, RuleEstimate, estimate
from remedy.webhook.neighbours import readers
from rules.program import RuleVersion

log = logging.getLogger(__name__)
Rules = Mapping[str, NodeRemedier]
"""Rules by name."""
NOT_KNOWN = "spec.when: how many nodes it would match is not known yet; it is counted again"


@dataclass(frozen=True, slots=True)
class SizeVerdicts:
    """Results of the check.

    refused: by name, why a new version may not be loaded now
    accepted: by name, who accepts that a new version matches more nodes than the limit
    """

    refused: Mapping[str, str] = field(default_factory=dict)
    accepted: Mapping[str, str] = field(default_factory=dict)


class SizeLimit(Protocol):
    async def judge(self, new: Rules, loaded: Rules) -> SizeVerdicts:
        """Check the rules in `new`; `loaded` are all others."""
        ...

    def most_at_once(self, rule: NodeRemedier, fleet: int) -> int | None:
        """Return how many nodes of `fleet` a rule without a permit may mark at once; None: any
        number.
        """
        ...


class NoSizeLimit:
    """Accepts every rule: for programs and tests without their own fleet."""

    async def judge(self, new: Rules, loaded: Rules) -> SizeVerdicts:
        return SizeVerdicts()

    def most_at_once(self, rule: NodeRemedier, fleet: int) -> int | None:
        return None


class FleetSizeLimit:
    """Checks rules against the facts of all nodes.

    threads: executor for the engine
    most: nodes that a new rule in Enforce may match: a count or a percentage
    """

    def __init__(
        self, fleet: FleetReader, clock: Clock, threads: Executor, most: int | str = MOST_MATCHING
    ) -> None:
        self._fleet, self._clock, self._threads, self._most = fleet, clock, threads, most

    async def judge(self, new: Rules, loaded: Rules) -> SizeVerdicts:
        there = {**loaded, **new}
        acting = {name: _acting(rule, there) for name, rule in new.items()}
        acting = {name: rules for name, rules in acting.items() if rules}
        if not acting:
            return SizeVerdicts()
        if not self._fleet.fresh():
            return SizeVerdicts(dict.fromkeys(acting, NOT_KNOWN))
        ids = {id_of(rule) for rules in acting.values() for rule in rules}
        result = await estimate(
            [RuleVersion(id_of(rule), rule) for rule in there.values()],
            ids,
            self._fleet,
            self._clock,
            self._threads,
        )
        refused, accepted = {}, {}
        for name, rules in acting.items():
            most = limit_for(new[name], result.nodes, self._most)
            limit = limit_of(result.nodes, self._most)
            if not (worst := _worst(rules, result.counts, limit)):
                continue
            matching = result.counts[id_of(worst)].matching
            if matching <= most:
                accepted[name] = (
                    f"{acceptance(new[name])} that rule {worst.metadata.name} would match"
                    f" {matching:,} of {result.nodes:,} nodes, more than {limit:,}"
                )
                continue
            refused[name] = self._describe_excess(name, worst)
            log.info("rule would match too many nodes", extra={"rule": name, "nodes": matching})
        return SizeVerdicts(refused, accepted)

    def most_at_once(self, rule: NodeRemedier, fleet: int) -> int | None:
        return most_at_once(rule, fleet, self._most)

    def _describe_excess(self, name: str, worst: NodeRemedier) -> str:
        """Return the reason without counts: the text must be the same at each check."""
        other = worst.metadata.name
        who = "it" if other == name else f"rule {other}, which reads its fact,"
        return (
            f"spec.when: {who} would match more than {self._most} of the nodes, and admission did"
            " not refuse it: narrow it, write `mode: DryRun` or `Approve`, or, if meant, set"
            f" annotation {ACCEPT} to the number of nodes; it is loaded once it matches fewer"
        )


def _acting(rule: NodeRemedier, there: Rules) -> Sequence[NodeRemedier]:
    """Return the rule and those that read its fact, if they create jobs in Enforce."""
    others = [other for other in there.values() if other is not rule]
    return [
        candidate
        for candidate in (rule, *readers(rule, others).values())
        if candidate.spec.mode is Mode.ENFORCE and acts(candidate)
    ]


def _worst(
    rules: Sequence[NodeRemedier], counts: Mapping[str, RuleEstimate], most: int
) -> NodeRemedier | None:
    worst = max(rules, key=lambda rule: counts[id_of(rule)].matching)
    return worst if counts[id_of(worst)].matching > most else None
