"""Loads a simulated year of a fleet into Insight, and times every page and query of its API.

    make bench ARGS="insight_year --year-incidents 3000000 --year-nodes 10000 --year-clusters 20"

It does so in SQLite and PostgreSQL, or in databases that exist (--year-database). The loader
stores the first incidents, and its rate is the figure. support.insight_seeding copies the rest,
because millions of incidents take long. A database that has events already is only measured.
With --year-check, a computation from the events must give the same figures.
"""

import argparse
import asyncio
import math
import os
import tempfile
import time
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta
from itertools import islice
from pathlib import Path
from typing import Any

from bench.processes import usage
from sqlalchemy import Engine, func, select
from starlette.applications import Starlette
from support.asgi import request
from support.clock import FakeClock
from support.insight_history import disposing, opened_store
from support.insight_seeding import seed
from support.insight_site import insight_app
from support.insight_year import SimulatedYear, cluster_name
from support.insight_year_checks import check_years, year_periods
from support.postgresql import postgresql_server

from insight.store.database import POSTGRESQL, SQLITE
from insight.store.event_store import EventStore
from insight.store.rows import read_batch
from insight.store.schema import faults
from kubenode.runtime.stream.model import StreamEvent, encode_batch

BATCH_EVENTS = 500
YEARS = timedelta(days=3650)
PERIODS = (7, 90, 365)
"""Days before the end of the year."""
PAGES = (
    *("/", "/faults", "/faults?by=kernel", "/faults?by=rack", "/healing", "/lemons", "/incidents"),
    *(f"{page}?cluster={cluster_name(1)}" for page in ("/", "/faults", "/healing", "/lemons")),
    *(f"{page}?rule=kubelet-problem" for page in ("/", "/faults", "/healing", "/lemons")),
)
API = (
    *("/v1/faults", "/v1/faults?by=kernel&every=week", "/v1/faults?by=rack&every=week"),
    *("/v1/healing", "/v1/lemons", "/v1/incidents"),
    f"/v1/faults?by=class&every=week&cluster={cluster_name(1)}",
    "/v1/faults?by=kernel&every=week&rule=kubelet-problem",
)
KINDS = (SQLITE, POSTGRESQL)
TABLES_OF_PAGES = ("/csv/faults", "/csv/fault-sums", "/csv/outcomes", "/csv/stages")
SIZES = {
    POSTGRESQL: "SELECT pg_database_size(current_database())",
    SQLITE: "SELECT page_count * page_size FROM pragma_page_count, pragma_page_size",
}


def options(parser: argparse.ArgumentParser) -> None:
    flags = parser.add_argument_group("insight_year")
    flags.add_argument("--year-incidents", type=int, default=3000)
    flags.add_argument("--year-nodes", type=int, default=200)
    flags.add_argument("--year-clusters", type=int, default=4)
    flags.add_argument("--year-loaded", type=int, default=20_000, help="incidents of the loader")
    flags.add_argument("--year-repeats", type=int, default=20)
    flags.add_argument("--year-check", action="store_true", help="compute all figures again")
    flags.add_argument("--year-database", nargs="*", default=list(KINDS), metavar="KIND|URL")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    """Figures of each database, by its kind."""
    year = SimulatedYear(chosen.year_incidents, chosen.year_nodes, chosen.year_clusters)
    result = {}
    with ExitStack() as stack:
        for database in chosen.year_database:
            url = _temporary(database, stack) if database in KINDS else database
            engine = stack.enter_context(disposing(opened_store(url)))
            result[engine.name] = _measure(engine, year, chosen.year_loaded, chosen.year_repeats)
            if chosen.year_check:
                until = year.start + timedelta(days=year.days)
                check_years(engine, year.events(), year_periods(until, cluster_name(1)))
    return result


def _temporary(kind: str, stack: ExitStack) -> str:
    """Return the address of an empty database, which is deleted at the end."""
    if kind == POSTGRESQL:
        return stack.enter_context(postgresql_server()).url
    folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="kubenode-bench-"))
    return f"sqlite:///{Path(folder)}/insight.db"


