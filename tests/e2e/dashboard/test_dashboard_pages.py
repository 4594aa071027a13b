"""Every page of the dashboard in a browser: what it shows, in every way that it is used."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import DESK, PHONE, Theme, faults_of, picture, visiting
from support.dashboard_running import Running

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

JOB = "/jobs/n00062-0a1b2c3d4e"
SHOWN = {
    "fleet": ("/", "9 of 240 nodes have a fault"),
    "zone": ("/zone?zone=eu-1b", "Zone eu-1b"),
    "rack": ("/rack?zone=eu-1b&rack=1b-r01", "Rack 1b-r01"),
    "search": ("/nodes?q=n0001", "10 nodes have “n0001” in the name."),
    "node": ("/nodes/n00004", "n00004"),
    "node with an excerpt": ("/nodes/n00050", "n00050"),
    "budgets": ("/budgets", "Budgets"),
    "breakers": ("/breakers", "All breakers are closed."),
    "jobs": ("/jobs", "7 jobs open."),
    "job": (JOB, "The repair of n00062 waits for a person to approve or deny it."),
    "held job": ("/jobs/n00033-0a1b2c3d4e", "The repair of n00033 is held."),
    "rules": ("/rules", "4 rules, 2 of them match now, 1 in trouble."),
    "rule": ("/rules/kernel-deadlock", "Kernel deadlock"),
    "would have": ("/would-have", "1 rule is in DryRun, and would have begun no repair."),
    "rollouts": ("/rollouts", "3 component sets, 1 at work, 1 stopped."),
    "rollout": ("/rollouts/containerd", "Rollout of containerd: Paused"),
    "machine sets": ("/machine-sets", "2 machine sets, 1 not at the desired state."),
    "machine set": ("/machine-sets/workers", "Machine set workers: 1 of 3 machines available"),
    "pauses": ("/pauses", "Nothing is paused."),
}


async def enter(world: Running, page: Page) -> None:
    """By the link that a program prints."""
    await page.goto(world.way_in)
    if await page.get_by_role("button", name="Open the dashboard").count():
        await page.wait_for_url(f"{world.url}/")


def listens_for_trouble(page: Page) -> Callable[[], list[str]]:
    """What the page's scripts and its security policy complain about."""
    found: list[str] = []
    page.on("pageerror", lambda error: found.append(str(error)))
    page.on("console", lambda said: found.append(said.text) if said.type == "error" else None)
    return lambda: found


@pytest.mark.parametrize(
    ("theme", "size", "label"),
    [("light", DESK, "light"), ("dark", DESK, "dark"), ("light", PHONE, "phone"),
     ("dark", PHONE, "phone-dark")],
)  # fmt: skip
async def test_every_page_is_shown_without_barriers(
    world: Running,
    browser: Browser,
    pictures: Path,
    theme: Theme,
    size: tuple[int, int],
    label: str,
) -> None:
    async with visiting(browser, theme, size) as context:
        page = await context.new_page()
        trouble = listens_for_trouble(page)
        await enter(world, page)
        for name, (path, title) in SHOWN.items():
            await page.goto(world.url + path)
            await expect(page.get_by_role("heading", level=1)).to_contain_text(title)
            await picture(page, pictures, f"{name.replace(' ', '-')}-{label}")
            assert await faults_of(page) == [], name
            width = await page.evaluate("document.documentElement.scrollWidth")
            assert width <= size[0], f"{name} is wider than the screen"
        assert trouble() == []


async def test_the_login_page_has_no_barriers(
    world: Running, browser: Browser, pictures: Path
) -> None:
    for theme in ("light", "dark"):
        async with visiting(browser, theme) as context:
            page = await context.new_page()
            await page.goto(world.url)
            await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
            assert await faults_of(page) == []
            await picture(page, pictures, f"login-{theme}")


async def test_without_scripts_every_page_can_be_read_and_its_forms_work(
    world: Running, browser: Browser, pictures: Path
) -> None:
    async with visiting(browser, scripts=False) as context:
        page = await context.new_page()
        await page.goto(world.way_in)
        await page.get_by_role("button", name="Open the dashboard").click()
        for path, title in SHOWN.values():
            await page.goto(world.url + path)
            await expect(page.get_by_role("heading", level=1)).to_contain_text(title)
        await page.goto(f"{world.url}/")
        await expect(page.get_by_text("n00062 waits for approval")).to_be_visible()
        await expect(page.get_by_role("link", name=re.compile("1b-r01"))).to_be_visible()
        await picture(page, pictures, "fleet-no-script")
        await page.goto(f"{world.url}/pauses")
        await page.get_by_label("Scope").fill("zone=eu-1a")
        await page.get_by_label("Why").fill("switch work")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("is paused now")


