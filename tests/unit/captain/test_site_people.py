"""Who gets into Captain's pages, and what each button needs, says and writes."""

import asyncio
from collections.abc import Mapping
from datetime import timedelta
from typing import Any

import pytest
from support.captain_fleet import build_scene, make_clusters, make_ended, make_running
from support.captain_site import build_site
from support.clock import FakeClock
from support.release_api import ReleaseApiDouble, ReleaseWrite
from support.site_visitor import SiteVisitor

from captain.site.views.actions import ReleaseAction, list_choices
from captain.site.views.release import ApprovalRow, view_release
from kubenode.api.v1alpha1 import Release

PAGE, ACT = "/releases/rules-7", "/releases/rules-7/act"
APPROVE = "Approve production"
STATES = {"Pause": "Pause", "Rollback": "Rollback", "Abort": "Abort"}


def build(
    *more: Any, clock: FakeClock | None = None, **status: Any
) -> tuple[ReleaseApiDouble, SiteVisitor]:
    """The release rules-7 at an API server, and somebody in front of the pages."""
    running = make_running(25)
    running["status"] |= status
    releases = [running, *more]
    api = ReleaseApiDouble(*releases)
    site = build_site(build_scene(make_clusters(25), releases), api, clock)
    return api, SiteVisitor(site.app)


async def enter(visitor: SiteVisitor, name: str) -> SiteVisitor:
    reply = await visitor.log_in(f"secret-of-{name}")
    assert reply.status == 303
    return visitor


async def press(visitor: SiteVisitor, action: str, path: str = ACT) -> tuple[int, str]:
    """Send the form of an action; return the code, and the message of the page that follows."""
    token = await visitor.read_form_token("/")
    reply = await visitor.post(path, {"action": action, "form_token": token})
    if reply.status != 303:
        return reply.status, reply.body.decode()
    return reply.status, await visitor.read_message(reply.headers["location"])


# -- login


async def test_unknown_callers_get_the_login_page_and_return_to_their_page() -> None:
    _, visitor = build()
    reply = await visitor.get(PAGE)
    assert (reply.status, reply.headers["location"]) == (303, "/login?to=%2Freleases%2Frules-7")
    assert (await visitor.get(f"/live{PAGE}")).status == 401
    entered = await visitor.post("/login", {"token": "secret-of-rita", "to": PAGE})
    assert (entered.status, entered.headers["location"]) == (303, PAGE)
    assert (await visitor.get(PAGE)).status == 200


async def test_wrong_token_is_refused_and_many_of_them_wait() -> None:
    _, visitor = build()
    codes = [(await visitor.log_in("wrong")).status for _ in range(20)]
    assert codes[0] == 401 and codes[-1] == 429
    assert (await visitor.get("/")).status == 303


async def test_person_without_the_right_to_read_is_told_which_right() -> None:
    _, visitor = build()
    reply = await (await enter(visitor, "eve")).get("/")
    assert reply.status == 403
    assert "eve may not read this dashboard" in reply.body.decode()
    assert "get memberclusters and releases" in reply.body.decode()


async def test_logout_ends_the_cookie_also_where_a_copy_is_kept() -> None:
    _, visitor = build()
    await enter(visitor, "rita")
    copy = dict(visitor.cookies)
    token = await visitor.read_form_token("/")
    assert (await visitor.post("/logout", {"form_token": token})).status == 303
    visitor.cookies = copy
    assert (await visitor.get("/")).status == 303


async def test_cookie_is_not_that_of_the_dashboard() -> None:
    """Sites on other ports of a host get each other's cookies."""
    _, visitor = build()
    await enter(visitor, "rita")
    assert set(visitor.cookies) == {"kubenode-captain"}


# -- buttons and their rights


@pytest.mark.parametrize(
    ("name", "classes"),
    [("rita", " no-steer no-approve"), ("max", " no-approve"), ("ann", "")],
)
async def test_page_hides_buttons_that_the_person_may_not_press(name: str, classes: str) -> None:
    _, visitor = build()
    page = (await (await enter(visitor, name)).get(PAGE)).body.decode()
    assert f'class="release{classes}"' in page


@pytest.mark.parametrize("action", [APPROVE, "ApproveEnforce production", *STATES, "Resume"])
@pytest.mark.parametrize("name", ["rita", "max", "eve"])
async def test_post_without_the_right_writes_nothing_and_names_the_right(
    name: str, action: str
) -> None:
    if name == "max" and not action.startswith("Approve"):
        return
    api, visitor = build()
    await enter(visitor, "max" if name == "eve" else name)
    token = await visitor.read_form_token("/")
    if name == "eve":
        await enter(visitor, "eve")
    reply = await visitor.post(ACT, {"action": action, "form_token": token})
    assert reply.status == 403 and api.writes == []
    wanted = {"rita": "patch releases", "max": "update releases/approval", "eve": "may not read"}
    assert wanted[name] in reply.body.decode()


