"""Chromium for browser tests, and where the pictures of pages are kept.

Pictures go to the folder $KUBENODE_ARTIFACTS, which CI keeps, else to the test's own folder.
"""

import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Literal

from axe_playwright_python.async_playwright import Axe  # type: ignore[import-untyped]
from playwright.async_api import Browser, BrowserContext, Page, async_playwright, expect

CHROMIUM = "/usr/bin/chromium"
PATIENCE = 20_000
"""Milliseconds until what is expected must be there: other tests may keep the machine busy."""
Theme = Literal["light", "dark"]
DESK, PHONE = (1440, 900), (390, 844)


@asynccontextmanager
async def chromium() -> AsyncIterator[Browser]:
    """One browser: it needs half a gigabyte."""
    expect.set_options(timeout=PATIENCE)
    sandbox = ["--no-sandbox"] if os.geteuid() == 0 else []
    async with async_playwright() as playwright:
        browser = await playwright.chromium.launch(executable_path=CHROMIUM, args=sandbox)
        try:
            yield browser
        finally:
            await browser.close()


@asynccontextmanager
async def visiting(
    browser: Browser,
    theme: Theme = "light",
    size: tuple[int, int] = DESK,
    *,
    scripts: bool = True,
    calm: bool = True,
) -> AsyncIterator[BrowserContext]:
    """A visitor with cookies of their own. `calm`: they have asked for less motion."""
    context = await browser.new_context(
        color_scheme=theme,
        viewport={"width": size[0], "height": size[1]},
        java_script_enabled=scripts,
        reduced_motion="reduce" if calm else "no-preference",
    )
    try:
        yield context
    finally:
        await context.close()


def artifacts(own: Path) -> Path:
    """Where pictures of pages go."""
    folder = Path(os.environ.get("KUBENODE_ARTIFACTS", own)) / "dashboard"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


async def picture(page: Page, folder: Path, name: str) -> None:
    await page.screenshot(path=folder / f"{name}.png", full_page=True)


async def faults_of(page: Page) -> list[str]:
    """What axe finds wrong with the page for those who see, hear or move differently."""
    found = await Axe().run(page)
    return [
        f"{each['id']}: {each['help']}: {[node['html'][:120] for node in each['nodes']][:3]}"
        for each in found.response["violations"]
    ]
