"""No boot, and no reset of a GPU, without a permit that is valid now, read from the API server."""

from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path
from typing import Any

import msgspec
import pytest
from support.agent_world import NODE, Killed, World, a_job
from support.disruption_guard import KeptPermits, live_permit

from agent.jobpermits import RECENT_SECONDS, least_class
from agent.request import open_requests, read
from agent.wire import WireJob
from kubenode.runtime.disruption.permits import LivePermit
from kubenode.runtime.disruption.request import WITHOUT_PERMIT
from kubenode.runtime.kube.errors import ServerUnreachable

UID = "job-uid-1"
"""Of the job of tests/support/agent_world.py."""
VALID = live_permit("p", NODE, UID)


def a_reboot(permit: str = "p") -> WireJob:
    job = a_job(asked={"name": "reboot", "expiresAt": "2026-01-01T12:03:00Z"})
    raw = msgspec.to_builtins(job)
    raw["spec"]["ladder"] = [{"name": "boot", "steps": [{"reboot": {"timeout": "10m"}}]}]
    raw["status"]["permit"] = {"name": permit} if permit else None
    return msgspec.convert(raw, WireJob)


def a_world(tmp_path: Path, *permits: LivePermit, **levers: Any) -> World:
    job = levers.pop("job", None) or a_reboot()
    return World(tmp_path / "requests", job=job, permits=KeptPermits(*permits), **levers)


async def handled(world: World) -> None:
    assert world.job is not None
    with suppress(Killed):  # the boot
        await world.core().handle(world.job)


async def test_a_host_is_booted_under_a_permit_that_is_valid_now(tmp_path: Path) -> None:
    world = a_world(tmp_path, VALID)
    await handled(world)
    assert world.reboots == 1 and world.permits.reads == 1


async def test_a_job_of_an_older_operator_that_names_no_permit_is_done_as_before(
    tmp_path: Path,
) -> None:
    world = a_world(tmp_path, job=a_reboot(permit=""))
    await handled(world)
    assert world.reboots == 1 and world.permits.reads == 0


@pytest.mark.parametrize(
    "permit",
    [
        None,
        live_permit("p", NODE, UID, state="Released"),
        live_permit("p", NODE, UID, state="Revoked"),
        live_permit("p", "another-node", UID),
        live_permit("p", NODE, "uid of another"),
        live_permit("p", NODE, UID, "Pods"),
    ],
    ids=["gone", "released", "revoked", "node", "holder", "class"],
)
async def test_a_late_agent_does_not_boot_its_host_when_the_jobs_permit_is_not_valid(
    tmp_path: Path, permit: LivePermit | None
) -> None:
    world = a_world(tmp_path, *([] if permit is None else [permit]))
    await handled(world)
    answer = world.answer_now
    assert answer is not None and answer.state == "Refused"
    assert answer.output.startswith(WITHOUT_PERMIT) and world.reboots == 0


async def test_nothing_is_begun_and_it_is_tried_again_when_the_permit_cannot_be_read(
    tmp_path: Path,
) -> None:
    world, away = a_world(tmp_path, VALID), True
    plain = world.permits.read

    async def read_permit(name: str) -> LivePermit | None:
        if away:
            raise ServerUnreachable("no route to host")
        return await plain(name)

    world.permits.read = read_permit  # type: ignore[method-assign]
    with pytest.raises(ServerUnreachable):
        await handled(world)
    assert world.answers == [] and world.reboots == 0
    away = False
    await handled(world)
    assert world.reboots == 1


async def test_the_permit_is_read_again_when_the_disk_took_its_time(tmp_path: Path) -> None:
    world = a_world(tmp_path, VALID)
    answer = world.answer

    async def slow(*args: Any, **changes: Any) -> str:
        """Between the look at the permit and the act."""
        world.clock.step(timedelta(seconds=RECENT_SECONDS + 1))
        world.permits.permits.clear()
        return await answer(*args, **changes)

    world.answer = slow  # type: ignore[method-assign]
    await handled(world)
    assert world.reboots == 0 and world.permits.reads == 2
    assert world.answer_now is not None and world.answer_now.state == "Refused"


@pytest.mark.parametrize("applied", [False, True])
async def test_an_agent_that_dies_at_any_moment_boots_no_host_once_the_permit_is_gone(
    tmp_path: Path, applied: bool
) -> None:
    for die_at in count(1):
        world = a_world(tmp_path / str(die_at), VALID, die_at=die_at, applied=applied)
        await handled(world)
        ended = world.moments < die_at
        before = world.reboots
        world.die_at = 0
        world.permits.permits.clear()
        core = world.core()
        await core.recover()
        assert world.job is not None
        await core.handle(world.job)
        assert world.reboots == before <= 1
        if ended:
            break


@pytest.mark.parametrize(
    ("step", "class_"),
    [
        ({"action": "ResetGPU"}, "Pods"),
        ({"action": "RestartUnit", "unit": "containerd.service"}, ""),
        ({"action": "RunCheck", "check": "c"}, ""),
    ],
)
def test_only_what_takes_pods_or_the_node_away_costs_a_read(
    step: dict[str, Any], class_: str
) -> None:
    job = a_job(agent_step=step)
    raw = msgspec.to_builtins(job)
    raw["status"]["permit"] = {"name": "p"}
    job = msgspec.convert(raw, WireJob)
    [(_, record)] = open_requests(job)
    assert least_class(read(job, record)) == class_