@pytest.mark.parametrize(
    ("action", "message"),
    [
        ("Pause", "Release rules-7 is paused. Captain writes nothing more until a person resumes"),
        ("Rollback", "Release rules-7 is being rolled back. Each cluster gets back"),
        ("Abort", "Release rules-7 is aborted. Captain writes nothing more"),
    ],
)
async def test_manager_changes_the_state_with_their_own_credentials(
    action: str, message: str
) -> None:
    api, visitor = build()
    code, shown = await press(await enter(visitor, "max"), action)
    assert code == 303 and shown.startswith(message)
    assert api.writes == [ReleaseWrite("secret-of-max", "rules-7", {"state": STATES[action]})]


async def test_resume_of_a_paused_release_writes_run() -> None:
    api, visitor = build()
    api.releases["rules-7"]["spec"]["state"] = "Pause"
    code, shown = await press(await enter(visitor, "max"), "Resume")
    assert (code, shown) == (303, "Release rules-7 goes on.")
    assert api.writes == [ReleaseWrite("secret-of-max", "rules-7", {"state": "Run"})]


async def test_resume_of_a_stopped_release_waits_for_captain_and_says_so() -> None:
    """Captain does not run."""
    clock = FakeClock()
    stop = {"reason": "ClustersFailed", "message": "one failed"}
    api, visitor = build(clock=clock, stop=stop)
    await enter(visitor, "max")
    pressing = asyncio.ensure_future(press(visitor, "Resume"))
    for _ in range(25):
        await clock.advance(timedelta(seconds=0.5))
    code, shown = await pressing
    assert code == 303
    assert shown.startswith("Release rules-7 is paused, and Captain has not observed that yet.")
    assert [each.spec for each in api.writes] == [{"state": "Pause"}]


@pytest.mark.parametrize(
    ("action", "subject", "message"),
    [
        (APPROVE, "Start", "Stage production of release rules-7 is approved."),
        (
            "ApproveEnforce production",
            "Enforce",
            "Enforce in stage production of release rules-7 is approved.",
        ),
    ],
)
async def test_approval_names_the_person_whatever_the_form_says(
    action: str, subject: str, message: str
) -> None:
    api, visitor = build()
    await enter(visitor, "ann")
    fields = {"action": action, "by": "max", "form_token": await visitor.read_form_token("/")}
    reply = await visitor.post(ACT, fields)
    assert await visitor.read_message(reply.headers["location"]) == message
    [write] = api.writes
    [entry] = write.spec["approvals"]
    assert (write.token, entry["by"], entry["subject"]) == ("secret-of-ann", "ann", subject)
    again = await press(visitor, action)
    assert again == (303, message.replace(" is ", " was already "))
    assert len(api.writes) == 1


async def test_refusal_of_the_api_server_is_shown_and_not_taken_for_success() -> None:
    """Admission refuses what the rights of the page let pass."""
    api, visitor = build()
    api.refusals["secret-of-ann"] = "spec.approvals: by must be the user who approves, ann-2"
    code, shown = await press(await enter(visitor, "ann"), APPROVE)
    assert code == 303 and api.writes == []
    assert shown == (
        "The API server does not let ann do this: spec.approvals: by must be the user who"
        " approves, ann-2"
    )


async def test_release_that_has_ended_says_why_nothing_changed() -> None:
    api, visitor = build(make_ended("old", "Succeeded"))
    _, shown = await press(await enter(visitor, "max"), "Pause", "/releases/old/act")
    assert shown.startswith("Release old is not changed: it has ended, Succeeded")
    assert api.writes == []


async def test_stage_that_the_release_does_not_have_is_named() -> None:
    api, visitor = build()
    _, shown = await press(await enter(visitor, "ann"), "Approve nonsense")
    assert shown == (
        "Release rules-7 is not changed: it has no stage nonsense; it has test, staging,"
        " production."
    )
    assert api.writes == []


# -- forged and hostile posts


@pytest.mark.parametrize(
    ("form_token", "headers"),
    [
        ("", {}),
        ("0" * 64, {}),
        ("own", {"Origin": "https://evil.example"}),
        ("own", {"Origin": "null"}),
        ("own", {"Sec-Fetch-Site": "cross-site"}),
        ("own", {"Sec-Fetch-Site": "same-site"}),
    ],
)
async def test_forged_post_writes_nothing(form_token: str, headers: Mapping[str, str]) -> None:
    api, visitor = build()
    await enter(visitor, "ann")
    own = await visitor.read_form_token("/")
    token = own if form_token == "own" else form_token
    reply = await visitor.post(ACT, {"action": APPROVE, "form_token": token}, dict(headers))
    assert reply.status == 403 and api.writes == []


