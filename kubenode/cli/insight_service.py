"""`kubenode run insight`: the store of the stream, and the API of its analyses.

It needs no cluster. One process writes; a second one beside it is safe, and of no use.
"""

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from kubenode.cli.exits import explained, run
from kubenode.cli.insight_settings import InsightFlags
from kubenode.cli.setting_flags import load_program
from kubenode.cli.settings import local
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.reviews import Unverified
from kubenode.runtime.process import CannotStart, Part, run_until_signal
from kubenode.runtime.telemetry import logging as logs
from kubenode.runtime.telemetry.health import HealthServer
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper
from kubenode.runtime.token_files import SHORTEST_TOKEN, TokenFiles, read_tokens
from kubenode.runtime.webserver import WebServer

READERS = 2
"""Analyses that run at the same time."""


def require_extra() -> None:
    """Raise CannotStart without the packages of the extra."""
    if find_spec("sqlalchemy") is None or find_spec("alembic") is None:
        raise CannotStart(
            "Insight needs the extra kubenode[insight], which is not installed;"
            " install it with pip install 'kubenode[insight]'"
        )


def insight(flags: Mapping[str, Any]) -> None:
    with explained():
        require_extra()
        settings = load_program(InsightFlags, flags)
        check_insight(settings)
        url = read_database_url(settings)
    run(_insight(settings, url))


def check_insight(settings: InsightFlags) -> None:
    """Raise CannotStart for contradictory settings, unreadable files and open ports."""
    if (settings.insight_cert_file is None) is not (settings.insight_key_file is None):
        raise CannotStart(
            "--insight-cert-file and --insight-key-file belong together: give both, or none"
        )
    for path in settings.token_files:
        _check_tokens(path)
    if local(settings.insight_address):
        return
    if len(settings.token_files) < 2:
        raise CannotStart(
            f"--insight-address {settings.insight_address}: others than this host reach it: give"
            " --sender-token-file and --reader-token-file"
        )
    if settings.insight_cert_file is None and not settings.insight_plain_http:
        raise CannotStart(
            f"--insight-address {settings.insight_address}: others than this host reach it, and"
            " tokens would pass in clear text: give --insight-cert-file and --insight-key-file, or"
            " --insight-plain-http"
        )


def _check_tokens(path: Path) -> None:
    try:
        tokens = read_tokens([path])
    except Unverified as error:
        raise CannotStart(str(error)) from error
    if not tokens:
        raise CannotStart(
            f"token file {path}: no line has {SHORTEST_TOKEN} or more characters;"
            " make a token with `openssl rand -hex 32`"
        )


def read_database_url(settings: InsightFlags) -> str:
    """Return the URL of the database. Raises CannotStart, without the content of the file."""
    if settings.url_file is None:
        return settings.database_url
    from insight.store.database import database_url

    try:
        text = settings.url_file.read_text().strip()
        database_url(text)
    except OSError as error:
        raise CannotStart(f"--database-url-file {settings.url_file}: {error.strerror}") from error
    except ValueError as error:
        raise CannotStart(f"--database-url-file {settings.url_file}: {error}") from None
    return text


async def _insight(settings: InsightFlags, url: str) -> None:
    from insight.server.app import InsightEndpoints
    from insight.server.metrics import InsightMetrics
    from insight.server.reader import StoreReader
    from insight.server.retention import RetentionPart
    from insight.store.database import database_url, migrate, open_database
    from insight.store.event_store import EventStore

    logs.setup(settings.log_level, settings.log_json)
    clock, registry = SystemClock(), CollectorRegistry()
    engine = open_database(database_url(url))
    migrate(engine)
    store = EventStore(engine, timedelta(days=settings.retention_days))
    metrics = InsightMetrics(registry)
    with (
        ThreadPoolExecutor(1, thread_name_prefix="writing") as writing,
        ThreadPoolExecutor(READERS, thread_name_prefix="reading") as reading,
    ):
        endpoints = InsightEndpoints(
            store,
            StoreReader(engine, reading),
            clock,
            metrics,
            senders=_tokens(settings.sender_token_file, clock),
            readers=_tokens(settings.reader_token_file, clock),
            writing=writing,
        )
        retention = RetentionPart(store, clock, metrics, writing)
        health = _health(settings, registry)
        health.add_check("store", retention.ready)
        web, certificates = _web(endpoints.app(), settings, clock)
        await run_until_signal([web, retention, *certificates], ground=[health])
    engine.dispose()


def _tokens(file: str | None, clock: SystemClock) -> TokenFiles | None:
    return TokenFiles([Path(file)], clock) if file is not None else None


def _health(settings: InsightFlags, registry: CollectorRegistry) -> HealthServer:
    where = settings.health_address, settings.health_port
    return HealthServer(*where, registry, limits=settings.http_limits)


def _web(app: Any, settings: InsightFlags, clock: SystemClock) -> tuple[Part, list[Part]]:
    """Return the server, and what renews its certificate. Raises CannotStart."""
    context, certificates = None, list[Part]()
    if settings.insight_cert_file is not None:
        context = LiveContext()
        keeper = FileKeeper(clock, context, settings.insight_files)
        keeper.start("--insight-cert-file")
        certificates.append(keeper)
    server = WebServer(
        app,
        address=settings.insight_address,
        port=settings.insight_port,
        flag="--insight-port",
        context=context,
        limits=settings.http_limits,
    )
    return server, certificates
