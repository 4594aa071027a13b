"""Estimates how many nodes a rule would match if it were loaded now, from the operator's own
caches.

Only the reference engine is used: it is the specification, and needs no child process. The event
loop keeps running: FactSets are built some dozens at a time, and the engine runs in a thread.
"""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from dataclasses import dataclass
from typing import Protocol

from kubenode.runtime.clock import Clock
from rules.diagnose import Diagnoser, Diagnosis, Match
from rules.facts import FactSet
from rules.program import RuleVersion
from rules.truth import Truth

TURN = 32
"""FactSets that are built before yielding to the event loop."""
BATCH = 256
"""Nodes per call of the engine. Without a second engine it remembers none of them."""


class FleetReader(Protocol):
    """The operator's caches."""

    def nodes(self) -> Collection[str]: ...
    def facts(self, node: str) -> FactSet | None:
        """Return the node's facts; None for a node that is not in the cache."""
        ...

    def fresh(self) -> bool:
        """Report whether the caches are current."""
        ...


@dataclass(slots=True)
class RuleEstimate:
    """Node counts of one rule.

    selected: nodes that its selector matches
    matching: nodes with true evidence; evidence that only lacks the count of such nodes counts as
        true: a rule above the limit must not pass because it was never loaded
    undecided: nodes with unknown evidence
    """

    selected: int = 0
    matching: int = 0
    undecided: int = 0


@dataclass(frozen=True, slots=True)
class Estimate:
    """Estimates by rule id; `nodes` is the number of all nodes."""

    nodes: int
    counts: Mapping[str, RuleEstimate]


async def estimate(
    rules: Sequence[RuleVersion],
    ids: Collection[str],
    fleet: FleetReader,
    clock: Clock,
    threads: Executor,
) -> Estimate:
    """Estimate the rules with an id in `ids`; all `rules` are loaded together."""
    loop = asyncio.get_running_loop()
    counts = {id_: RuleEstimate() for id_ in ids}
    nodes = list(fleet.nodes())
    diagnoser = Diagnoser()
    await loop.run_in_executor(threads, diagnoser.load, rules)
    for names in _several(nodes, BATCH):
        factsets: list[FactSet] = []
        for some in _several(names, TURN):
            candidates = (fleet.facts(name) for name in some)
            factsets += [facts for facts in candidates if facts is not None]
            await clock.sleep(0)
        now = clock.now()
        for diagnosis in await loop.run_in_executor(threads, diagnoser.diagnose, factsets, now):
            _add(counts, diagnosis)
    return Estimate(len(nodes), counts)


def _add(counts: Mapping[str, RuleEstimate], diagnosis: Diagnosis) -> None:
    for match in diagnosis.matches:
        count = counts.get(match.rule_id)
        if count is not None:
            count.selected += 1
            count.matching += _matches(match)
            count.undecided += match.evidence is Truth.UNKNOWN and not _matches(match)


def _matches(match: Match) -> bool:
    if match.evidence is Truth.UNKNOWN:
        return match.others is Truth.TRUE
    return match.evidence is Truth.TRUE


def _several(names: Sequence[str], size: int) -> Iterator[Sequence[str]]:
    for begin in range(0, len(names), size):
        yield names[begin : begin + size]