async def test_the_fleet_leads_to_what_stands_still(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.get_by_role("link", name=re.compile("1b-r01")).click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Rack 1b-r01")
        row = page.get_by_role("row").filter(has_text="n00004")
        await expect(row).to_contain_text("Held")
        await row.get_by_role("link", name="n00004").click()
        await expect(page.get_by_role("heading", name="Held: ConcurrencyLimit")).to_be_visible()
        await expect(page.get_by_text("next request due in")).to_be_visible()
        await page.get_by_role("link", name="n00004-0a1b2c3d4e", exact=True).click()
        await expect(page.get_by_role("heading", level=1)).to_contain_text("n00004 is held")
        await page.get_by_role("link", name="Fleet").first.click()
        await page.get_by_role("link", name="Approve or deny").click()
        await expect(page).to_have_url(world.url + JOB)


async def test_a_node_is_found_by_its_name(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        for typed, url in (
            ("n00100", "/nodes/n00100"),
            ("00239", "/nodes/n00239"),
            ("n0023", "/nodes?q=n0023"),
            ("nobody", "/nodes?q=nobody"),
        ):
            await page.get_by_role("searchbox").fill(typed)
            await page.keyboard.press("Enter")
            await expect(page).to_have_url(world.url + url)
        title = page.get_by_role("heading", level=1)
        await expect(title).to_have_text("No node has “nobody” in the name.")


async def test_a_cordon_says_who_made_it(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.goto(f"{world.url}/nodes/n00010")
        facts = page.locator("dl.facts")
        await expect(facts).to_contain_text("Cordoned byn00010-0a1b2c3d4e")
        await page.goto(f"{world.url}/nodes/n00100")
        await expect(facts).to_contain_text("Cordoned bysomebody else")


async def test_jobs_are_narrowed_down_by_their_form(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.goto(f"{world.url}/jobs")
        await page.get_by_label("Reason").select_option("PDBBlocked")
        await page.get_by_role("button", name="Narrow down").click()
        await expect(page.get_by_role("heading", level=1)).to_have_text("1 job open.")
        await page.get_by_label("Reason").select_option("any")
        await page.get_by_label("Show").select_option("Closed")
        await page.get_by_role("button", name="Narrow down").click()
        await expect(page.get_by_role("row").filter(has_text="n00050")).to_contain_text("Succeeded")


async def test_a_page_that_is_not_there_says_so(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        for path in ("/nodes/nobody", "/jobs/nothing", "/nowhere", "/rack?zone=x&rack=y"):
            answer = await page.goto(world.url + path)
            assert answer is not None and answer.status == 404
            await expect(page.get_by_role("heading", level=1)).to_have_text("Not here")


async def test_the_keyboard_alone_is_enough(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.keyboard.press("Tab")
        await expect(page.locator(":focus")).to_have_text("Skip to the page")
        await page.keyboard.press("Enter")
        await expect(page.locator("main")).to_be_focused()
        await page.keyboard.press("Tab")
        focused = page.locator(":focus")
        await expect(focused).to_have_text("Approve or deny")
        outline = await focused.evaluate("e => getComputedStyle(e).outlineStyle")
        assert outline != "none", "one sees where one is"
        await page.keyboard.press("Enter")
        await expect(page).to_have_url(world.url + JOB)
        note = page.get_by_label("Note")
        for _ in range(30):
            await page.keyboard.press("Tab")
            if await note.evaluate("e => e === document.activeElement"):
                break
        await page.keyboard.type("seen, by hand tomorrow")
        await page.keyboard.press("Tab")
        await page.keyboard.press("Tab")
        await expect(page.locator(":focus")).to_have_text("Deny")
        await page.keyboard.press("Enter")
        await expect(page.get_by_role("status")).to_contain_text("Denied n00062")


async def test_every_link_and_button_can_be_reached_by_tab(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        for path in ("/pauses", JOB, "/rules"):
            await page.goto(world.url + path)
            wanted = await page.locator(
                "a[href]:visible, button:visible, input:visible, select:visible, textarea:visible"
            ).count()
            reached = set()
            for _ in range(wanted + 10):
                await page.keyboard.press("Tab")
                reached.add(
                    await page.evaluate(
                        "[...document.querySelectorAll('*')].indexOf(document.activeElement)"
                    )
                )
            # The skip link is outside of the picture until it has the focus.
            assert len(reached) >= wanted, path


async def test_less_motion_is_none_at_all(world: Running, browser: Browser) -> None:
    async with visiting(browser, calm=True) as context:
        page = await context.new_page()
        await enter(world, page)
        moving = await page.evaluate(
            "[...document.querySelectorAll('*')].filter(e => {"
            " const s = getComputedStyle(e);"
            " return s.animationName !== 'none' || parseFloat(s.transitionDuration) > 0"
            "}).length"
        )
        assert moving == 0


async def test_states_are_told_apart_without_colour(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        drawn = page.locator(".legend path")
        shapes = await drawn.evaluate_all("all => all.map(e => e.getAttribute('d'))")
        words = await page.locator(".legend li").all_inner_texts()
        assert len(set(shapes)) == len(shapes) == len(set(words)) == 9
        tiles = page.locator(".tile.troubled")
        for text in await tiles.all_inner_texts():
            assert re.search(r"\d+ (held|repairing|faulty|cordoned|for a person)", text)


async def test_times_are_said_as_how_long_ago(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.goto(f"{world.url}/nodes/n00004")
        since = page.locator("time[data-ago]").first
        await expect(since).to_have_text(re.compile(r"ago$|^in "))
        assert re.fullmatch(r"[\d-]+ [\d:]+ UTC", await since.get_attribute("title") or "")
