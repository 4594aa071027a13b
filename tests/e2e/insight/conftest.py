"""A browser for the session, and Insight over the events of support.insight_checks."""

from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from support.browser import artifacts, chromium
from support.clock import FakeClock
from support.components import require
from support.insight_checks import filled
from support.insight_history import disposing, opened_store
from support.insight_site import insight_app
from support.running import running, until

from kubenode.runtime.webserver import WebServer


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    require("chromium")
    async with chromium() as made:
        yield made


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def site(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[str]:
    """The address of Insight, which asks for a login."""
    folder = tmp_path_factory.mktemp("insight")
    clock = FakeClock()
    clock.step(timedelta(days=30))
    with (
        disposing(opened_store(f"sqlite:///{folder}/insight.db")) as engine,
        ThreadPoolExecutor(1) as threads,
    ):
        filled(engine)
        app = insight_app(engine, clock, threads, folder=folder)
        server = WebServer(app, address="127.0.0.1", port=0, flag="--insight-port")
        async with running(server.run()):
            await until(server.listening.is_set, 60, "Insight listens")
            yield f"http://127.0.0.1:{server.port}"


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return artifacts(tmp_path)
