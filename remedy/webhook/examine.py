"""Examines a candidate rule for the verdict, with the rules and nodes in our caches.

It sends no request to the API server and writes nothing, so a server-side dry run needs no special
case.
"""

import asyncio
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import replace
from typing import Protocol

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.runtime.clock import Clock
from remedy.job.steps.table import unable
from remedy.registry.select import id_of
from remedy.webhook import estimate
from remedy.webhook.neighbours import chained, loadable, readers, upstream
from remedy.webhook.verdict import Examination
from rules.lint import lint
from rules.load_limits import MOST_RULES
from rules.nodekeys import NodeKeys, key_fault
from rules.program import RuleVersion, compile_program

AT_ONCE = 2
"""Concurrent estimates; others wait as long as their time lasts."""


class ConditionReader(estimate.FleetReader, Protocol):
    def conditions(self) -> Collection[str]:
        """Return the types of conditions that nodes of the fleet report."""
        ...


class Examiner:
    """Examines rules.

    rules: returns every NodeRemedier, in any mode
    threads: executor for what would block the event loop
    """

    def __init__(
        self,
        rules: Callable[[], Iterable[NodeRemedier]],
        fleet: ConditionReader,
        clock: Clock,
        threads: Executor,
        node_keys: NodeKeys | None = None,
    ) -> None:
        self._rules, self._fleet, self._clock, self._threads = rules, fleet, clock, threads
        self._node_keys = node_keys or NodeKeys()
        self._turns = asyncio.Semaphore(AT_ONCE)

    async def examine(self, rule: NodeRemedier, seconds: float) -> Examination:
        """Examine the rule within about `seconds`; what is unknown by then is missing in the
        result.

        Raises TimeoutError if not even the rule's text could be checked.
        """
        loop = asyncio.get_running_loop()
        ends = loop.time() + seconds
        name, there = rule.metadata.name, list(self._rules())
        others = [other for other in there if other.metadata.name != name]
        old = next((other for other in there if other.metadata.name == name), None)
        conditions = frozenset(self._fleet.conditions())
        async with asyncio.timeout_at(ends):
            examination = await loop.run_in_executor(
                self._threads, read, rule, old, others, conditions, self._node_keys
            )
        if examination.refused or examination.breaks or rule.spec.mode is Mode.OFF:
            return examination
        if not self._fleet.fresh():
            return replace(examination, unknown="the operator's view of the nodes is not current")
        try:
            async with asyncio.timeout_at(ends), self._turns:
                return await self._sized(examination, others)
        except TimeoutError:
            return replace(examination, unknown=f"counting took longer than {seconds:g} s")

    async def _sized(self, examination: Examination, others: Sequence[NodeRemedier]) -> Examination:
        named = {id_of(rule): rule for rule in (examination.rule, *examination.affected.values())}
        needed = [*upstream(named.values(), others), *named.values()]
        loaded = {id_of(rule): RuleVersion(id_of(rule), rule) for rule in needed}
        sizes = await estimate.estimate(
            list(loaded.values()), named.keys(), self._fleet, self._clock, self._threads
        )
        counts = {named[id_].metadata.name: count for id_, count in sizes.counts.items()}
        return replace(examination, nodes=sizes.nodes, counts=counts)


def read(
    rule: NodeRemedier,
    old: NodeRemedier | None,
    others: Sequence[NodeRemedier],
    conditions: Collection[str],
    node_keys: NodeKeys,
) -> Examination:
    """Return the findings from the rules' texts alone. `old` is the version that is stored now.
    Pure.
    """
    near = [RuleVersion(id_of(other), other) for other in chained(rule, others)]
    mine = RuleVersion(id_of(rule), rule)
    before = _refusals(
        [*near, *(RuleVersion(id_of(stored), stored) for stored in loadable([old] if old else []))]
    )
    after = _refusals([*near, mine])
    own = after.pop(mine.id, "") or unable(rule.spec) or key_fault(rule.spec, node_keys)
    own = own or _no_room(old, others)
    breaks = {id_.rpartition("@")[0]: why for id_, why in after.items() if id_ not in before}
    affected = readers(rule, [other.remedier for other in near])
    findings = tuple(lint([rule], others, conditions=conditions, node_keys=node_keys))
    return Examination(
        rule,
        refused=own,
        # The compiler rejects one rule of a cycle; without the candidate there would be no cycle.
        breaks=breaks,
        findings=findings,
        affected={name: reader for name, reader in affected.items() if name not in breaks},
    )


def _no_room(old: NodeRemedier | None, others: Sequence[NodeRemedier]) -> str:
    """Return why one more rule cannot be loaded, "" if it can; a changed rule always can."""
    if old is not None or sum(1 for _ in loadable(others)) < MOST_RULES:
        return ""
    return f"spec: more than {MOST_RULES} rules cannot be loaded: delete some, or join some"


def _refusals(rules: Sequence[RuleVersion]) -> dict[str, str]:
    rejected = compile_program(rules).rejected
    return {error.rule: f"{error.path}: {error.message}" for error in rejected}


def orphans(rule: NodeRemedier, others: Iterable[NodeRemedier]) -> Mapping[str, str]:
    """Return the rules that can no longer be loaded without `rule`, by name with the reason."""
    rest = [other for other in others if other.metadata.name != rule.metadata.name]
    near = [RuleVersion(id_of(other), other) for other in chained(rule, rest)]
    before = _refusals([*near, RuleVersion(id_of(rule), rule)])
    after = _refusals([other for other in near if other.id not in before])
    return {id_.rpartition("@")[0]: why for id_, why in after.items()}
