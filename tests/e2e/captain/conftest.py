"""A browser for the session, and Captain's pages over a fleet of 25 clusters."""

from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio
from playwright.async_api import Browser
from support.browser import artifacts, chromium
from support.captain_site import RunningCaptainSite, captain_site_over, fill_fleet
from support.components import require
from support.dashboard_running import api_server


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def browser() -> AsyncIterator[Browser]:
    require("chromium")
    async with chromium() as made:
        yield made


@pytest_asyncio.fixture(loop_scope="session")
async def world() -> AsyncIterator[RunningCaptainSite]:
    async with api_server() as (api, kube):
        await fill_fleet(kube, 25)
        async with captain_site_over(api, kube) as running:
            yield running


@pytest.fixture
def pictures(tmp_path: Path) -> Path:
    return artifacts(tmp_path)
