"""Runs queries outside of the event loop, because the database blocks."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Executor
from typing import TypeVar

from sqlalchemy import Connection, Engine

from insight.store.database import read_transaction

T = TypeVar("T")


class StoreReader:
    def __init__(self, engine: Engine, threads: Executor) -> None:
        self._engine, self._threads = engine, threads

    async def read(self, query: Callable[[Connection], T]) -> T:
        """Return what `query` returns. Raises StoreUnavailable."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, query)

    def _run(self, query: Callable[[Connection], T]) -> T:
        with read_transaction(self._engine) as connection:
            return query(connection)
