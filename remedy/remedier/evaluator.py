"""Asks the rule engine about nodes, many at a time.

The engine is synchronous and has one worker thread. Requests that arrive while it is busy wait
together and are answered by the next call: a storm of 500 nodes needs some ten calls, a single node
does not wait. FactSets are built right before the call, so that they are current.

A failure for one node affects that node alone: it is unknown, and the others of its batch get their
results.
"""

import asyncio
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from kubenode.runtime.clock import Clock
from remedy.remedier.metrics import RemedierMetrics
from remedy.remedier.unreadable import FACTS, RULES, UnreadableNodes
from rules.diagnose import Diagnosis
from rules.facts import FactSet

BATCH = 128
"""Nodes per call: bounds how long one call may take, and so how long a new request waits."""


_Future = asyncio.Future[tuple[FactSet, Diagnosis] | None]


class Diagnose(Protocol):
    """The rule engine."""

    async def diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        """Return one Diagnosis for each FactSet, in order."""
        ...


class Evaluator:
    """A Part that evaluates rules. `facts` returns the current FactSet of a node, None if it is not
    in our cache.

    unreadable: collects the nodes for which the rules cannot be evaluated
    """

    name = "rule evaluation"

    def __init__(
        self,
        engine: Diagnose,
        facts: Callable[[str], FactSet | None],
        clock: Clock,
        metrics: RemedierMetrics,
        unreadable: UnreadableNodes | None = None,
    ) -> None:
        self._unreadable = UnreadableNodes() if unreadable is None else unreadable
        self._engine, self._facts, self._clock, self._metrics = engine, facts, clock, metrics
        self._futures: dict[str, _Future] = {}
        self._some = asyncio.Event()

    async def diagnose(self, node: str) -> tuple[FactSet, Diagnosis] | None:
        """Return the node's diagnosis and the facts it is based on; None for an unknown node."""
        future = self._futures.get(node)
        if future is None:
            future = self._futures[node] = asyncio.get_running_loop().create_future()
            self._some.set()
        return await asyncio.shield(future)

    async def run(self) -> None:
        try:
            while True:
                await self._some.wait()
                self._some.clear()
                while self._futures:
                    await self._next()
        finally:
            for future in self._futures.values():
                future.cancel()

    async def _next(self) -> None:
        nodes = list(self._futures)[:BATCH]
        batch = {node: self._futures.pop(node) for node in nodes}
        factsets = []
        for node in nodes:
            try:
                facts = self._facts(node)
            except Exception as error:  # noqa: BLE001  fails one node, not the batch
                self._unreadable.failed(node, FACTS, error)
                _fail(batch.pop(node), error)
                continue
            if facts is None:
                _answer(batch.pop(node), None)
            else:
                factsets.append(facts)
        if not factsets:
            return
        self._metrics.batch.observe(len(factsets))
        self._metrics.evaluations.inc(len(factsets))
        try:
            await self._ask(factsets, batch)
        except asyncio.CancelledError:
            for future in batch.values():
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  passed on to every caller as it is
            for future in batch.values():
                _fail(future, error)

    async def _ask(self, factsets: Sequence[FactSet], batch: dict[str, _Future]) -> None:
        try:
            answers = await self._engine.diagnose(list(factsets))
        except Exception:  # noqa: BLE001  each node alone shows the cause
            for facts in factsets:
                _answer(batch[facts.node], await self._ask_alone(facts))
            return
        for facts, diagnosis in zip(factsets, answers, strict=True):
            self._unreadable.succeeded(facts.node, RULES)
            _answer(batch[facts.node], (facts, diagnosis))

    async def _ask_alone(self, facts: FactSet) -> tuple[FactSet, Diagnosis]:
        """Evaluate one node, with unknown facts if its own facts make the engine fail.

        Raises what the engine raises if it fails without any known facts too.
        """
        try:
            (diagnosis,) = await self._engine.diagnose([facts])
        except Exception as error:  # noqa: BLE001  see above
            facts = replace(facts, fresh=False)
            (diagnosis,) = await self._engine.diagnose([facts])
            self._unreadable.failed(facts.node, RULES, error)
        else:
            self._unreadable.succeeded(facts.node, RULES)
        return facts, diagnosis


def _fail(future: _Future, error: Exception) -> None:
    if not future.done():
        future.set_exception(error)


def _answer(future: _Future, answer: tuple[FactSet, Diagnosis] | None) -> None:
    if not future.done():
        future.set_result(answer)
