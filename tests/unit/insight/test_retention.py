"""Expired events are deleted every hour, and an absent database is reported and waited for."""

import asyncio
from collections.abc import Iterator
from concurrent.futures import Executor, Future
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from sqlalchemy import Engine
from support.clock import FakeClock
from support.insight_history import opened_store, received
from support.insight_loads import HISTORY, count_events

from insight.server.metrics import InsightMetrics
from insight.server.retention import RetentionPart
from insight.store.database import database_url, open_database
from insight.store.event_store import EventStore


class SameThread(Executor):
    """Runs everything at once, so that simulated time decides alone."""

    def submit(self, fn: Any, /, *args: Any, **kwargs: Any) -> Future[Any]:
        future: Future[Any] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001  as an executor does
            future.set_exception(error)
        return future


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    made = opened_store(f"sqlite:///{tmp_path}/insight.db")
    yield made
    made.dispose()


async def test_events_leave_when_they_are_too_old(engine: Engine) -> None:
    clock, registry = FakeClock(), CollectorRegistry()
    store = EventStore(engine, timedelta(days=30))
    store.load(received(HISTORY), clock.now())
    part = RetentionPart(store, clock, InsightMetrics(registry), SameThread())
    assert part.ready() != ""
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(part.run())
        await clock.advance(timedelta(seconds=5))
        assert (part.ready(), count_events(engine)) == ("", len(HISTORY))
        await clock.advance(timedelta(days=60))
        await clock.advance(timedelta(seconds=20))
        assert count_events(engine) == 0
        task.cancel()
    assert registry.get_sample_value("kubenode_insight_deleted_events_total") == len(HISTORY)


async def test_database_that_is_away_makes_it_unready_until_it_is_back(tmp_path: Path) -> None:
    clock = FakeClock()
    engine = open_database(database_url(f"sqlite:///{tmp_path}/later/insight.db"))
    store = EventStore(engine, timedelta(days=30))
    part = RetentionPart(store, clock, InsightMetrics(CollectorRegistry()), SameThread())
    async with asyncio.TaskGroup() as tasks:
        task = tasks.create_task(part.run())
        await clock.advance(timedelta(seconds=5))
        assert "does not answer" in part.ready()
        (tmp_path / "later").mkdir()
        opened_store(f"sqlite:///{tmp_path}/later/insight.db").dispose()
        await clock.advance(timedelta(seconds=20))
        assert part.ready() == ""
        task.cancel()
    engine.dispose()
