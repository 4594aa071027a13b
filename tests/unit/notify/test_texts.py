"""What people read: our texts, a receiver's own, and what hosts cannot do to either."""

import json
from datetime import timedelta

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from support.clock import T0
from support.notify_world import a_notice
from support.remedy_builders import TELL, a_job, a_record, running

from remedy.notify.http import encoded, event_type
from remedy.notify.message import RenderedNotice
from remedy.notify.notice import STEP, commands, level, of_phase, of_step
from remedy.notify.settings import CloudEvents, Webhook
from remedy.notify.texts import BODY_LENGTH, TITLE_LENGTH, BadTemplate, clean, texts

WORDS = {"by": "ann", "decision": "Next"}


def test_our_text_says_where_what_why_and_what_to_type() -> None:
    notice = a_notice(hold_message="PDB shop/cart allows no disruption", deadline=T0)
    title, body = texts().of(notice, "prod-1")
    assert title == "[Critical] prod-1 node n1: NeedsHuman"
    for part in (
        "not proven healthy within 15m",
        "Rule: kernel-deadlock",
        "rung reboot",
        "Held: PDB shop/cart",
        "Planned for: 2026-01-01 12:00 UTC",
        "  kubenode explain job n1-0123456789",
    ):
        assert part in body
    assert "\n\n\n" not in body


def test_text_links_to_the_incident_if_insight_has_an_address() -> None:
    link = "https://insight.example/incidents/u-1"
    notice = a_notice(job_uid="u-1")
    assert f"History: {link}\n" in texts(insight_url="https://insight.example/").of(notice, "")[1]
    assert "History" not in texts().of(notice, "")[1]
    own = texts(body="{{ incident }}", insight_url="https://insight.example")
    assert own.of(notice, "")[1] == link


def test_a_receivers_own_text() -> None:
    own = texts("{{ node }} is {{ phase | lower }}", "{{ commands | join('; ') }}")
    assert own.of(a_notice(), "") == ("n1 is needshuman", "kubenode explain job n1-0123456789")


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("{{ nod }}", "'nod' is undefined"),
        ("{% if %}", "not a template"),
        ("{{ 1 / 0 }}", "division"),
        ("{{ commands.append('x') }}", "cannot be rendered"),
        ("{{ node.__class__.__mro__ }}", "cannot be rendered"),
        ("{{ cycler.__init__.__globals__ }}", "cannot be rendered"),
    ],
)
def test_a_template_that_cannot_work_is_refused_at_the_start(text: str, why: str) -> None:
    with pytest.raises(BadTemplate, match=why):
        texts(text)


def test_what_a_host_says_is_never_evaluated_and_hides_nothing() -> None:
    notice = a_notice(happened="{{ 7 * 7 }}\x1b[2J\u202eevil\x00\r", kind=STEP)
    title, body = texts().of(notice, "")
    assert "{{ 7 * 7 }}" in body and "49" not in body
    assert not {"\x1b", "\u202e", "\x00", "\r"} & set(title + body)
    assert clean("a\nb\tc") == "a\nb\tc"


def test_texts_have_a_length() -> None:
    own = texts("{{ happened * 50 }}", "{{ happened * 50 }}")
    title, body = own.of(a_notice(happened="x" * 5000), "")
    assert (len(title), len(body)) == (TITLE_LENGTH, BODY_LENGTH)


def test_commands_are_those_that_fit() -> None:
    name = a_job().name
    waiting = a_job(mode="Approve", status={"phase": "AwaitingApproval"})
    assert f"kubenode approve {name}" in commands(waiting)
    human = a_job(status={"phase": "NeedsHuman"})
    assert commands(human) == (
        f"kubenode explain job {name}",
        f"kubenode job retry {name}",
        f"kubenode job close {name}",
    )
    further = a_job(TELL, TELL | {"name": "next"}, status={"phase": "NeedsHuman"})
    assert f"kubenode job next {name}" in commands(further)
    assert commands(a_job(status={"phase": "Failed"})) == (f"kubenode explain job {name}",)


def test_a_step_before_an_approval_says_how_to_approve() -> None:
    ask = {**TELL, "steps": [*TELL["steps"], {"waitForApproval": {}}]}
    job = a_job(ask, status=running(0, a_record(0, "notify")))
    assert f"kubenode approve {job.name}" in commands(job)


def test_the_same_change_has_the_same_id_and_a_later_one_another() -> None:
    human = a_job(status={"phase": "NeedsHuman"})
    assert of_phase(human, T0).id == of_phase(human, T0 + timedelta(hours=1)).id
    again = a_job(status={"phase": "NeedsHuman", "wordsHeard": 1}, approvals=[WORDS])
    assert level(again) != level(human)
    step = a_job(TELL, status=running(0, a_record(0, "notify")))
    assert of_step(step, "look", T0).id != of_phase(step, T0).id


def test_a_cloud_event_is_one_by_the_librarys_own_reading() -> None:
    message = RenderedNotice(a_notice(), "title", "text", "prod-1")
    settings = CloudEvents(url="https://example.com/", source="/kubenode/prod-1")
    headers, body = encoded(message, settings)
    event = from_http_event(HTTPMessage(headers=headers, body=body))
    assert event.get_id() == a_notice().id == headers["Idempotency-Key"]
    assert event.get_source() == "/kubenode/prod-1"
    assert event.get_type() == "io.kubenode.job.needshuman"
    assert event.get_subject() == "n1"
    data = event.get_data()
    assert isinstance(data, dict)
    assert data["title"] == "title" and data["commands"]
    assert headers["content-type"] == "application/cloudevents+json"


def test_a_webhook_gets_plain_json() -> None:
    message = RenderedNotice(a_notice(), "title", "text")
    headers, body = encoded(message, Webhook(url="https://example.com/"))
    assert headers["Content-Type"] == "application/json"
    told = json.loads(body)
    assert told["node"] == "n1" and told["severity"] == "Critical" and "held" not in told


def test_types_of_events() -> None:
    assert event_type("Succeeded") == "io.kubenode.job.succeeded"
    assert event_type(STEP) == "io.kubenode.job.step"
    assert event_type("Suppressed") == "io.kubenode.notifications.suppressed"
