"""Take the picture of Insight that docs/insight.md shows: `make picture`.

The history is the simulated past of the demo, so the picture is the same on every machine.
"""

import asyncio
import tempfile
from concurrent.futures import ThreadPoolExecutor
from datetime import timedelta
from pathlib import Path

from support.browser import chromium, visiting
from support.clock import T0, FakeClock
from support.insight_history import disposing, opened_store, received
from support.insight_site import insight_app
from support.running import running, until

from insight.store.event_store import EventStore
from kubenode.runtime.webserver import WebServer
from simulation.demo.fleet import places
from simulation.demo.history import past_events

PICTURE = Path(__file__).parents[2] / "docs/images/insight.png"
SIZE = (1200, 800)
ADDRESS = "/faults?days=30&by=kernel&class=kernel_deadlock"


async def take_picture(path: Path) -> None:
    """Write the page of faults by kernel to `path`."""
    past = list(past_events(places(300), 7, T0, timedelta(days=90)))
    with (
        tempfile.TemporaryDirectory() as folder,
        disposing(opened_store(f"sqlite:///{folder}/insight.db")) as engine,
        ThreadPoolExecutor(1) as threads,
    ):
        EventStore(engine, timedelta(days=400)).load(received(past), T0)
        app = insight_app(engine, FakeClock(), threads)
        server = WebServer(app, address="127.0.0.1", port=0, flag="--insight-port")
        async with (
            running(server.run()),
            chromium() as browser,
            visiting(browser, size=SIZE) as context,
        ):
            await until(server.listening.is_set, 60, "Insight listens")
            page = await context.new_page()
            await page.goto(f"http://127.0.0.1:{server.port}{ADDRESS}")
            path.parent.mkdir(parents=True, exist_ok=True)
            await page.screenshot(path=path)


if __name__ == "__main__":
    asyncio.run(take_picture(PICTURE))
