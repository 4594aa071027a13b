"""Real receivers: mail, chat and programs, well, slow, broken and gone."""

import asyncio
import logging
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
from cloudevents.core.bindings.http import HTTPMessage, from_http_event
from prometheus_client import CollectorRegistry
from support.notify_world import a_notice
from support.receiving import http_receiver, mail_server
from support.remedy_builders import TELL, a_job, a_record
from support.remedy_builders import running as running_job
from support.running import running, until

from kubenode.runtime.clock import SystemClock
from kubenode.runtime.process import serve
from remedy.notify.direct import DirectNotifier
from remedy.notify.message import NotDelivered
from remedy.notify.notice import STEP
from remedy.notify.notifications import STILL, Telling
from remedy.notify.notifier import Notifier
from remedy.notify.settings import Receiver

pytestmark = pytest.mark.integration


def receivers(**given: dict[str, Any]) -> dict[str, Receiver]:
    return {name: Receiver.model_validate(settings) for name, settings in given.items()}


@asynccontextmanager
async def telling(**given: dict[str, Any]) -> AsyncIterator[Notifier]:
    notifier = Notifier(receivers(**given), SystemClock(), CollectorRegistry(), "prod-1")
    try:
        async with running(serve(notifier.parts)):
            yield notifier
    finally:
        await notifier.close()


async def ended(notifier: Notifier, receiver: str, number: int = 1) -> str:
    """Why it was not delivered, "" if it was."""
    id_ = a_notice(number).id
    await until(lambda: notifier.end(id_, receiver) is not None, 60, "it has ended")
    end = notifier.end(id_, receiver)
    assert end is not None
    return end.why


def mail(port: int) -> dict[str, Any]:
    url = f"mailto://127.0.0.1:{port}/?from=kubenode@example.com&to=ops@example.com&mode=insecure"
    return {"apprise": {"urls": [url]}, "timeout": "2s"}


async def test_a_mail_arrives_with_what_to_do() -> None:
    async with mail_server() as server, telling(ops=mail(server.port)) as notifier:
        notifier.put(a_notice(), ["ops"])
        assert await ended(notifier, "ops") == ""
    (got,) = server.mails
    assert got["Subject"] == "[Critical] prod-1 node n1: NeedsHuman"
    assert "kubenode explain job n1-0123456789" in got.as_string()


async def test_a_mail_server_that_refuses_for_a_while_gets_the_mail_once() -> None:
    async with mail_server() as server, telling(ops=mail(server.port)) as notifier:
        server.refuse = True
        notifier.put(a_notice(), ["ops"])
        await until(lambda: notifier.channels["ops"].has(a_notice().id), 60, "it is being sent")
        server.refuse = False
        assert await ended(notifier, "ops") == ""
    assert len(server.mails) == 1


async def test_a_chat_by_an_apprise_url_out_of_a_file(tmp_path: Path) -> None:
    async with http_receiver() as server:
        file = tmp_path / "chat"
        file.write_text(f"json://user:hidden@127.0.0.1:{server.port}/room\n")
        chat = {"apprise": {"urls": [{"fromFile": str(file)}]}}
        async with telling(chat=chat) as notifier:
            notifier.put(a_notice(), ["chat"])
            assert await ended(notifier, "chat") == ""
    (got,) = server.taken
    assert got["title"] == "[Critical] prod-1 node n1: NeedsHuman"
    assert got["type"] == "failure"


async def test_of_two_addresses_each_is_told_once_though_one_fails_at_first() -> None:
    async with http_receiver() as well, http_receiver() as broken:
        broken.answers = [500, 500]
        urls = [f"json://127.0.0.1:{s.port}/" for s in (well, broken)]
        async with telling(chat={"apprise": {"urls": urls}}) as notifier:
            notifier.put(a_notice(), ["chat"])
            assert await ended(notifier, "chat") == ""
    assert (len(well.got), len(broken.got)) == (1, 1)


async def test_a_500_is_tried_again_as_the_same_event() -> None:
    async with http_receiver() as server:
        server.answers = [500, 503]
        bus = {"cloudEvents": {"url": server.url, "source": "/kubenode/prod-1"}}
        async with telling(bus=bus) as notifier:
            notifier.put(a_notice(), ["bus"])
            assert await ended(notifier, "bus") == ""
    ((headers, body),) = server.got
    event = from_http_event(HTTPMessage(headers=headers, body=body.encode()))
    assert (event.get_id(), event.get_subject()) == (a_notice().id, "n1")
    assert headers["Idempotency-Key"] == a_notice().id


