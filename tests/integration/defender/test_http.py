"""Kube Defender over a real socket: server and client of the port, and what may go wrong between.

Behind the server stands a double of the port, for what it decides is tested elsewhere.
"""

import socket
from pathlib import Path

import aiohttp
import pytest
from support.clock import T0
from support.defender_api import NO, STATUS, YES, Nothing, Recording, an_app, an_ask, serving
from support.running import running

from defender.client import DefenderUnreachable, HttpPermits
from defender.server.http.admission import LONGEST_ASK
from defender.server.server import DefenderServer
from kubenode.runtime.process import CannotStart, causes

pytestmark = pytest.mark.integration


async def post(url: str, body: bytes) -> tuple[int, str]:
    async with (
        aiohttp.ClientSession() as session,
        session.post(f"{url}/v1/permits", data=body) as answer,
    ):
        return answer.status, (await answer.json())["message"]


async def test_the_question_and_the_answer_arrive_as_they_were() -> None:
    port = Recording()
    async with serving(port) as (_, client):
        ask = an_ask(evidence=["NPD"], deadline=T0, inevitable=True, dry_run=True)
        assert await client.ask(ask) == YES
        assert await client.check("n1-abc", 90.5) == YES
        assert await client.renew("n1-abc") == YES
        assert await client.renew("n1-abc", 1800) == YES
        await client.release("n1-abc")
    assert port.heard == [
        ("ask", ask),
        ("check", "n1-abc", 90.5),
        ("renew", "n1-abc", 0),
        ("renew", "n1-abc", 1800),
        ("release", "n1-abc"),
    ]


async def test_a_refusal_is_an_answer_with_all_its_figures() -> None:
    async with serving(Recording(NO)) as (_, client):
        assert await client.ask(an_ask()) == NO
        assert await client.check("n1-abc", 0) == NO
        assert await client.renew("n1-abc") == NO


async def test_what_the_defender_cannot_do_now_is_unreachable_for_the_client() -> None:
    port = Recording(fails=DefenderUnreachable("the release could not be written"))
    async with serving(port) as (_, client):
        with pytest.raises(DefenderUnreachable, match="503 the release could not be written"):
            await client.release("n1-abc")


async def test_people_are_answered_by_a_replica_that_is_ready() -> None:
    standby = DefenderServer(an_app(Recording(), shown=Nothing("it does not lead")))
    async with running(standby.run()), serving(Recording()) as (leader, _):
        await standby.listening.wait()
        client = HttpPermits([f"http://127.0.0.1:{standby.port}", leader])
        assert (await client.status()).ready == "yes"
        await client.close()
        client = HttpPermits([f"http://127.0.0.1:{standby.port}", leader])
        assert (await client.explain("n1")).ready == "yes"
        await client.close()
        client = HttpPermits([f"http://127.0.0.1:{standby.port}"])
        assert (await client.status()).ready == "it does not lead"
        await client.close()


async def test_a_server_that_is_gone_is_unreachable() -> None:
    async with serving(Recording()) as (url, _):
        pass
    client = HttpPermits(url)
    with pytest.raises(DefenderUnreachable):
        await client.ask(an_ask())
    await client.close()


@pytest.mark.parametrize(
    ("body", "field_named"),
    [
        (b'{"operation": "Repair", "class": "Rack", "node": "n1"}', "class:"),
        (b'{"operation": "Repair", "class": "Node", "node": "n1"}', "holder: required"),
        (b'{"operation": "Repair", "clas": "Node"}', "did you mean class?"),
        (
            b'{"operation": "Repair", "class": "Node", "node": "n1",'
            b' "holder": {"kind": "User", "name": "a", "uid": "b"}}',
            "holder.kind:",
        ),
        (b"not json", "object:"),
        (b"", "object:"),
    ],
)
async def test_a_bad_body_is_refused_with_the_field_and_nothing_is_asked(
    body: bytes, field_named: str
) -> None:
    port = Recording()
    async with serving(port) as (url, _):
        status, message = await post(url, body)
    assert (status, port.heard) == (422, [])
    assert field_named in message


async def test_an_endless_body_is_cut_off() -> None:
    async with serving(Recording()) as (url, _):
        status, message = await post(url, b" " * (LONGEST_ASK + 1))
    assert status == 413
    assert "body" in message


@pytest.mark.parametrize("seconds", ["", "soon", "nan", "inf", "-1"])
async def test_a_check_without_a_plain_time_is_refused(seconds: str) -> None:
    port = Recording()
    async with serving(port) as (url, _), aiohttp.ClientSession() as session:
        query = f"?secondsNeeded={seconds}"
        async with session.get(f"{url}/v1/permits/n1-abc{query}") as answer:
            assert answer.status == 422
            assert "secondsNeeded" in (await answer.json())["message"]
    assert port.heard == []


async def test_only_whoever_shows_the_token_is_answered(tmp_path: Path) -> None:
    token, wrong = tmp_path / "token", tmp_path / "wrong"
    token.write_text("s3cret\n")
    wrong.write_text("guess")
    port = Recording()
    for shown in (None, wrong):
        async with serving(port, token, shown) as (_, client):
            with pytest.raises(DefenderUnreachable, match="401"):
                await client.ask(an_ask())
    assert port.heard == []
    async with serving(port, token, token) as (_, client):
        assert (await client.ask(an_ask())).allowed


async def test_a_rotated_token_holds_from_the_next_request_on(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("old")
    async with serving(Recording(), token, token) as (_, client):
        assert (await client.ask(an_ask())).allowed
        token.write_text("new")
        assert (await client.ask(an_ask())).allowed


@pytest.mark.parametrize("content", [None, ""])
async def test_a_missing_or_empty_token_file_lets_nobody_in(
    tmp_path: Path, content: str | None
) -> None:
    token = tmp_path / "token"
    if content is not None:
        token.write_text(content)
    async with serving(Recording(), token) as (_, client):
        with pytest.raises(DefenderUnreachable, match=r"401|503"):
            await client.ask(an_ask())


async def test_status_needs_the_token_and_health_does_not(tmp_path: Path) -> None:
    token = tmp_path / "token"
    token.write_text("s3cret")
    async with serving(Recording(), token) as (url, _), aiohttp.ClientSession() as session:
        async with session.get(f"{url}/healthz") as answer:
            assert answer.status == 200
        async with session.get(f"{url}/v1/status") as answer:
            assert answer.status == 401
        shown = {"Authorization": "Bearer s3cret"}
        async with session.get(f"{url}/v1/status", headers=shown) as answer:
            assert await answer.json() == STATUS.to_dict()


async def test_a_taken_port_is_named_with_the_flag() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        server = DefenderServer(an_app(Recording()), port=port)
        with pytest.raises(CannotStart, match=f"port {port} on 127.0.0.1 is taken.*--listen-port"):
            await server.run()


async def test_an_address_that_is_not_ours_is_named() -> None:
    server = DefenderServer(an_app(Recording()), address="192.0.2.1")
    with pytest.raises(CannotStart, match="cannot listen on port 0") as caught:
        await server.run()
    assert causes(caught.value) == [caught.value]
