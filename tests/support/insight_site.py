"""Insight with its pages over a store with the events of support.insight_checks."""

from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from prometheus_client import CollectorRegistry
from sqlalchemy import Engine
from starlette.applications import Starlette

from insight.server.app import InsightEndpoints
from insight.server.metrics import InsightMetrics
from insight.server.reader import StoreReader
from insight.store.event_store import EventStore
from kubenode.runtime.clock import Clock
from kubenode.runtime.token_files import TokenFiles

SENDER, READER = "s" * 32, "r" * 32
PERIOD = "since=2026-01-06T12:00:00Z&until=2026-01-31T12:00:00Z"
"""PERIOD of support.insight_checks, as parameters."""


def insight_app(
    engine: Engine,
    clock: Clock,
    threads: ThreadPoolExecutor,
    registry: CollectorRegistry | None = None,
    folder: Path | None = None,
) -> Starlette:
    """folder: where token files are written, None for an application that lets anyone in"""
    tokens: dict[str, TokenFiles | None] = {"senders": None, "readers": None}
    if folder is not None:
        for name, token in (("senders", SENDER), ("readers", READER)):
            (folder / name).write_text(f"{token}\n")
            tokens[name] = TokenFiles([folder / name], clock)
    return InsightEndpoints(
        EventStore(engine, timedelta(days=400)),
        StoreReader(engine, threads),
        clock,
        InsightMetrics(registry or CollectorRegistry()),
        senders=tokens["senders"],
        readers=tokens["readers"],
        writing=threads,
    ).app()