async def test_form_token_of_another_login_is_refused() -> None:
    api, visitor = build()
    others = await (await enter(visitor, "max")).read_form_token("/")
    await enter(visitor, "ann")
    reply = await visitor.post(ACT, {"action": APPROVE, "form_token": others})
    assert reply.status == 403 and api.writes == []


async def test_acts_are_posts_alone() -> None:
    api, visitor = build()
    assert (await (await enter(visitor, "ann")).get(ACT)).status in (404, 405)
    assert api.writes == []


@pytest.mark.parametrize(
    "action",
    ["", "Delete", "approve production", "Approve", "Approve ", "Pause production",
     f"Approve {'x' * 64}", "Run", "Approve\x00production"],
)  # fmt: skip
async def test_action_that_no_page_offers_is_refused(action: str) -> None:
    api, visitor = build()
    code, shown = await press(await enter(visitor, "ann"), action)
    assert code == 400 and "Choose one of the actions" in shown
    assert api.writes == []


@pytest.mark.parametrize(
    "name",
    ["..", "a b", "<script>alert(1)<", "rules-7?dryRun=All", "r%C3%A4", "x" * 300, "{{ 7*7 }}"],
)
async def test_hostile_name_reaches_no_other_object_and_is_escaped(name: str) -> None:
    api, visitor = build()
    await enter(visitor, "ann")
    token = await visitor.read_form_token("/")
    reply = await visitor.post(
        f"/releases/{name.replace('?', '%3F')}/act", {"action": "Abort", "form_token": token}
    )
    assert api.writes == []
    if reply.status == 303:
        shown = await visitor.read_message("/releases")
        assert shown == "It is not there any more: somebody has deleted it."
    assert "<script>alert" not in reply.body.decode()


async def test_message_shows_the_stage_of_a_hostile_form_as_text() -> None:
    api, visitor = build()
    await enter(visitor, "ann")
    token = await visitor.read_form_token("/")
    stage = "<img src=x onerror=alert(1)>"
    await visitor.post(ACT, {"action": f"Approve {stage}", "form_token": token})
    page = (await visitor.get(PAGE)).body.decode()
    assert "<img" not in page and "&lt;img" in page
    assert api.writes == []


# -- approvals of Enforce


def test_stage_whose_evidence_waits_for_a_person_offers_its_approval() -> None:
    raw = make_running(25)
    staging = raw["status"]["stages"][1]
    staging["clusters"][2] |= {"phase": "Verifying", "reason": "AwaitingApproval"}
    [choice] = enforcing(raw)
    assert (choice.stage, choice.label) == ("staging", "Approve Enforce in stage staging")
    raw["spec"]["approvals"] = [{"stage": "staging", "by": "ann"}]
    assert len(enforcing(raw)) == 1, "an approval of the start is not one of Enforce"
    raw["spec"]["approvals"] = [{"stage": "staging", "by": "ann", "subject": "Enforce"}]
    assert enforcing(raw) == []


def enforcing(raw: Any) -> list[Any]:
    choices = list_choices(Release.model_validate(raw))
    return [each for each in choices if each.action is ReleaseAction.APPROVE_ENFORCE]


def test_approvals_of_enforce_are_listed_with_their_author_and_where_they_are_missing() -> None:
    raw = make_running(25)
    raw["spec"]["approvals"] = [{"stage": "test", "by": "ann", "subject": "Enforce"}]
    raw["status"]["stages"][1]["clusters"][2] |= {"reason": "AwaitingApproval"}
    view = view_release(build_scene([], [raw]), {"name": "rules-7"})
    assert view is not None
    rows = {each.key: each.by for each in view["approvals"] if isinstance(each, ApprovalRow)}
    assert rows == {"Enforce in test": "ann", "production": "", "Enforce in staging": ""}


# -- the log of acts


@pytest.mark.parametrize(
    ("name", "action", "what"),
    [
        ("max", "Pause", "pause release rules-7"),
        ("ann", APPROVE, "approve release rules-7 stage production"),
        ("ann", "ApproveEnforce test", "approve Enforce release rules-7 stage test"),
    ],
)
async def test_acts_are_logged_with_their_person(
    caplog: pytest.LogCaptureFixture, name: str, action: str, what: str
) -> None:
    _, visitor = build()
    with caplog.at_level("INFO", logger="captain.site.audit"):
        await press(await enter(visitor, name), action)
    [record] = [each for each in caplog.records if each.getMessage() == "act of a person"]
    assert (record.__dict__["who"], record.__dict__["via"]) == (name, "Token")
    assert record.__dict__["what"] == what
    assert record.__dict__["done"] is True
