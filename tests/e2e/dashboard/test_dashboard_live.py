"""An open page stays true, and says so when it is not."""

import asyncio
import time
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import visiting
from support.dashboard_running import LINK, Running, api_server, dashboard_over
from support.dashboard_world import JOBS, POLICIES, a_job, fill, put, spoil

from kubenode.runtime.site.live import TICK

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]


async def enter(world: Running, page: Page, path: str = "/") -> None:
    await page.goto(world.way_in)
    await page.wait_for_url(f"{world.url}/")
    if path != "/":
        await page.goto(world.url + path)


async def test_what_happens_is_shown_without_loading_the_page_again(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.evaluate("window.same = true")
        began = time.monotonic()
        await spoil(world.kube, {"n00200": "NotReady"})
        tile = page.locator(".tile").filter(has_text="1c-r04")
        await expect(tile).to_contain_text("1 faulty")
        assert time.monotonic() - began < 10, "it takes half a second on an idle machine"
        await put(world.kube, JOBS, a_job("n00200", "AwaitingApproval"))
        await expect(page.get_by_text("n00200 waits for approval")).to_be_visible()
        await expect(page.locator(".headline")).to_contain_text("3 jobs wait for a person")
        await world.kube.delete(f"{JOBS}/n00200-0a1b2c3d4e")
        await expect(page.get_by_text("n00200 waits for approval")).to_have_count(0)
        assert await page.evaluate("window.same")


async def test_where_one_is_on_the_page_is_kept_when_parts_are_replaced(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        tile = page.locator(".tile").filter(has_text="1c-r04")
        await tile.focus()
        await spoil(world.kube, {"n00200": "NotReady"})
        await expect(tile).to_contain_text("1 faulty")
        await expect(tile).to_be_focused()


async def test_what_a_person_writes_is_not_taken_from_them(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page, "/jobs/n00062-0a1b2c3d4e")
        note = page.get_by_label("Note")
        await note.fill("half a sent")
        said = {"decision": "Approve", "by": "ada", "at": "2026-11-22T03:00:00Z"}
        await world.kube.patch(f"{JOBS}/n00062-0a1b2c3d4e", {"spec": {"approvals": [said]}})
        await expect(page.locator(".said")).to_contain_text("by ada")
        await expect(note).to_have_value("half a sent")


async def test_a_pause_of_somebody_else_appears_on_every_open_page(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page, other = await context.new_page(), await context.new_page()
        await enter(world, page)
        await enter(world, other, "/pauses")
        pause = {"scope": "Cluster", "by": "ada", "why": "the switch burns"}
        await world.kube.patch(f"{POLICIES}/default", {"spec": {"pauses": [pause]}})
        await page.bring_to_front()
        await expect(page.get_by_text("the switch burns")).to_be_visible()
        await other.bring_to_front()
        await expect(other.get_by_role("heading", level=1)).to_have_text("Paused: cluster.")


async def test_a_page_follows_on_after_the_server_was_started_again(
    browser: Browser, tmp_path: Path
) -> None:
    key = tmp_path / "key"
    key.write_bytes(b"k" * 48)
    async with api_server() as (api, kube):
        await fill(kube, 60)
        async with visiting(browser) as context:
            page = await context.new_page()
            async with dashboard_over(api, kube, key_file=key) as world:
                port = world.dashboard.server.port
                await enter(world, page)
                await expect(page.locator("#stale")).to_be_hidden()
            stale = page.locator("#stale")
            await expect(stale).to_contain_text("No news from Kube Defender since", timeout=20_000)
            await spoil(kube, {"n00030": "NotReady"})
            async with dashboard_over(api, kube, key_file=key, port=port) as world:
                assert world.dashboard.server.port == port
                await expect(stale).to_be_hidden(timeout=30_000)
                tile = page.locator(".tile").filter(has_text="1a-r01")
                await expect(tile).to_be_visible()
                # Not ready since before we began: whether it ever was we have not seen.
                await expect(tile).to_contain_text("1 starting", timeout=20_000)


async def test_one_who_is_logged_out_meanwhile_is_told_so(browser: Browser) -> None:
    async with api_server() as (api, kube):
        await fill(kube, 30)
        async with visiting(browser) as context:
            page = await context.new_page()
            async with dashboard_over(api, kube) as world:
                port = world.dashboard.server.port
                await enter(world, page, "/jobs")
            async with dashboard_over(api, kube, port=port, link=f"{LINK}-another"):
                link = page.get_by_role("link", name="Log in again")
                await expect(link).to_be_visible(timeout=30_000)
                assert (await link.get_attribute("href") or "").endswith("/login?to=%2Fjobs")


async def test_data_that_is_not_current_is_said_to_be_so(browser: Browser) -> None:
    async with api_server() as (api, kube):
        await fill(kube, 30)
        async with dashboard_over(api, kube) as world, visiting(browser) as context:
            page = await context.new_page()
            await enter(world, page)
            world.defender.nodes.fresh = lambda limit=60.0: False  # type: ignore[method-assign]
            said = "not confirmed these for a minute: nodes"
            banner = page.locator(".banner.bad").filter(has_text=said)
            await expect(banner).to_be_visible(timeout=15_000)
            await expect(page.get_by_text("answers no questions now")).to_be_visible()


async def test_a_storm_is_sent_at_most_twice_a_second(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.evaluate(
            "window.news = []; document.addEventListener('kubenode:news',"
            " () => window.news.push(performance.now()))"
        )
        began = time.monotonic()
        for first in range(100, 140, 4):  # each round shows something new
            await spoil(world.kube, {f"n{i:05d}": "NotReady" for i in range(first, first + 4)})
            await asyncio.sleep(0.2)
        await page.wait_for_function("window.news.length >= 2", timeout=30_000)
        times = await page.evaluate("window.news")
        assert len(times) <= (time.monotonic() - began) / TICK + 2
