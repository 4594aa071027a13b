"""Asks the rule engine about nodes, many at a time.

The engine is synchronous and has one worker thread. Whoever asks while it is busy waits together
with the others and is answered by the next call: a storm of 500 nodes is some ten calls, a single
node waits for nobody. FactSets are made right before the call, so that they are of that moment.
"""

import asyncio
from collections.abc import Callable
from typing import Protocol

from kubenode.runtime.clock import Clock
from remedy.remedier.metrics import Metrics
from rules.diagnose import Diagnosis
from rules.facts import FactSet

BATCH = 128
"""Nodes per call: bounds how long one call may take, and so how long a new question waits."""


class Diagnose(Protocol):
    async def diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        """One answer for each FactSet, in order."""
        ...


class Evaluator:
    """A Part. `facts` gives the FactSet of a node now, None for one that is not in our cache."""

    name = "rule evaluation"

    def __init__(
        self,
        engine: Diagnose,
        facts: Callable[[str], FactSet | None],
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._engine, self._facts, self._clock, self._metrics = engine, facts, clock, metrics
        self._asked: dict[str, asyncio.Future[tuple[FactSet, Diagnosis] | None]] = {}
        self._some = asyncio.Event()

    async def diagnose(self, node: str) -> tuple[FactSet, Diagnosis] | None:
        """What the rules say of `node`, and on which facts; None for an unknown node."""
        future = self._asked.get(node)
        if future is None:
            future = self._asked[node] = asyncio.get_running_loop().create_future()
            self._some.set()
        return await asyncio.shield(future)

    async def run(self) -> None:
        try:
            while True:
                await self._some.wait()
                self._some.clear()
                while self._asked:
                    await self._next()
        finally:
            for future in self._asked.values():
                future.cancel()

    async def _next(self) -> None:
        nodes = list(self._asked)[:BATCH]
        batch = {node: self._asked.pop(node) for node in nodes}
        found = {node: self._facts(node) for node in nodes}
        for node in [n for n, facts in found.items() if facts is None]:
            _answer(batch.pop(node), None)
        asked = [(node, facts) for node, facts in found.items() if facts is not None]
        if not asked:
            return
        self._metrics.batch.observe(len(asked))
        self._metrics.evaluations.inc(len(asked))
        try:
            answers = await self._engine.diagnose([facts for _, facts in asked])
        except asyncio.CancelledError:
            for future in batch.values():
                future.cancel()
            raise
        except Exception as error:  # noqa: BLE001  handed on to everyone who asked, as it is
            for future in batch.values():
                if not future.done():
                    future.set_exception(error)
            return
        for (node, facts), diagnosis in zip(asked, answers, strict=True):
            _answer(batch[node], (facts, diagnosis))


def _answer(
    future: "asyncio.Future[tuple[FactSet, Diagnosis] | None]",
    answer: tuple[FactSet, Diagnosis] | None,
) -> None:
    if not future.done():
        future.set_result(answer)
