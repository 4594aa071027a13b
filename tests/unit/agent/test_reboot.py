"""Reboot: ordered once, by its own step alone, and proven by the boot that follows."""

import asyncio
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.agent_world import Killed, World, a_job
from support.clock import settle

from agent.wire import BEHIND, WireJob
from kubenode.runtime.kube.errors import ServerUnreachable


def a_reboot(**asked: Any) -> WireJob:
    job = a_job(asked={"name": "reboot", "expiresAt": "2026-01-01T12:03:00Z", **asked})
    raw = msgspec.to_builtins(job)
    raw["spec"]["ladder"] = [{"name": "boot", "steps": [{"reboot": {"timeout": "10m"}}]}]
    return msgspec.convert(raw, WireJob)


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "requests", job=a_reboot())


async def until_the_end(world: World, processes: int = 5) -> None:
    """Processes of the agent, one after another, until the request has its last answer."""
    for _ in range(processes):
        core = world.core()
        with suppress(Killed):
            await core.recover()
            if world.job is not None:
                await core.handle(world.job)
        world.die_at = 0
        if world.answer_now is not None and world.answer_now.state != "Running":
            return


async def test_f23_an_agent_killed_by_the_reboot_it_ordered_answers_done_by_the_new_boot_id(
    world: World,
) -> None:
    core = world.core()
    assert world.job is not None
    with pytest.raises(Killed):
        await core.handle(world.job)
    before = world.answer_now
    assert before is not None and before.state == "Running" and before.boot_id == "boot-1"
    await until_the_end(world)
    answer = world.answer_now
    assert answer is not None
    assert (answer.state, answer.code, answer.boot_id) == ("Done", 0, "boot-2")
    assert "boot-2" in answer.output
    assert world.reboots == 1
    assert [state.state for _, state in world.answers] == ["Running", "Done"]


@pytest.mark.parametrize("applied", [False, True])
async def test_f23_dying_at_any_moment_orders_at_most_one_reboot(
    tmp_path: Path, applied: bool
) -> None:
    ends = set()
    for die_at in count(1):
        world = World(tmp_path / str(die_at), job=a_reboot(), die_at=die_at, applied=applied)
        await until_the_end(world)
        assert world.reboots <= 1
        answer = world.answer_now
        assert answer is not None
        assert (answer.state == "Done") == (world.boot == "boot-2"), answer
        ends.add(answer.state)
        if world.moments < die_at:
            break
    assert ends == {"Done", "Failed"}


async def test_an_intent_without_a_boot_is_not_repeated(world: World) -> None:
    """Killed after the intent was on disk: whether systemd was asked is not known."""
    world.die_at = 4  # the live job is read, Running is told, the intent is on disk, the order
    await until_the_end(world)
    assert world.reboots == 0
    assert world.answer_now is not None and world.answer_now.state == "Failed"
    assert "not repeated" in world.answer_now.output


@pytest.mark.parametrize(
    ("asked", "why"),
    [
        ({"bootID": "boot-0"}, "asked of boot boot-0, this host runs boot boot-1"),
        ({"bootID": ""}, "names no boot ID"),
        ({"expiresAt": "2026-01-01T11:59:00Z"}, "expired"),
        ({"expiresAt": None}, "no expiry"),
    ],
)
async def test_a_reboot_of_another_time_or_boot_is_refused(
    tmp_path: Path, asked: dict[str, Any], why: str
) -> None:
    world = World(tmp_path / "requests", job=a_reboot(**asked))
    await until_the_end(world)
    assert world.reboots == 0
    assert world.answer_now is not None and world.answer_now.state == "Refused"
    assert why in world.answer_now.output


async def test_a_late_reboot_is_not_done_after_the_provider_did_it(world: World) -> None:
    world.booted()
    await until_the_end(world)
    assert world.reboots == 0
    assert world.answer_now is not None and world.answer_now.state == "Refused"


async def test_without_the_api_server_nothing_is_begun(world: World) -> None:
    world.unreachable = True
    assert world.job is not None
    with pytest.raises(ServerUnreachable):
        await world.core().handle(world.job)
    assert world.reboots == 0
    world.unreachable = False
    await until_the_end(world)
    assert world.reboots == 1


async def test_an_order_that_was_refused_is_failed_at_once(world: World) -> None:
    world.bus_lost = True
    await world.core().handle(world.job or a_reboot())
    assert world.answer_now is not None and world.answer_now.state == "Failed"
    assert "unknown" in world.answer_now.output


async def test_a_host_that_does_not_go_down_is_failed_at_the_expiry(world: World) -> None:
    world.goes_down = False
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(world.core().handle(world.job or a_reboot()))
        await settle()
        assert world.answer_now is not None and world.answer_now.state == "Running"
        await world.clock.advance(timedelta(minutes=3))
        await work
    assert world.answer_now.state == "Failed" and "still runs" in world.answer_now.output
    assert world.reboots == 1


@pytest.mark.parametrize("action", sorted(BEHIND))
async def test_no_agent_step_reaches_what_stands_behind_other_steps(
    tmp_path: Path, action: str
) -> None:
    """The API refuses such a step as well; the agent does not rely on it."""
    world = World(tmp_path / "requests", job=a_job(agent_step={"action": action}))
    await until_the_end(world)
    assert world.reboots == 0
    assert world.answer_now is not None and world.answer_now.state == "Refused"
