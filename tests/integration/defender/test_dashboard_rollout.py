"""Buttons of a rollout's page: what they write, for whom, and what they refuse."""

import asyncio
import re
from collections.abc import AsyncIterator, Mapping
from typing import Any

import aiohttp
import pytest
from support.dashboard_running import (
    READS,
    ROLLS,
    KnownPeople,
    Running,
    api_server,
    dashboard_over,
)
from support.dashboard_world import MACHINES as MACHINE_PATH
from support.dashboard_world import (
    NEW_REVISION,
    OLD_REVISION,
    ROLLOUTS,
    put,
    some_machines,
    some_rollouts,
)
from support.machine_world import until as until_true
from support.running import until

from kubenode.runtime.kube.client import Kube

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]

PAGE = "/rollouts/containerd"
PEOPLE = KnownPeople(
    {"a": "ada", "b": "bob"}, {"ada": {READS, ROLLS}, "bob": {READS}}
)  # fmt: skip


@pytest.fixture
async def world() -> AsyncIterator[Running]:
    async with api_server() as (api, kube):
        for body in some_rollouts():
            await put(kube, ROLLOUTS, body)
        for body in some_machines():
            await put(kube, MACHINE_PATH, body)
        async with dashboard_over(api, kube, gate=PEOPLE, link="") as running:
            board = running.dashboard.board
            await until(lambda: board.scene().machines_read, 20, "the machines are read")
            yield running


class Visitor:
    """A person with a token, in a session without scripts."""

    def __init__(self, world: Running, session: aiohttp.ClientSession) -> None:
        self.url, self.session = world.url, session

    async def log_in(self, token: str) -> None:
        async with self.session.post(f"{self.url}/login", data={"token": token}) as answer:
            assert answer.status == 200

    async def read(self) -> str:
        async with self.session.get(self.url + PAGE) as answer:
            return await answer.text()

    async def press(self, **fields: str) -> tuple[int, str]:
        """Press a button of the page; return the code and text of what is shown then."""
        (token,) = set(re.findall(r'name="form_token" value="([^"]+)"', await self.read()))
        data = {"form_token": token, **fields}
        async with self.session.post(f"{self.url}{PAGE}/act", data=data) as answer:
            return answer.status, await answer.text()


@pytest.fixture
async def ada(world: Running) -> AsyncIterator[Visitor]:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        visitor = Visitor(world, session)
        await visitor.log_in("a")
        yield visitor


async def spec_of(kube: Kube) -> Mapping[str, Any]:
    spec: Mapping[str, Any] = (await kube.get(f"{ROLLOUTS}/containerd"))["spec"]
    return spec


async def clear_stop(kube: Kube) -> None:
    """Do what the Machine operator does once it observes a pause by a person."""

    async def paused() -> bool:
        return bool((await spec_of(kube)).get("paused"))

    await until_true(paused, "the set is paused")
    user = {
        "type": "Paused", "status": "True", "reason": "User", "message": "spec.paused",
        "lastTransitionTime": "2026-01-01T12:00:00Z",
    }  # fmt: skip
    await kube.patch(f"{ROLLOUTS}/containerd/status", {"status": {"conditions": [user]}})


async def test_pause_and_resume_are_written(world: Running, ada: Visitor) -> None:
    assert "Confirm: pause" in await ada.read()
    code, text = await ada.press(action="Pause")
    assert code == 200 and "Paused containerd: no batch starts" in text
    assert (await spec_of(world.kube))["paused"] is True
    await clear_stop(world.kube)
    _, text = await ada.press(action="Resume")
    assert "Set containerd: goes on: paused no more." in text
    assert (await spec_of(world.kube))["paused"] is False


async def test_retry_waits_for_the_operator_and_ends_the_pause(
    world: Running, ada: Visitor
) -> None:
    operator = asyncio.ensure_future(clear_stop(world.kube))
    _, text = await ada.press(action="Retry")
    await operator
    assert "Set containerd: goes on: batch 3 tries n00017 once more." in text
    assert (await spec_of(world.kube))["paused"] is False


async def test_retry_without_an_operator_says_that_the_set_stays_paused(
    world: Running, ada: Visitor
) -> None:
    _, text = await ada.press(action="Retry")
    assert "has not observed that yet" in text
    assert (await spec_of(world.kube))["paused"] is True


async def test_undo_returns_to_the_revision_that_the_page_named(
    world: Running, ada: Visitor
) -> None:
    _, text = await ada.press(action="Undo", revision=NEW_REVISION)
    assert "has changed meanwhile" in text
    assert (await spec_of(world.kube))["component"] == "containerd-2.1.4"
    _, text = await ada.press(action="Undo", revision=OLD_REVISION)
    assert f"asks for revision {OLD_REVISION} (containerd-2.1.3) again" in text
    assert (await spec_of(world.kube))["component"] == "containerd-2.1.3"


async def test_a_person_without_the_right_only_looks(world: Running) -> None:
    jar = aiohttp.CookieJar(unsafe=True)
    async with aiohttp.ClientSession(cookie_jar=jar) as session:
        bob = Visitor(world, session)
        await bob.log_in("b")
        text = await bob.read()
        assert "no-roll" in text and "takes the right to patch machinecomponentsets" in text
        code, text = await bob.press(action="Pause")
        assert code == 403 and "patch machinecomponentsets" in text
        assert not (await spec_of(world.kube)).get("paused")


async def test_an_action_that_is_not_offered_and_a_forged_form_are_refused(
    world: Running, ada: Visitor
) -> None:
    code, _ = await ada.press(action="Delete")
    assert code == 400
    code, _ = await ada.press(action="Pause", form_token="forged")
    assert code == 403
    assert not (await spec_of(world.kube)).get("paused")
