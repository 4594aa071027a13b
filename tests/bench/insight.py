"""Loads a simulated year into the store of Insight, and times analyses and pages over all of it.

It does so in SQLite and in PostgreSQL. It also takes the processor time in which the exporter
derives and encodes the events of one job.
"""

import argparse
import math
import tempfile
import time
from collections.abc import Callable
from datetime import timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, Engine
from support.clock import T0
from support.insight_history import history, opened_store
from support.postgresql import postgresql_server
from support.stream_objects import a_node, closed_job

from insight.analyses.faults import FaultProperty, count_faults
from insight.analyses.incidents import read_incident
from insight.analyses.interval import Interval
from insight.analyses.lemons import list_lemons
from insight.analyses.repair_outcomes import summarize_healing
from insight.analyses.selection import HistorySelection
from insight.site.pages import PAGES, InsightPage
from insight.site.request import PageRequest
from insight.store.event_store import EventStore
from insight.store.rows import read_batch
from kubenode.runtime.stream.derivation import StreamIdentity, job_events
from kubenode.runtime.stream.model import encode_batch

BATCH_EVENTS = 500
REPEATS = 20
JOBS = 2000
DAYS = 365.0
PERIOD = HistorySelection(T0, T0 + timedelta(days=DAYS + 1))
ANALYSES: dict[str, Callable[[Connection], object]] = {
    "healing": lambda connection: summarize_healing(connection, PERIOD),
    "faults": lambda connection: count_faults(
        connection, PERIOD, FaultProperty.KERNEL, Interval.WEEK
    ),
    "lemons": lambda connection: list_lemons(connection, PERIOD, 3),
}
ADDRESS = {"since": PERIOD.since.isoformat(), "until": PERIOD.until.isoformat()}


def _page(page: InsightPage) -> Callable[[Connection], object]:
    """Return a function that reads the store as the page does."""
    request = PageRequest.read({**ADDRESS, "by": "kernel"}, PERIOD.until)
    return lambda connection: page.build(connection, request)


PAGE_QUERIES = {f"page_{page.name}": _page(page) for page in PAGES} | {
    "page_incident": lambda connection: read_incident(connection, "uid-7")
}


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("insight")
    flags.add_argument("--insight-incidents", type=int, default=2000)
    flags.add_argument("--insight-nodes", type=int, default=500)


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    """Events stored per second, bytes of each event, and p95 of analyses and pages in seconds."""
    size = chosen.insight_incidents, chosen.insight_nodes
    with tempfile.TemporaryDirectory(prefix="kubenode-bench-") as folder:
        file = Path(folder) / "insight.db"
        sqlite = _measure(opened_store(f"sqlite:///{file}"), *size)
        sqlite["bytes_per_event"] = round(file.stat().st_size / sqlite["events"])
    with postgresql_server() as server:
        engine = opened_store(server.url)
        postgresql = _measure(engine, *size)
        postgresql["bytes_per_event"] = round(_database_bytes(engine) / postgresql["events"])
    return {"derive_ms_per_job": _derive(), "sqlite": sqlite, "postgresql": postgresql}


def _measure(engine: Engine, incidents: int, nodes: int) -> dict[str, Any]:
    events, seconds = _load(engine, incidents, nodes)
    result: dict[str, Any] = {"events": events, "events_per_second": round(events / seconds)}
    for name, analysis in (ANALYSES | PAGE_QUERIES).items():
        result[f"{name}_p95_seconds"] = _p95(engine, analysis)
    with engine.connect() as connection:
        assert len(summarize_healing(connection, PERIOD)) == 9
    engine.dispose()
    return result


def _load(engine: Engine, incidents: int, nodes: int) -> tuple[int, float]:
    """Return the number of events, and the seconds from bytes to the database."""
    store = EventStore(engine, timedelta(days=36_500))
    source = history(incidents, seed=5, nodes=nodes, days=DAYS)
    count, seconds = 0, 0.0
    while events := list(islice(source, BATCH_EVENTS)):
        body = encode_batch(events)
        began = time.perf_counter()
        count += store.load(read_batch(body), PERIOD.until).stored
        seconds += time.perf_counter() - began
    return count, seconds


def _p95(engine: Engine, analysis: Callable[[Connection], object]) -> float:
    times = []
    for _ in range(REPEATS):
        began = time.perf_counter()
        with engine.connect() as connection:
            analysis(connection)
        times.append(time.perf_counter() - began)
    return round(sorted(times)[math.ceil(0.95 * REPEATS) - 1], 4)


def _database_bytes(engine: Engine) -> int:
    with engine.connect() as connection:
        query = "SELECT pg_database_size(current_database())"
        return int(connection.exec_driver_sql(query).scalar_one())


def _derive() -> float:
    """Return the processor time of one closed job with two steps, in milliseconds."""
    job, node, identity = closed_job(), a_node(), StreamIdentity("prod")
    began = time.process_time()
    for _ in range(JOBS):
        encode_batch(list(job_events(job, node, identity)))
    return round((time.process_time() - began) / JOBS * 1000, 4)
