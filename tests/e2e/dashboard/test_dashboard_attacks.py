"""Names, labels and messages that are attacks do nothing, as far as the API takes them at all."""

import pytest
from playwright.async_api import Browser, Page, expect
from support.browser import visiting
from support.dashboard_running import Running, api_server, dashboard_over
from support.dashboard_world import JOBS, POLICIES, RULES, a_job, a_node, a_rule, fill, put

from kubenode.runtime.kube import paths

pytestmark = [pytest.mark.e2e, pytest.mark.asyncio(loop_scope="session")]

ATTACKS = (
    "<script>window.pwned=1</script>",
    "<img src=x onerror=window.pwned=1>",
    "'\"><svg onload=window.pwned=1>",
    "javascript:window.pwned=1",
    "</textarea></title></style><script>window.pwned=1</script>",
    "{{constructor.constructor('window.pwned=1')()}}",
    "\u202e<a href=javascript:window.pwned=1>x</a>",
)
EVIL = " ".join(ATTACKS)


async def poison(running: Running) -> None:
    """Everything that others may write about nodes, jobs, rules and pauses."""
    kube = running.kube
    # Names and labels of such a form no API server takes.
    marks = {"kubenode.io/cordoned-by": EVIL}
    node = a_node("evil", annotations=marks, unschedulable=True, message=EVIL, reason=EVIL[:100])
    node["status"]["nodeInfo"]["kubeletVersion"] = EVIL
    await kube.create(paths.nodes(), node)
    hold = (EVIL[:60], EVIL[:300], EVIL)
    job = a_job("evil", "AwaitingApproval", rule=EVIL[:200], hold=hold, explanation=EVIL, note=EVIL)
    job["metadata"]["labels"] = {}
    step = {"rung": 0, "index": 0, "name": EVIL[:60], "state": "Failed", "message": EVIL}
    job["status"]["steps"] = [step]
    made = await put(kube, JOBS, job)
    said = {"decision": "Approve", "by": EVIL[:200], "note": EVIL, "at": "2026-11-22T03:00:00Z"}
    await kube.patch(f"{JOBS}/{made['metadata']['name']}", {"spec": {"approvals": [said]}})
    bad = {
        "type": "Ready", "status": "False", "reason": "Invalid", "message": EVIL,
        "lastTransitionTime": "2026-11-22T03:00:00Z",
    }  # fmt: skip
    await put(kube, RULES, a_rule("evil", phase="Rejected", conditions=[bad]))
    pause = {"scope": "Label", "label": "a<b>", "value": EVIL[:200], "by": EVIL[:200], "why": EVIL}
    await kube.patch(f"{POLICIES}/default", {"spec": {"pauses": [pause]}})


async def unharmed(page: Page) -> None:
    assert await page.evaluate("window.pwned") is None
    foreign = await page.evaluate(
        "[...document.querySelectorAll('script, iframe, object, embed, [onload], [onerror]')]"
        ".map(e => e.outerHTML).filter(h => !h.includes('/static/'))"
    )
    assert foreign == []
    links = await page.evaluate("[...document.links].map(a => a.protocol)")
    assert set(links) <= {"http:"}


@pytest.mark.parametrize("when", ["before the page is opened", "while it is open"])
async def test_an_attack_in_a_name_label_or_message_is_only_text(
    browser: Browser, when: str
) -> None:
    async with api_server() as (api, kube):
        await fill(kube, 30)
        async with dashboard_over(api, kube) as world, visiting(browser) as context:
            page = await context.new_page()
            await page.goto(world.way_in)
            await page.wait_for_url(f"{world.url}/")
            if when == "while it is open":
                await poison(world)
                await expect(page.get_by_text("evil waits for approval")).to_be_visible()
                await unharmed(page)
            else:
                await poison(world)
            job = "/jobs/evil-0a1b2c3d4e"
            pages = ("/", "/nodes/evil", "/nodes?q=evil", job, "/jobs", "/rules", "/pauses",
                     "/budgets", "/breakers")  # fmt: skip
            for path in pages:
                await page.goto(world.url + path)
                await expect(page.get_by_role("heading", level=1)).to_be_visible()
                await page.wait_for_function("document.readyState === 'complete'")
                await unharmed(page)
            await page.goto(f"{world.url}{job}")
            await expect(page.get_by_text("<script>window.pwned=1</script>").first).to_be_visible()


async def test_an_attack_in_an_address_is_only_text(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await page.goto(world.way_in)
        await page.wait_for_url(f"{world.url}/")
        for attack in ATTACKS:
            for path in ("/nodes", "/jobs", "/pauses", "/rack", "/login"):
                asked = {"q": attack, "reason": attack, "scope": attack, "zone": attack,
                         "to": attack}  # fmt: skip
                query = await page.evaluate("q => new URLSearchParams(q).toString()", asked)
                await page.goto(f"{world.url}{path}?{query}")
                await unharmed(page)
            answer = await context.request.get(f"{world.url}/login", params={"link": attack})
            assert "<script>window" not in await answer.text()
            assert "<img" not in await answer.text()


async def test_every_answer_forbids_what_is_not_ours(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        await context.new_page()
        for path in ("/", "/login", "/static/style.css", "/static/live.js", "/live/", "/nowhere",
                     "/healthz"):  # fmt: skip
            answer = await context.request.get(world.url + path, max_redirects=0)
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; script-src 'self'; style-src 'self'")
            assert "unsafe" not in policy and "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["x-frame-options"] == "DENY"
            assert "no-store" in answer.headers["cache-control"] or "/static/" in path


async def test_inline_script_and_style_are_nowhere(world: Running, browser: Browser) -> None:
    async with visiting(browser) as context:
        page = await context.new_page()
        await page.goto(world.way_in)
        await page.wait_for_url(f"{world.url}/")
        for path in ("/", "/budgets", "/nodes/n00004", "/pauses"):
            answer = await context.request.get(world.url + path)
            html = await answer.text()
            for inline in (" style=", "<style", " onclick", " onload", "javascript:"):
                assert inline not in html, (path, inline)
            assert html.count("<script") == html.count('src="/static/')