@pytest.mark.parametrize("status", [301, 400, 401, 404])
async def test_what_a_second_try_cannot_cure_is_given_up_and_not_followed(status: int) -> None:
    async with http_receiver() as server:
        server.answers = [status]
        async with telling(tool={"webhook": {"url": server.url}}) as notifier:
            notifier.put(a_notice(), ["tool"])
            assert await ended(notifier, "tool") == f"it answered {status}"
    assert server.got == []


async def test_a_hanging_and_an_unreachable_receiver_hold_up_no_other(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    token = tmp_path / "token"
    token.write_text("very-secret")
    async with http_receiver() as slow, http_receiver() as well, mail_server() as silent:
        slow.hang, silent.silent = asyncio.Event(), True
        common = {"timeout": "1s", "giveUpAfter": "1s"}
        headers = {"Authorization": {"fromFile": str(token)}}
        gone = {"url": "http://127.0.0.1:1/very-secret", "headers": headers}
        async with telling(
            slow={"webhook": {"url": slow.url}, **common},
            chat={"apprise": {"urls": [f"json://127.0.0.1:{slow.port}/"]}, **common},
            mail={**mail(silent.port), **common},
            gone={"webhook": gone, **common},
            well={"webhook": {"url": well.url, "headers": headers}},
        ) as notifier:
            assert notifier.put(a_notice(), [*notifier.channels, "nobody"]) == ["nobody"]
            assert await ended(notifier, "well") == ""
            assert await ended(notifier, "slow") == "no answer within 1 s"
            assert "not reachable" in await ended(notifier, "gone")
            assert await ended(notifier, "chat") != "" != await ended(notifier, "mail")
            slow.hang.set()
    assert well.got[0][0]["Authorization"] == "very-secret"
    assert "very-secret" not in caplog.text and "127.0.0.1:1/" not in caplog.text


async def test_a_program_that_is_asked_directly_answers_or_says_why_not() -> None:
    async with http_receiver() as server:
        known = receivers(
            tool={"webhook": {"url": server.url}, "timeout": "1s"},
            people={"apprise": {"urls": ["mailto://mail.example.com"]}},
        )
        direct = DirectNotifier(known, "prod-1")
        try:
            await direct.tell("tool", a_notice(kind=STEP))
            reply = await direct.ask("tool", {"gang": "a"}, "key-1")
            assert (reply.status, reply.text, reply.taken) == (200, "said", True)
            assert server.got[1][0]["Idempotency-Key"] == "key-1"
            server.answers = [500, 404]
            for final in (False, True):
                with pytest.raises(NotDelivered) as caught:
                    await direct.tell("tool", a_notice())
                assert caught.value.final is final
            for name, why in (("people", "is for people"), ("nobody", "not in the receivers")):
                with pytest.raises(NotDelivered, match=why) as caught:
                    await direct.tell(name, a_notice())
                assert caught.value.final
        finally:
            await direct.close()


async def test_a_step_that_asks_for_it_waits_for_its_receivers_and_hears_why_not() -> None:
    notify = {"receivers": ["tool"], "message": "look", "onFailure": "Escalate"}
    rung = {**TELL, "steps": [{"notify": notify}]}
    job = a_job(rung, status=running_job(0, a_record(0, "notify")))
    careless = {**TELL, "steps": [{"notify": {**notify, "onFailure": "Continue"}}]}
    async with http_receiver() as server:
        server.answers = [401]
        known = receivers(tool={"webhook": {"url": server.url}})
        telling = Telling(known, SystemClock(), CollectorRegistry(), "prod-1")
        async with running(serve(telling.notifier.parts, [telling])):
            assert telling.step(job) == STILL
            await until(lambda: telling.step(job) != STILL, 60, "it has ended")
            assert telling.step(job) == "tool: it answered 401"
            again = running_job(0, a_record(0, "notify", attempts=2))
            assert telling.step(a_job(rung, status=again)) == STILL
            await until(lambda: telling.step(a_job(rung, status=again)) == "", 60, "taken")
            assert telling.step(a_job(careless, status=again)) == ""
            strange = {**TELL, "steps": [{"notify": {**notify, "receivers": ["nobody"]}}]}
            assert "nobody" in telling.step(a_job(strange, status=again))
    assert [told["happened"] for told in server.taken] == ["look"]
