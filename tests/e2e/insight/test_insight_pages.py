"""Every page of Insight in a browser: in both themes, on a desk and a phone, by keyboard."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import DESK, PHONE, Theme, faults_of, picture, visiting
from support.insight_checks import expected_incidents
from support.insight_site import READER

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

INCIDENT = expected_incidents(1)[0]
SHOWN = {
    "insight-overview": ("/", "faults on"),
    "insight-faults": ("/faults?by=kernel", "faults by kernel."),
    "insight-healing": ("/healing", "succeeded."),
    "insight-lemons": ("/lemons", "or more faults."),
    "insight-incidents": ("/incidents?days=1", "incidents."),
    "insight-incident": (f"/incidents/{INCIDENT.uid}", INCIDENT.job),
    "insight-refused": ("/faults?by=colour", "Not accepted"),
}


@asynccontextmanager
async def visit(
    site: str, browser: Browser, theme: Theme = "light", size: tuple[int, int] = DESK
) -> AsyncIterator[Page]:
    """A reader who has logged in on the way to the list of lemons."""
    async with visiting(browser, theme, size) as context:
        page = await context.new_page()
        await page.goto(f"{site}/lemons")
        await expect(page).to_have_url(re.compile(r"/login\?to=%2Flemons"))
        assert await faults_of(page) == []
        await page.get_by_label("Token of a reader").fill(READER)
        await page.keyboard.press("Tab")
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{site}/lemons")
        yield page


@pytest.mark.parametrize(
    ("theme", "size"), [("light", DESK), ("dark", DESK), ("light", PHONE), ("dark", PHONE)]
)
async def test_every_page_has_no_barriers(
    site: str, browser: Browser, pictures: Path, theme: Theme, size: tuple[int, int]
) -> None:
    async with visit(site, browser, theme, size) as page:
        trouble: list[str] = []
        page.on("console", lambda line: trouble.append(line.text) if line.type == "error" else None)
        for name, (path, title) in SHOWN.items():
            await page.goto(site + path)
            await expect(page.get_by_role("heading", level=1)).to_contain_text(title)
            if await page.locator(".plot summary").count():
                await page.locator(".plot summary").first.click()
            assert await faults_of(page) == [], name
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= size[0], f"{name} is wider than the screen"
            await picture(page, pictures, f"{name}-{theme}-{size[0]}")
        assert [text for text in trouble if "400" not in text] == []


async def test_keyboard_reaches_filters_tables_and_incidents(site: str, browser: Browser) -> None:
    async with visit(site, browser) as page:
        await page.goto(f"{site}/faults")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
        await page.keyboard.press("Enter")
        field = page.get_by_label("Fault class")
        await field.focus()
        await page.keyboard.type("gpu_lost")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("class=gpu_lost"))
        summary = page.locator(".plot summary").first
        await summary.focus()
        await page.keyboard.press("Enter")
        await expect(page.locator(".plot details[open] table")).to_be_visible()
        await page.goto(f"{site}/incidents?class=gpu_lost")
        await expect(page.get_by_label("Fault class")).to_have_value("gpu_lost")
        link = page.locator("tbody a").first
        await link.focus()
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("/incidents/uid-"))
        await expect(page.get_by_role("heading", level=2).first).to_have_text(
            "From the first signal to the end"
        )


async def test_pages_lead_from_a_lemon_to_its_incidents_and_to_files(
    site: str, browser: Browser
) -> None:
    async with visit(site, browser) as page:
        node = await page.locator("tbody a").first.inner_text()
        await page.locator("tbody a").first.click()
        await expect(page).to_have_url(re.compile(f"node={node}"))
        count = await page.locator("tbody tr").count()
        assert count > 0
        async with page.expect_download() as download:
            await page.get_by_role("link", name="incidents.csv").click()
        path = await (await download.value).path()
        assert len(path.read_text().splitlines()) == count + 1


async def test_log_out_ends_the_visit(site: str, browser: Browser) -> None:
    async with visit(site, browser) as page:
        await page.get_by_role("button", name="Log out").click()
        await page.wait_for_url(f"{site}/login")
        await page.goto(f"{site}/healing")
        await expect(page).to_have_url(re.compile("/login"))
