"""Every page of Captain in a browser: in both themes, on a desk and a phone, live, by keyboard."""

import re
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import DESK, PHONE, Theme, faults_of, picture, visiting
from support.captain_fleet import make_condition
from support.captain_site import (
    MEMBERS,
    RELEASES,
    RunningCaptainSite,
    captain_site_over,
    fill_fleet,
)
from support.dashboard_running import api_server

from kubenode.api.v1alpha1 import Release

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session"), pytest.mark.timeout(400)]

RELEASE = "/releases/rules-7"
SHOWN = {
    "clusters": ("/", "25 member clusters."),
    "clusters-in-trouble": ("/?show=trouble", "member clusters"),
    "cluster": ("/clusters/test-001", "Cluster test-001: Connected"),
    "cluster-unreachable": ("/clusters/production-002", "Unreachable"),
    "releases": ("/releases", "1 release, 1 in progress, 1 waiting for a person."),
    "release": (RELEASE, "Release rules-7: AwaitingApproval in stage production"),
    "missing": ("/releases/none", "Not here"),
}


@asynccontextmanager
async def visit(
    world: RunningCaptainSite,
    browser: Browser,
    theme: Theme = "light",
    size: tuple[int, int] = DESK,
) -> AsyncIterator[Page]:
    """A page of a person with all rights."""
    async with visiting(browser, theme, size) as context:
        page = await context.new_page()
        await page.goto(world.way_in)
        await page.wait_for_url(f"{world.url}/")
        yield page


async def log_in(page: Page, world: RunningCaptainSite, name: str, path: str) -> None:
    """Log in with the token of a person on the way to `path`."""
    await page.goto(world.url + path)
    await page.get_by_label("Bearer token").fill(f"secret-of-{name}")
    await page.get_by_role("button", name="Log in").click()
    await page.wait_for_url(world.url + path)


async def read_release(world: RunningCaptainSite) -> Release:
    return await world.kube.get(f"{RELEASES}/rules-7", Release.from_server)


@pytest.mark.parametrize(
    ("theme", "size"), [("light", DESK), ("dark", DESK), ("light", PHONE), ("dark", PHONE)]
)
async def test_every_page_has_no_barriers(
    world: RunningCaptainSite,
    browser: Browser,
    pictures: Path,
    theme: Theme,
    size: tuple[int, int],
) -> None:
    async with visit(world, browser, theme, size) as page:
        problems: list[str] = []
        page.on("pageerror", lambda error: problems.append(str(error)))
        page.on(
            "console", lambda line: problems.append(line.text) if line.type == "error" else None
        )
        for name, (path, title) in SHOWN.items():
            await page.goto(world.url + path)
            await expect(page.get_by_role("heading", level=1)).to_contain_text(title)
            for details in await page.locator("details").all():
                await details.evaluate("each => each.open = true")
            assert await faults_of(page) == [], name
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= size[0], f"{name} is wider than the screen"
            await picture(page, pictures, f"captain-{name}-{theme}-{size[0]}")
        assert [text for text in problems if "404" not in text] == []


