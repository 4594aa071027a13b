"""A browser for the session, and a dashboard over a fleet with something of everything."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from support.browser import artifacts, chromium
from support.components import require
from support.dashboard_running import Running, api_server, dashboard_over
from support.dashboard_world import fill, spoil
from support.running import until


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    require("chromium")
    async with chromium() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def world() -> AsyncIterator[Running]:
    """A fleet of 240 nodes with faults, and a running Kube Defender with its dashboard."""
    async with api_server() as (api, kube):
        await fill(kube)
        async with dashboard_over(api, kube) as running:
            await spoil(kube)
            fleet = running.dashboard.board

            def seen() -> bool:
                return dict(fleet.scene().fleet.counts()).get("Faulty") == 2

            await until(seen, 20, "the faults are seen")
            yield running


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return artifacts(tmp_path)