def _measure(engine: Engine, year: SimulatedYear, loaded: int, repeats: int) -> dict[str, Any]:
    now = year.start + timedelta(days=year.days)
    result = _fill(engine, year, loaded, now)
    began = time.perf_counter()
    result["rolled_up_days"] = _roll_up(engine, now)
    result["roll_up_seconds"] = round(time.perf_counter() - began, 1)
    result["load_average"] = os.getloadavg()[0]
    with engine.connect() as connection:
        result["bytes"] = int(connection.exec_driver_sql(SIZES[engine.name]).scalar_one())
        result["incidents"] = connection.execute(select(func.count()).select_from(faults)).scalar()
    clock = FakeClock()
    clock.step(now - clock.now())
    with ThreadPoolExecutor(1) as threads:
        app = insight_app(engine, clock, threads)
        result["queries"] = asyncio.run(_time_queries(app, _uid(engine), repeats))
    return result


def _fill(engine: Engine, year: SimulatedYear, loaded: int, now: datetime) -> dict[str, Any]:
    with engine.connect() as connection:
        if connection.execute(select(faults.c.id).limit(1)).first() is not None:
            return {}
    events = year.events()
    count, seconds = _load(engine, islice(events, 2 * loaded), now)
    result: dict[str, Any] = {"loaded_events": count, "loaded_per_second": round(count / seconds)}
    began = time.perf_counter()
    result["copied_events"] = seed(engine, events)
    result["copy_seconds"] = round(time.perf_counter() - began, 1)
    return result


def _load(engine: Engine, events: Iterable[StreamEvent], now: datetime) -> tuple[int, float]:
    """Return the number of events, and the seconds from bytes to the database."""
    store, source = EventStore(engine, YEARS), iter(events)
    count, seconds = 0, 0.0
    while batch := list(islice(source, BATCH_EVENTS)):
        body = encode_batch(batch)
        began = time.perf_counter()
        count += store.load(read_batch(body), now).stored
        seconds += time.perf_counter() - began
    return count, seconds


def _roll_up(engine: Engine, now: datetime) -> int:
    store = EventStore(engine, YEARS)
    days = store.rollups.list_pending(now)
    for day in days:
        store.rollups.roll_up(day)
    for span in store.weeks.list_missing(now):
        store.weeks.roll_up(span)
    return len(days)


def _uid(engine: Engine) -> str:
    """Return the UID of the first job, which has the most similar ones after it."""
    with engine.connect() as connection:
        query = select(faults.c.id).order_by(faults.c.time).limit(1)
        return str(connection.execute(query).scalar_one()).rpartition("/")[0]


async def _time_queries(app: Starlette, uid: str, repeats: int) -> dict[str, Any]:
    """Return the figures of each query by its address."""
    single = (f"/incidents/{uid}", f"/v1/incidents/{uid}")
    result = {target.replace(uid, "UID"): await _time(app, target, repeats) for target in single}
    for days in PERIODS:
        for target in (*PAGES, *API, *TABLES_OF_PAGES):
            address = f"{target}{'&' if '?' in target else '?'}days={days}"
            result[address] = await _time(app, address, repeats)
    return result


async def _time(app: Starlette, target: str, repeats: int) -> dict[str, float]:
    """Return the p95, and the mean processor time of this process and of a server below it."""
    times, cpu = [], usage(os.getpid()).cpu
    for _ in range(repeats):
        began = time.perf_counter()
        reply = await request(app, "GET", target)
        times.append(time.perf_counter() - began)
        if reply.status != 200:
            raise RuntimeError(f"{target} answers {reply.status}: {reply.body[:200]!r}")
    return {
        "p95_seconds": round(sorted(times)[math.ceil(0.95 * repeats) - 1], 3),
        "cpu_seconds": round((usage(os.getpid()).cpu - cpu) / repeats, 3),
    }