async def test_login_page_has_no_barriers_and_logout_ends_the_visit(
    world: RunningCaptainSite, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await page.goto(f"{world.url}{RELEASE}")
        await expect(page).to_have_url(re.compile(r"/login\?to=%2Freleases%2Frules-7"))
        assert await faults_of(page) == []
        await log_in(page, world, "rita", RELEASE)
        await page.get_by_role("button", name="Log out").click()
        await page.wait_for_url(f"{world.url}/login")
        await page.goto(f"{world.url}{RELEASE}")
        await expect(page).to_have_url(re.compile("/login"))


async def test_open_pages_show_changes_without_a_reload(
    world: RunningCaptainSite, browser: Browser
) -> None:
    async with visit(world, browser) as page:
        await page.evaluate("window.same = true")
        row = page.locator('tr[data-key="test-001"]')
        await expect(row).to_contain_text("Connected")
        conditions = [make_condition("Reachable", "False", "Timeout", "no answer in 10 s")]
        status = {"phase": "Unreachable", "conditions": conditions}
        await world.kube.patch(f"{MEMBERS}/test-001/status", {"status": status})
        await expect(row).to_contain_text("Unreachable")
        await expect(row).to_contain_text("no answer in 10 s")
        assert await page.evaluate("window.same")
        await page.goto(f"{world.url}{RELEASE}")
        await page.evaluate("window.same = true")
        details = page.locator("#act-abort")
        await details.locator("summary").click()
        paused = {"phase": "Paused", "reason": "ClustersFailed", "message": "2 of 1 failed"}
        await world.kube.patch(f"{RELEASES}/rules-7/status", {"status": paused})
        await expect(page.get_by_role("heading", level=1)).to_contain_text("rules-7: Paused")
        await expect(page.get_by_text("2 of 1 failed")).to_be_visible()
        await expect(details).to_have_attribute("open", "")
        assert await page.evaluate("window.same")


async def test_keyboard_alone_filters_clusters_and_pauses_a_release(
    world: RunningCaptainSite, browser: Browser
) -> None:
    async with visit(world, browser) as page:
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("link", name="Skip to the page")).to_be_focused()
        await page.get_by_label("Text", exact=True).focus()
        await page.keyboard.type("staging")
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(re.compile("q=staging"))
        await expect(page.locator("tbody tr")).to_have_count(4)
        await page.locator("tbody a", has_text="rules-7").first.focus()
        await page.keyboard.press("Enter")
        await page.wait_for_url(f"{world.url}{RELEASE}")
        await page.locator("#act-pause summary").focus()
        await page.keyboard.press("Enter")
        await page.keyboard.press("Tab")
        await expect(page.get_by_role("button", name="Confirm: Pause")).to_be_focused()
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status")).to_have_text(
            "Release rules-7 is paused. Captain writes nothing more until a person resumes it."
        )
        assert (await read_release(world)).spec.state == "Pause"


async def test_buttons_are_those_that_the_rights_of_the_person_allow(
    world: RunningCaptainSite, browser: Browser
) -> None:
    for name, visible, note in (
        ("rita", [], "You may look at the release, but not change it"),
        ("max", ["Pause", "Rollback", "Abort"], "You may not approve stages"),
        ("ann", ["Approve stage production", "Pause", "Rollback", "Abort"], ""),
    ):
        async with visiting(browser) as context:
            page = await context.new_page()
            await log_in(page, world, name, RELEASE)
            shown = page.locator("details.confirm summary:visible")
            await expect(shown).to_have_text(visible)
            await expect(page.locator("p.note")).to_have_count(1 if note else 0)
            if note:
                await expect(page.locator("p.note")).to_contain_text(note)
            if name != "ann":
                continue
            await shown.first.click()
            await page.get_by_role("button", name="Confirm: Approve stage production").click()
            await expect(page.get_by_role("status")).to_have_text(
                "Stage production of release rules-7 is approved."
            )
            approvals = page.locator('tr[data-key="production"]', has_text="ann")
            await expect(approvals).to_be_visible()
    [entry] = (await read_release(world)).spec.approvals
    assert (entry.stage, entry.by) == ("production", "ann")


async def test_300_clusters_load_fast_and_change_by_parts(
    browser: Browser, capsys: pytest.CaptureFixture[str]
) -> None:
    figures: dict[str, float] = {}
    async with api_server() as (api, kube):
        await fill_fleet(kube, 300)
        async with captain_site_over(api, kube) as world, visit(world, browser) as page:
            for name, path in (("clusters", "/"), ("release", RELEASE)):
                began = time.monotonic()
                await page.goto(world.url + path)
                figures[f"{name} loaded, s"] = time.monotonic() - began
                size = "performance.getEntriesByType('navigation')[0].decodedBodySize"
                figures[f"{name}, bytes"] = await page.evaluate(size)
                assert figures[f"{name}, bytes"] < 400_000
            began = time.monotonic()
            paused = {"phase": "Paused", "reason": "User", "message": "a person paused it"}
            await kube.patch(f"{RELEASES}/rules-7/status", {"status": paused})
            await expect(page.get_by_role("heading", level=1)).to_contain_text("Paused")
            figures["a change until it is shown, s"] = time.monotonic() - began
    with capsys.disabled():
        for name, figure in figures.items():
            print(f"  {name}: {figure:.3g}")  # noqa: T201  figures for whoever runs it
