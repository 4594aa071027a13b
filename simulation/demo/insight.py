"""Insight in the demo: the real store in a file of SQLite, its pages, and a simulated past.

The packages of Insight are imported and the tables are made in a thread after everything else runs,
so the demo starts as fast as without Insight. Clients that connect earlier wait.
"""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp

from kubenode.runtime.clock import Clock
from kubenode.runtime.listener import listen
from kubenode.runtime.stream.model import StreamEvent, encode_batch
from kubenode.runtime.webserver import serve

NO_INSIGHT = "history needs the extra: pip install 'kubenode[insight]'"
RETENTION = timedelta(days=3650)
BATCH_EVENTS = 500
Past = Callable[[], Iterable[StreamEvent]]


def has_insight() -> bool:
    """Return whether the packages of the extra kubenode[insight] are installed."""
    return all(find_spec(name) is not None for name in ("sqlalchemy", "alembic"))


class DemoInsight:
    """A Part, and the receiver of the stream.

    folder: for the database
    past: returns the events of the simulated past
    """

    name = "insight"

    def __init__(self, folder: Path, clock: Clock, past: Past = tuple) -> None:
        self._folder, self._clock, self._past = folder, clock, past
        self._listener = listen("127.0.0.1", 0, "--port")
        self._writing = ThreadPoolExecutor(1, thread_name_prefix="insight")
        self._reading = ThreadPoolExecutor(1, thread_name_prefix="insight pages")
        self._store: Any = None
        self._release: Callable[[], None] = _nothing
        self._ready = asyncio.Event()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self._listener.getsockname()[1]}"

    async def run(self) -> None:
        """Prepare the store, then load the past and serve pages until cancelled."""
        try:
            app = await self._write(self._prepare)
            self._ready.set()
            async with asyncio.TaskGroup() as tasks:
                tasks.create_task(serve(app, self._listener))
                await self._load_past()
        finally:
            self._listener.close()
            self._release()
            for threads in (self._writing, self._reading):
                threads.shutdown(wait=False, cancel_futures=True)

    async def send(self, events: Sequence[StreamEvent]) -> None:
        """Store a batch, as a BatchSender of the stream."""
        await self._ready.wait()
        await self._write(partial(self._load, events))

    async def close(self) -> None:
        """Do nothing: the store outlives the stream."""

    def _load(self, events: Sequence[StreamEvent]) -> None:
        from insight.store.rows import read_batch

        self._store.load(read_batch(encode_batch(list(events))), self._clock.now())

    async def _load_past(self) -> None:
        """Load the past in batches, between those of the stream."""
        events = iter(self._past())
        while batch := list(islice(events, BATCH_EVENTS)):
            await self._write(partial(self._load, batch))

    def _prepare(self) -> ASGIApp:
        """Open the store and return the application."""
        from insight.server.app import InsightEndpoints
        from insight.server.metrics import InsightMetrics
        from insight.server.reader import StoreReader
        from insight.store.database import database_url, migrate, open_database
        from insight.store.event_store import EventStore

        engine = open_database(database_url(f"sqlite:///{self._folder}/insight.db"))
        migrate(engine)
        self._release = engine.dispose
        self._store = EventStore(engine, RETENTION)
        return InsightEndpoints(
            self._store,
            StoreReader(engine, self._reading),
            self._clock,
            InsightMetrics(CollectorRegistry()),
            senders=None,
            readers=None,
            writing=self._writing,
        ).app()

    async def _write(self, act: Callable[[], Any]) -> Any:
        return await asyncio.get_running_loop().run_in_executor(self._writing, act)


def _nothing() -> None:
    """Release nothing, before the database is open."""
