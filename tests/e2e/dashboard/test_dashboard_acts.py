"""What people press: pause and resume, approve and deny, log in and out; and what does not work."""

from typing import Any

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import visiting
from support.dashboard_running import (
    DECIDES,
    PAUSES,
    READS,
    KnownPeople,
    Running,
    api_server,
    dashboard_over,
)
from support.dashboard_world import JOBS, POLICIES, a_job, fill, put

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

JOB = "n00062-0a1b2c3d4e"


async def enter(world: Running, page: Page) -> None:
    await page.goto(world.way_in)
    await page.wait_for_url(f"{world.url}/")


async def pauses_of(world: Running) -> list[dict[str, Any]]:
    policy = await world.kube.get(f"{POLICIES}/default")
    return list(policy["spec"].get("pauses") or [])


async def approvals_of(world: Running, job: str) -> list[dict[str, Any]]:
    return list((await world.kube.get(f"{JOBS}/{job}"))["spec"].get("approvals") or [])


async def test_a_pause_is_written_holds_and_is_resumed(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.goto(f"{world.url}/pauses")
        await page.get_by_label("Scope").fill("node=n00004")
        await page.get_by_label("For", exact=True).select_option("4 hours")
        await page.get_by_label("Why").fill("I look at it")
        await page.get_by_label("Revoke permits").check()
        await page.get_by_role("button", name="Pause", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("node=n00004 is paused now")
        (pause,) = await pauses_of(world)
        assert (pause["scope"], pause["value"], pause["by"]) == ("Node", "n00004", "demo")
        assert (pause["why"], pause["now"], "until" in pause) == ("I look at it", True, True)
        row = page.get_by_role("listitem").filter(has_text="node=n00004")
        await expect(row).to_contain_text("I look at it")
        await expect(page.get_by_role("heading", level=1)).to_have_text("Paused: node=n00004.")

        await page.goto(f"{world.url}/nodes/n00004")
        answer = page.get_by_role("row").filter(has_text="Pods").first
        await expect(answer).to_contain_text("Paused")

        await page.goto(f"{world.url}/")
        await page.get_by_role("link", name="Resume").click()
        await page.get_by_role("button", name="Resume node=n00004").click()
        await expect(page.get_by_role("status")).to_contain_text("node=n00004 is resumed")
        assert await pauses_of(world) == []
        past = page.get_by_role("row").filter(has_text="resume node=n00004")
        await expect(past).to_contain_text("demo")


async def test_a_pause_that_cannot_be_meant_is_not_written(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        for scope, said in (
            ("b", "is no scope"),
            ("zone=", "is no scope"),
            ("zone=zone-x", "there are: eu-1a, eu-1b, eu-1c"),
            ("node=n9", "node n9 is not in the cluster"),
        ):
            await page.goto(f"{world.url}/pauses")
            await page.get_by_label("Scope").fill(scope)
            await page.get_by_label("Why").fill("x")
            await page.get_by_role("button", name="Pause", exact=True).click()
            await expect(page.get_by_role("status")).to_contain_text(said)
        scopes = page.locator("#scopes option")
        await expect(scopes.first).to_have_attribute("value", "cluster")
        assert "pool=workers" in [await each.get_attribute("value") for each in await scopes.all()]
        await page.goto(f"{world.url}/pauses")
        await page.get_by_label("Why").fill("x")
        await page.get_by_label("For", exact=True).select_option("until the instant")
        await page.get_by_label("Instant, UTC").fill("2020-01-01T00:00")
        await page.get_by_role("button", name="Pause", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("is over")
        assert await pauses_of(world) == []
        await page.goto(f"{world.url}/pauses")
        await page.get_by_label("Scope").fill("zone=zone-x")
        await page.get_by_label("Why").fill("to come")
        await page.get_by_label("Confirm a pause without nodes").check()
        await page.get_by_role("button", name="Pause", exact=True).click()
        await expect(page.get_by_role("status")).to_contain_text("is paused now")


async def test_one_who_resumes_what_somebody_else_has_resumed_is_told(
    world: Running, browser: Browser
) -> None:
    pause = {"scope": "Cluster", "by": "ada", "why": "work"}
    await world.kube.patch(f"{POLICIES}/default", {"spec": {"pauses": [pause]}})
    async with visiting(browser, scripts=False) as context:
        page = await context.new_page()
        await page.goto(world.way_in)
        await page.get_by_role("button", name="Open the dashboard").click()
        await page.goto(f"{world.url}/pauses")
        await world.kube.patch(f"{POLICIES}/default", {"spec": {"pauses": []}})
        await page.get_by_role("button", name="Resume cluster").click()
        await expect(page.get_by_role("status")).to_contain_text("was not paused any more")


@pytest.mark.parametrize(("button", "decision"), [("Approve", "Approve"), ("Deny", "Deny")])
async def test_a_decision_is_written_with_who_and_why(
    world: Running, browser: Browser, button: str, decision: str
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.goto(f"{world.url}/jobs/{JOB}")
        await page.get_by_label("Note").fill("asked the owner")
        await page.get_by_role("button", name=button).click()
        await expect(page.get_by_role("status")).to_contain_text(JOB)
        (made,) = await approvals_of(world, JOB)
        assert (made["decision"], made["by"], made["note"]) == (decision, "demo", "asked the owner")
        assert made["at"]
        await expect(page.locator(".said")).to_contain_text("by demo")


async def test_one_who_decides_after_somebody_else_is_told_and_nothing_is_written(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser, scripts=False) as context:
        page = await context.new_page()
        await page.goto(world.way_in)
        await page.get_by_role("button", name="Open the dashboard").click()
        await page.goto(f"{world.url}/jobs/{JOB}")
        faster = {"decision": "Deny", "by": "ada", "at": "2026-11-22T03:00:00Z"}
        await world.kube.patch(f"{JOBS}/{JOB}", {"spec": {"approvals": [faster]}})
        await page.get_by_role("button", name="Approve").click()
        await expect(page.get_by_role("status")).to_contain_text("ada said deny meanwhile")
        assert len(await approvals_of(world, JOB)) == 1


async def test_a_job_that_went_on_meanwhile_is_not_decided_about(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser, scripts=False) as context:
        page = await context.new_page()
        await page.goto(world.way_in)
        await page.get_by_role("button", name="Open the dashboard").click()
        await page.goto(f"{world.url}/jobs/{JOB}")
        await world.kube.patch(f"{JOBS}/{JOB}/status", {"status": {"phase": "Cancelled"}})
        await page.get_by_role("button", name="Deny").click()
        await expect(page.get_by_role("status")).to_contain_text("it is Cancelled")
        assert await approvals_of(world, JOB) == []


async def test_a_form_without_its_token_changes_nothing(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        posts: list[tuple[str, dict[str, str]]] = [
            ("/pauses", {"scope": "cluster", "for": "1h", "why": "x"}),
            ("/pauses/resume", {"scope": "cluster"}),
            (f"/jobs/{JOB}/decide", {"decision": "Approve", "seen": "0"}),
            ("/logout", {}),
        ]
        for path, fields in posts:
            for token in ({}, {"form_token": "0" * 64}):
                answer = await context.request.post(world.url + path, form={**fields, **token})
                assert answer.status == 403, path
        assert await pauses_of(world) == []
        assert await approvals_of(world, JOB) == []
        await page.reload()
        await expect(page.get_by_role("button", name="Log out")).to_be_visible()


async def test_another_sites_page_can_neither_post_nor_show_ours(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        await page.goto(f"{world.url}/pauses")
        token = await page.locator("[name=form_token]").first.input_value()
        evil = await context.new_page()
        form = (
            f'<form method="post" action="{world.url}/pauses"><input name="scope" value="cluster">'
            f'<input name="for" value="1h"><input name="why" value="x">'
            f'<input name="form_token" value="{token}"><button>go</button></form>'
            f'<iframe src="{world.url}/"></iframe>'
        )

        async def answer(route: Any) -> None:
            await route.fulfill(body=form, content_type="text/html")

        await evil.route("http://evil.example/**", answer)
        await evil.goto("http://evil.example/")
        framed = evil.frames[-1]
        assert "KubeNode" not in await framed.content()
        await evil.get_by_role("button", name="go").click()
        await evil.wait_for_load_state()
        assert await pauses_of(world) == []


async def test_whoever_logs_out_sees_the_login_page_and_back_shows_nothing(
    world: Running, browser: Browser
) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await enter(world, page)
        kept = await context.cookies()
        await page.get_by_role("button", name="Log out").click()
        await expect(page).to_have_url(f"{world.url}/login")
        for path in ("/", "/jobs", "/pauses", f"/jobs/{JOB}"):
            await page.goto(world.url + path)
            await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        await page.go_back()
        await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")
        await context.add_cookies([dict(c) for c in kept])  # type: ignore[misc]
        await page.goto(world.url)
        await expect(page.get_by_role("heading", level=1)).to_have_text("Log in")


async def test_rights_to_look_pause_and_decide_are_separate(browser: Browser) -> None:
    gate = KnownPeople(
        {"t-read": "reader", "t-pause": "pauser", "t-decide": "decider", "t-none": "stranger"},
        {"reader": {READS}, "pauser": {READS, PAUSES}, "decider": {READS, DECIDES}},
    )
    async with api_server() as (api, kube):
        await fill(kube, 30)
        await put(kube, JOBS, a_job("n00001", "AwaitingApproval", name="decide-me"))
        async with dashboard_over(api, kube, gate, link="") as world:
            for token, pause, decide in (
                ("t-read", 0, 0),
                ("t-pause", 1, 0),
                ("t-decide", 0, 1),
            ):
                async with visiting(browser) as context:
                    page = await context.new_page()
                    await page.goto(f"{world.url}/pauses")
                    await page.get_by_label("Bearer token").fill(token)
                    await page.get_by_role("button", name="Log in").click()
                    await expect(page).to_have_url(f"{world.url}/pauses")
                    button = page.get_by_role("button", name="Pause", exact=True)
                    assert await button.count() == pause
                    form_token = await page.locator("[name=form_token]").first.input_value()
                    answer = await context.request.post(
                        f"{world.url}/pauses",
                        form={"scope": "node=n00001", "for": "1h", "why": "x",
                              "form_token": form_token},
                        max_redirects=0,
                    )  # fmt: skip
                    assert answer.status == (303 if pause else 403)
                    await page.goto(f"{world.url}/jobs/decide-me")
                    approve = page.get_by_role("button", name="Approve")
                    assert await approve.is_visible() is bool(decide)
                    answer = await context.request.post(
                        f"{world.url}/jobs/decide-me/decide",
                        form={"decision": "Approve", "seen": "0", "form_token": form_token},
                        max_redirects=0,
                    )
                    assert answer.status == (303 if decide else 403)
            async with visiting(browser) as context:
                page = await context.new_page()
                await page.goto(world.url)
                await page.get_by_label("Bearer token").fill("t-none")
                await page.get_by_role("button", name="Log in").click()
                await expect(page.get_by_text("stranger may not read")).to_be_visible()
            (made,) = await approvals_of(world, "decide-me")
            assert made["by"] == "decider"
            (pause_,) = await pauses_of(world)
            assert pause_["by"] == "pauser"


async def test_wrong_tokens_are_refused_and_soon_not_even_looked_at(browser: Browser) -> None:
    gate = KnownPeople({"right": "ada"}, {"ada": {READS}})
    async with (
        api_server() as (api, kube),
        dashboard_over(api, kube, gate, link="") as world,
        visiting(browser) as context,
    ):
        page = await context.new_page()
        await page.goto(f"{world.url}/jobs?show=held")
        for _ in range(5):
            await page.get_by_label("Bearer token").fill("wrong")
            await page.get_by_role("button", name="Log in").click()
            await expect(page.get_by_role("alert").first).to_contain_text("does not know")
        await page.get_by_label("Bearer token").fill("right")
        await page.get_by_role("button", name="Log in").click()
        await expect(page.get_by_role("alert").first).to_contain_text("Too many attempts")
