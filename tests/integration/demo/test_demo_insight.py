"""Insight of the demo, without the rest of the demo."""

import asyncio
from datetime import timedelta
from pathlib import Path

import aiohttp
import pytest
from support.running import running

from kubenode.runtime.clock import SystemClock
from simulation.demo.fleet import places
from simulation.demo.history import PER_DAY, past_events
from simulation.demo.insight import DemoInsight

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]


async def test_it_shows_the_past_and_the_stream(tmp_path: Path) -> None:
    clock = SystemClock()
    now = clock.now()
    stream = list(past_events(places(12), 1, now, timedelta(days=1)))
    insight = DemoInsight(
        tmp_path, clock, lambda: past_events(places(12), 2, now, timedelta(days=2))
    )
    async with running(insight.run()), aiohttp.ClientSession() as session:
        await insight.send(stream)
        while await count_faults(session, insight.url) < 3 * PER_DAY:  # noqa: ASYNC110  it polls
            await asyncio.sleep(0.1)
        async with session.get(f"{insight.url}/") as page:
            assert f"<h1>{3 * PER_DAY} faults on" in await page.text()


async def count_faults(session: aiohttp.ClientSession, url: str) -> int:
    async with session.get(f"{url}/v1/faults?by=cluster&every=week") as response:
        return sum(row["faults"] for row in (await response.json())["rows"])
