"""Plots, the page of a rollout, filters and keys in a browser."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import DESK, PHONE, Theme, faults_of, picture, visiting
from support.dashboard_running import Running
from support.dashboard_world import OLD_REVISION, ROLLOUTS, put, stamp

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

LOOKS = [("light", DESK), ("dark", DESK), ("light", PHONE), ("dark", PHONE)]


@asynccontextmanager
async def visit(
    world: Running, browser: Browser, theme: Theme = "light", size: tuple[int, int] = DESK
) -> AsyncIterator[Page]:
    """A person who came in by the link that the program printed."""
    async with visiting(browser, theme, size) as context:
        page = await context.new_page()
        await page.goto(world.way_in)
        await page.wait_for_url(f"{world.url}/")
        yield page


@pytest.mark.parametrize(("theme", "size"), LOOKS)
async def test_plots_and_their_tables_have_no_barriers(
    world: Running, browser: Browser, pictures: Path, theme: Theme, size: tuple[int, int]
) -> None:
    async with visit(world, browser, theme, size) as page:
        titles = page.locator(".plot h3")
        await expect(titles).to_have_text(
            ["Faults begun", "Heals", "Time to heal", "Budget use", "Breakers"]
        )
        for summary in await page.locator(".plot summary").all():
            await summary.click()
        await expect(page.locator(".plot details[open] table").first).to_be_visible()
        assert await faults_of(page) == []
        assert await page.evaluate("document.documentElement.scrollWidth") <= size[0]
        await picture(page, pictures, f"plots-{theme}-{size[0]}")


async def test_budget_use_before_the_start_is_not_known(world: Running, browser: Browser) -> None:
    async with visit(world, browser) as page:
        plot = page.locator(".plot").filter(has_text="Budget use")
        await expect(plot).to_contain_text("this process knows it since")
        await plot.locator("summary").click()
        first = plot.locator("tbody tr").first
        await expect(first).to_contain_text("not known")
        await expect(first).not_to_contain_text("0%")


async def test_an_open_table_stays_open_and_the_length_is_in_the_address(
    world: Running, browser: Browser
) -> None:
    async with visit(world, browser) as page:
        await page.get_by_role("link", name="24 h").click()
        await expect(page).to_have_url(re.compile(r"hours=24"))
        await expect(page.get_by_role("heading", name="The last 24 hours")).to_be_visible()
        table = page.locator("#figures-faults")
        await table.locator("summary").click()
        body = {
            "kind": "RemedyOperationJob", "apiVersion": "kubenode.io/v1alpha1",
            "metadata": {"name": "late"},
            "spec": {"nodeName": "n00001", "mode": "Enforce", "agent": "n00001", "nodeUID": "",
                     "remedier": {"name": "r", "uid": "u", "generation": 1},
                     "trigger": {"firstTrue": stamp(60), "facts": [], "explanation": "x"},
                     "severity": "Warning", "faultClass": "late", "ladder": [
                         {"name": "a", "steps": [{"cordon": {}}]}]},
            "status": {"phase": "Running", "timeline": {"faultSeen": stamp(60)}},
        }  # fmt: skip
        before = await page.locator("#figures-faults").inner_text()
        await put(world.kube, "/apis/kubenode.io/v1alpha1/remedyoperationjobs", body)
        await expect(table).not_to_have_text(before)
        await expect(table).to_have_attribute("open", "")


@pytest.mark.parametrize(("theme", "size"), LOOKS)
async def test_a_rollout_is_paused_and_undone_after_a_confirmation(
    world: Running, browser: Browser, pictures: Path, theme: Theme, size: tuple[int, int]
) -> None:
    async with visit(world, browser, theme, size) as page:
        await page.goto(f"{world.url}/rollouts")
        await page.get_by_role("link", name="containerd", exact=True).click()
        await expect(page.locator(".batch")).to_have_count(4)
        confirm = page.get_by_role("button", name="Confirm: pause")
        await expect(confirm).to_be_hidden()
        await page.locator("#act-pause summary").click()
        await page.locator("#act-undo summary").click()
        assert await faults_of(page) == []
        await picture(page, pictures, f"rollout-actions-{theme}-{size[0]}")
        await confirm.click()
        await expect(page.get_by_role("status")).to_contain_text("Paused containerd")
        await expect(page.locator("#act-pause")).to_have_count(0)
        await page.locator("#act-undo summary").click()
        await page.get_by_role("button", name="Confirm: undo").click()
        await expect(page.get_by_role("status")).to_contain_text(f"revision {OLD_REVISION}")
        spec = (await world.kube.get(f"{ROLLOUTS}/containerd"))["spec"]
        assert (spec["paused"], spec["component"]) == (True, "containerd-2.1.3")


async def test_filters_of_jobs_and_rules_are_in_the_address(
    world: Running, browser: Browser
) -> None:
    async with visit(world, browser) as page:
        await page.goto(f"{world.url}/jobs")
        await page.get_by_label("Text").fill("PodDisruptionBudget")
        await page.get_by_role("button", name="Narrow down").click()
        await expect(page).to_have_url(re.compile(r"q=PodDisruptionBudget"))
        await expect(page.get_by_role("heading", level=1)).to_have_text("1 job open.")
        await page.reload()
        await expect(page.get_by_label("Text")).to_have_value("PodDisruptionBudget")
        await page.goto(f"{world.url}/rules?show=all&mode=DryRun")
        await expect(page.get_by_label("Mode")).to_have_value("DryRun")
        await page.get_by_role("link", name="ntp-problem").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("NTP problem")


async def test_keys_focus_the_filter_move_and_show_help(world: Running, browser: Browser) -> None:
    async with visit(world, browser) as page:
        await page.goto(f"{world.url}/jobs")
        await page.keyboard.press("/")
        await expect(page.get_by_label("Text")).to_be_focused()
        await page.keyboard.type("j?")
        await expect(page.get_by_label("Text")).to_have_value("j?")
        await page.get_by_label("Text").evaluate("e => e.blur()")
        rows = page.locator("tbody tr")
        for key, index in (("j", 0), ("j", 1), ("k", 0), ("k", 0)):
            await page.keyboard.press(key)
            await expect(rows.nth(index).locator("a").first).to_be_focused()
        await page.keyboard.press("?")
        dialog = page.get_by_role("dialog", name="Keys")
        await expect(dialog).to_be_visible()
        assert await faults_of(page) == []
        await page.keyboard.press("Escape")
        await expect(dialog).to_be_hidden()
        await page.get_by_role("button", name="Keys").click()
        await expect(dialog).to_be_visible()
        await dialog.get_by_role("button", name="Close").click()
        await page.goto(f"{world.url}/budgets")
        await page.keyboard.press("/")
        await expect(page.get_by_role("searchbox")).to_be_focused()


async def test_a_node_shows_its_events(world: Running, browser: Browser) -> None:
    await world.kube.create(
        "/api/v1/namespaces/default/events",
        {
            "apiVersion": "v1", "kind": "Event",
            "metadata": {"name": "n00004.1", "namespace": "default"},
            "involvedObject": {"kind": "Node", "name": "n00004", "apiVersion": "v1"},
            "type": "Warning", "reason": "SystemOOM", "message": "victim process: java",
            "count": 3, "lastTimestamp": stamp(30), "source": {"component": "kubelet"},
        },
    )  # fmt: skip
    async with visit(world, browser) as page:
        await page.goto(f"{world.url}/nodes/n00004")
        row = page.get_by_role("row").filter(has_text="SystemOOM")
        await expect(row).to_contain_text("victim process: java 3 times")
        await page.goto(f"{world.url}/nodes/n00005")
        await expect(page.get_by_text("has no Event of this node")).to_be_visible()
