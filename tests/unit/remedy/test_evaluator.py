"""The evaluator: many questions, few calls, one answer each."""

import asyncio

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.running import running, until

from remedy.remedier.evaluator import BATCH, Evaluator
from remedy.remedier.metrics import RemedierMetrics
from rules.diagnose import Diagnosis
from rules.facts import FactSet


class Slow:
    """Answers when it is let; remembers what it was asked in one call."""

    def __init__(self) -> None:
        self.calls: list[int] = []
        self.gate = asyncio.Event()
        self.error: Exception | None = None

    async def diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        self.calls.append(len(factsets))
        await self.gate.wait()
        if self.error is not None:
            raise self.error
        return [Diagnosis(node=f.node, matches=(), flips_at=None) for f in factsets]


def an_evaluator(engine: Slow) -> Evaluator:
    def facts(node: str) -> FactSet | None:
        return None if node == "gone" else FactSet(node)

    return Evaluator(engine, facts, FakeClock(), RemedierMetrics(CollectorRegistry()))


async def test_who_asks_while_the_engine_is_busy_is_answered_by_the_next_call() -> None:
    engine = Slow()
    evaluator = an_evaluator(engine)
    async with running(evaluator.run()), asyncio.TaskGroup() as tasks:
        first = tasks.create_task(evaluator.diagnose("n0"))
        await until(lambda: bool(engine.calls))
        rest = [tasks.create_task(evaluator.diagnose(f"n{i}")) for i in range(1, BATCH + 2)]
        await asyncio.sleep(0)
        engine.gate.set()
        answers = [await task for task in (first, *rest)]
    assert engine.calls == [1, BATCH, 1]
    assert [a[1].node for a in answers if a] == [f"n{i}" for i in range(BATCH + 2)]


async def test_a_node_that_is_not_in_the_cache_costs_the_engine_nothing() -> None:
    engine = Slow()
    evaluator = an_evaluator(engine)
    async with running(evaluator.run()):
        assert await evaluator.diagnose("gone") is None
    assert engine.calls == []


async def test_an_error_reaches_everyone_who_asked_and_the_next_question_is_answered() -> None:
    engine = Slow()
    engine.gate.set()
    engine.error = RuntimeError("the engine is away")
    evaluator = an_evaluator(engine)
    async with running(evaluator.run()):
        with pytest.raises(RuntimeError, match="away"):
            await evaluator.diagnose("n1")
        engine.error = None
        assert await evaluator.diagnose("n1") is not None


async def test_nobody_waits_for_ever_when_it_ends() -> None:
    engine = Slow()
    evaluator = an_evaluator(engine)
    async with running(evaluator.run()), asyncio.TaskGroup() as tasks:
        asked = tasks.create_task(evaluator.diagnose("n1"))
        await until(lambda: bool(engine.calls))
        asked.cancel()
    assert asked.cancelled()
