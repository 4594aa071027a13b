"""What the agent does with a job, and what it leaves alone."""

import asyncio
from contextlib import suppress
from datetime import datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from support.agent_world import (
    REQUEST,
    UNIT,
    Killed,
    World,
    a_job,
    later,
    until_answered,
    with_status,
)
from support.clock import T0, FakeClock

from agent.actions import Bench
from agent.actions.allowlist import Repairs
from agent.core import AgentCore
from agent.host import UnitVerb
from agent.journal import JournalEntry, MemoryJournal
from agent.probes import CannotAnswer
from agent.request import Key
from agent.wire import WireJob
from kubenode.runtime.kube.errors import ServerUnreachable

RESTARTED = [(UnitVerb.RESTART, UNIT)]


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path / "requests")


async def handled(world: World) -> World:
    assert world.job is not None
    await world.core().handle(world.job)
    return world


async def test_a_failed_unit_is_reset_restarted_and_seen_to_run(world: World) -> None:
    await handled(world)
    assert world.acts == RESTARTED
    assert world.resets == 1  # the start limit would refuse us otherwise
    answer = world.answer_now
    assert answer is not None
    assert (answer.state, answer.code, answer.boot_id) == ("Done", 0, "boot-1")
    assert answer.started_at and answer.finished_at
    assert "containerd.service is active" in answer.output


@pytest.mark.parametrize(
    ("action", "verb", "ends"),
    [
        ("StartUnit", UnitVerb.START, "active"),
        ("StopUnit", UnitVerb.STOP, "inactive"),
        ("RestartUnit", UnitVerb.RESTART, "active"),
    ],
)
async def test_each_verb_is_asked_of_systemd_and_its_result_seen(
    world: World, action: str, verb: UnitVerb, ends: str
) -> None:
    world.job = a_job(agent_step={"action": action, "unit": UNIT})
    await handled(world)
    assert world.acts == [(verb, UNIT)]
    assert world.active == ends
    assert world.answer_now is not None and world.answer_now.state == "Done"


@pytest.mark.parametrize("action", ["RestartUnit", "StartUnit", "ReloadUnit", "StopUnit"])
@pytest.mark.parametrize("unit", ["auditd.service", "debug-shell.service", "falco.service"])
async def test_a_unit_that_the_host_does_not_list_is_refused_and_not_touched(
    world: World, action: str, unit: str
) -> None:
    world.job = a_job(agent_step={"action": action, "unit": unit})
    await handled(world)
    assert world.acts == [] and world.resets == 0
    ((_, answer),) = world.answers
    setting = "stop_units" if action == "StopUnit" else "units"
    assert answer.state == "Refused"
    assert f"{unit} is not in repairs.{setting} of the agent's configuration" in answer.output
    assert "kubelet.service" in answer.output


@pytest.mark.parametrize(("action", "acts"), [("RestartUnit", 1), ("StopUnit", 0)])
async def test_a_unit_may_be_listed_for_restarts_and_not_for_stops(
    world: World, action: str, acts: int
) -> None:
    world.allowed = Repairs(units=["container*"], stop_units=[])
    world.job = a_job(agent_step={"action": action, "unit": UNIT})
    await handled(world)
    assert len(world.acts) == acts
    if not acts:
        ((_, answer),) = world.answers
        assert "repairs.stop_units of the agent's configuration, which has nothing" in answer.output


async def test_a_reload_of_a_running_unit_is_done_and_of_a_dead_one_failed(world: World) -> None:
    world.job = a_job(agent_step={"action": "ReloadUnit", "unit": UNIT})
    world.active = "active"
    await handled(world)
    assert world.answer_now is not None and world.answer_now.state == "Done"


async def test_a_unit_that_does_not_come_up_is_failed_with_its_exit_status(world: World) -> None:
    world.comes_up = "inactive"  # started, and died at once with 3
    await handled(world)
    assert world.answer_now is not None
    assert (world.answer_now.state, world.answer_now.code) == ("Failed", 3)
    assert "exit status 3" in world.answer_now.output


@pytest.mark.parametrize(("oneshot", "state"), [(True, "Done"), (False, "Failed")])
async def test_only_a_oneshot_may_be_gone_again_after_its_start(
    world: World, oneshot: bool, state: str
) -> None:
    world.oneshot, world.comes_up, world.result = oneshot, "inactive", "success"
    await handled(world)
    assert world.answer_now is not None and world.answer_now.state == state


async def test_a_failed_job_of_systemd_is_the_answer(world: World) -> None:
    world.comes_up = "failed"
    await handled(world)
    assert world.answer_now is not None
    assert world.answer_now.state == "Failed"
    assert "ended with 'failed'" in world.answer_now.output


async def test_an_act_whose_host_cannot_be_read_fails_and_the_agent_goes_on(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def unit_job(*_: object) -> None:
        raise CannotAnswer("the earlier read of /proc still hangs")

    monkeypatch.setattr(world, "unit_job", unit_job)
    await handled(world)
    answer = world.answer_now
    assert answer is not None
    assert answer.state == "Failed"
    assert "still hangs; what came of it is unknown" in answer.output


async def test_an_unknown_unit_fails_by_name_and_nothing_is_done(world: World) -> None:
    world.known = False
    await handled(world)
    assert world.acts == []
    assert world.answer_now is not None
    assert world.answer_now.state == "Failed"
    assert "containerd.service is not-found" in world.answer_now.output


async def test_an_act_may_last_until_the_expiry_and_no_longer_than_its_timeout(
    world: World,
) -> None:
    world.job = later(a_job(), T0 + timedelta(seconds=30))
    await handled(world)
    assert world.limits == [30.0]


@pytest.mark.parametrize(
    ("job", "why"),
    [
        (a_job(asked={"bootID": "boot-0"}), "asked of boot boot-0, this host runs boot boot-1"),
        (a_job(asked={"bootID": None}), "names no boot ID"),
        (a_job(asked={"expiresAt": None}), "no expiry"),
        (later(a_job(), T0), "expired at 2026-01-01T12:00:00.000Z"),
        (a_job(nodeName="n2"), "the job is for node 'n2', this host is 'n1'"),
        (a_job(asked={"requestID": "../../etc/passwd"}), "requestID '../../etc/passwd'"),
        (a_job(asked={"rung": 4}), "no agent step at this place"),
        (a_job(agent_step={"action": "DefragmentDisk"}), "this agent cannot DefragmentDisk"),
        (a_job(agent_step={"action": "StartUnit", "unit": "reboot.target"}), "ends the boot"),
        (a_job(agent_step={"action": "StopUnit", "unit": "dbus.service"}), "could do nothing more"),
        (a_job(agent_step={"action": "RestartUnit"}), "unit None is no unit name"),
        (a_job(agent_step={"action": "RestartUnit", "unit": "*.service"}), "is no unit name"),
        (
            a_job(agent_step={"action": "RestartUnit", "unit": UNIT, "timeout": "soon"}),
            "'soon' is no duration",
        ),
    ],
)
async def test_what_may_not_be_done_is_refused_with_the_reason(
    world: World, job: WireJob, why: str
) -> None:
    world.job = job
    await handled(world)
    assert world.acts == []
    ((_, answer),) = world.answers
    assert answer.state == "Refused"
    assert answer.code is None
    assert why in answer.output


async def test_an_unreadable_boot_id_refuses_everything(world: World) -> None:
    world.boot = ""
    await handled(world)
    assert world.acts == []
    assert world.answer_now is not None and world.answer_now.state == "Refused"


@pytest.mark.parametrize(
    "job",
    [
        a_job(agent="another"),
        a_job(asked={"by": "Operator"}),
        a_job(asked={"state": "Done"}),
        a_job(asked={"state": "Waiting"}),
        a_job(asked={"requestID": None}),
        a_job(phase="Cancelled"),
        with_status(a_job(), agent={"requests": {REQUEST: {"state": "Done"}}}),
        with_status(a_job(), steps=None),
    ],
)
async def test_what_is_not_asked_of_this_agent_is_left_alone(world: World, job: WireJob) -> None:
    world.job = job
    await handled(world)
    assert world.acts == []
    assert world.answers == []


@pytest.mark.parametrize(
    "live",
    [
        None,
        a_job(cancel=True),
        a_job(asked={"state": "Cancelled"}),
        with_status(a_job(), phase="Succeeded"),
        with_status(a_job(), agent={"requests": {REQUEST: {"state": "Failed"}}}),
    ],
)
async def test_the_live_job_decides_not_what_a_watch_told(
    world: World, live: WireJob | None
) -> None:
    stale = a_job()
    world.job = live
    await world.core().handle(stale)
    assert world.acts == []
    assert world.answers == []


async def test_nothing_new_is_begun_without_the_api_server(world: World) -> None:
    world.unreachable = True
    with pytest.raises(ServerUnreachable):
        await handled(world)
    assert world.acts == []


async def test_an_answer_that_was_not_written_is_written_later_without_a_second_act(
    world: World,
) -> None:
    core, job = world.core(), a_job()
    acting = world.unit_job

    async def then_cut(verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        await acting(verb, name, timeout)
        world.unreachable = True

    world.unit_job = then_cut  # type: ignore[method-assign]
    with pytest.raises(ServerUnreachable):
        await core.handle(job)
    world.unreachable = False
    await core.handle(job)
    assert world.acts == RESTARTED
    assert [answer.state for _, answer in world.answers] == ["Done"]


async def test_old_news_after_the_answer_do_not_write_it_again(world: World) -> None:
    core, before = world.core(), a_job()
    await core.handle(before)
    await core.handle(before)
    assert len(world.answers) == 1


async def test_answers_that_no_step_speaks_of_any_more_are_taken_away(world: World) -> None:
    old = {name: {"state": "Failed"} for name in ("r0s0a0", "r0c0a1")}
    assert world.job is not None
    world.job = with_status(world.job, agent={"requests": old})
    await handled(world)
    status = world.job.status
    assert status is not None and status.agent is not None
    assert set(status.agent.requests or ()) == {REQUEST}


async def test_requests_of_two_jobs_with_one_id_are_two_requests(world: World) -> None:
    await handled(world)
    again = with_status(a_job(), agent=None)
    world.job = WireJob(
        metadata=type(again.metadata)(name="n1-b", uid="job-uid-2", resource_version="50"),
        spec=again.spec,
        status=again.status,
    )
    await handled(world)
    assert world.acts == RESTARTED * 2


class SlowJournal(MemoryJournal):
    """Its disk takes `seconds` for each intent."""

    def __init__(self, clock: FakeClock, seconds: float) -> None:
        super().__init__()
        self._clock, self._seconds = clock, seconds

    def begin(self, key: Key, entry: JournalEntry, now: datetime) -> None:
        super().begin(key, entry, now)
        self._clock.step(timedelta(seconds=self._seconds))


@pytest.mark.parametrize(
    ("seconds", "limits", "state"), [(20.0, [100.0], "Done"), (121.0, [], "Refused")]
)
async def test_what_a_slow_disk_takes_is_not_given_to_the_act(
    world: World, seconds: float, limits: list[float], state: str
) -> None:
    journal = SlowJournal(world.clock, seconds)
    bench = Bench(world, world.clock, 0.0, {})
    core = AgentCore(world, bench, journal, node="n1", agent="n1")
    assert world.job is not None
    await core.handle(world.job)
    assert world.limits == limits
    assert world.answer_now is not None and world.answer_now.state == state
    assert list(journal.interrupted()) == []


async def test_the_output_is_bounded(world: World) -> None:
    world.job = a_job(agent_step={"action": "X" * 9000})
    await handled(world)
    assert world.answer_now is not None
    assert len(world.answer_now.output) == 4096


@pytest.mark.parametrize("applied", [False, True])
async def test_dying_at_any_moment_acts_at_most_once_and_answers(
    tmp_path: Path, applied: bool
) -> None:
    ends = set()
    for die_at in count(1):
        world = World(tmp_path / str(die_at), die_at=die_at, applied=applied)
        await until_answered(world)
        assert len(world.acts) <= 1
        assert world.answer_now is not None
        ends.add(world.answer_now.state)
        if world.answer_now.state == "Done":
            assert world.acts == RESTARTED
            assert world.active == "active"
        else:
            assert world.acts == []
            assert "not repeated" in world.answer_now.output
        if world.moments < die_at or world.die_at:
            break  # every moment had its turn
    assert ends == {"Done", "Failed"}


@pytest.mark.parametrize("applied", [False, True])
async def test_f23_after_a_reboot_in_the_middle_the_boot_id_decides(
    tmp_path: Path, applied: bool
) -> None:
    for die_at in count(1):
        world = World(tmp_path / str(die_at), die_at=die_at, applied=applied)
        core = world.core()
        assert world.job is not None
        with suppress(Killed):
            await core.handle(world.job)
            return
        acted, world.die_at = list(world.acts), 0
        world.booted()
        await until_answered(world)
        assert world.acts == acted  # nothing of the old boot is begun on the new one
        assert world.answer_now is not None
        if die_at < 4:
            assert world.answer_now.state in ("Refused", "Failed")


async def test_a_oneshot_killed_before_its_act_is_not_taken_for_done(tmp_path: Path) -> None:
    """systemd forgets the invocation of a unit that is reset: another one proves nothing."""
    world = World(tmp_path, oneshot=True, comes_up="inactive", die_at=4, applied=True)
    await until_answered(world)
    assert world.resets == 1
    assert world.acts == []
    assert world.answer_now is not None and world.answer_now.state == "Failed"


async def test_an_outcome_on_disk_is_the_answer_whatever_happened_since(tmp_path: Path) -> None:
    world = World(tmp_path)
    core = world.core()
    assert world.job is not None

    async def cut(*args: object) -> str:
        raise Killed

    world.answer, answer = cut, world.answer  # type: ignore[method-assign, assignment]
    with pytest.raises(Killed):
        await core.handle(world.job)
    world.answer, world.active = answer, "failed"  # type: ignore[method-assign]
    await until_answered(world)
    assert world.acts == RESTARTED
    assert world.answer_now is not None and world.answer_now.state == "Done"


async def test_a_lost_message_bus_is_decided_by_what_the_unit_shows(world: World) -> None:
    world.bus_lost = True
    await handled(world)
    assert world.answer_now is not None
    assert world.answer_now.state == "Done"
    assert "the result stands" in world.answer_now.output


async def test_an_interrupted_reload_proves_nothing(tmp_path: Path) -> None:
    world = World(tmp_path, job=a_job(agent_step={"action": "ReloadUnit", "unit": UNIT}))
    world.active, world.die_at, world.applied = "active", 4, True  # right after the act
    await until_answered(world)
    assert world.acts == [(UnitVerb.RELOAD, UNIT)]
    assert world.answer_now is not None
    assert world.answer_now.state == "Failed"
    assert "interrupted; not repeated" in world.answer_now.output


async def test_a_full_disk_refuses_and_says_so(world: World, tmp_path: Path) -> None:
    core = world.core()
    world.folder.rmdir()
    world.folder.write_text("no folder any more")
    assert world.job is not None
    await core.handle(world.job)
    assert world.acts == []
    ((_, answer),) = world.answers
    assert answer.state in ("Refused", "Failed")
    assert "journal entry" in answer.output


async def test_an_entry_that_cannot_be_read_forbids(world: World) -> None:
    core = world.core()
    (world.folder / f"job-uid-1.{REQUEST}").write_bytes(b"\0" * 40)
    assert world.job is not None
    await core.recover()
    await core.handle(world.job)
    assert world.acts == []
    assert world.answer_now is not None
    assert world.answer_now.state == "Failed"


async def test_a_unit_that_flaps_right_after_its_start_is_not_started(world: World) -> None:
    """systemd says done once the process runs; the settle time sees it die."""
    from agent.actions import Bench
    from agent.core import AgentCore
    from agent.journal import MemoryJournal

    bench = Bench(world, world.clock, 1.0)
    core = AgentCore(world, bench, MemoryJournal(), node="n1", agent="n1")
    assert world.job is not None
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(core.handle(world.job))
        await world.clock.advance(timedelta(seconds=0.5))
        assert not work.done()
        world.active = "failed"
        await world.clock.advance(timedelta(seconds=0.2))
        await world.clock.advance(timedelta(seconds=0.2))
        await work
    assert world.answer_now is not None
    assert (world.answer_now.state, world.answer_now.code) == ("Failed", 3)


def test_every_action_of_the_api_is_in_the_catalogue() -> None:
    from agent.actions import CATALOGUE
    from agent.wire import BEHIND
    from kubenode.api.v1alpha1.ladder import AgentAction

    of_the_api = {action.value for action in AgentAction}
    assert set(CATALOGUE) == of_the_api | BEHIND
    assert not of_the_api & BEHIND, "asked by steps of their own, never as an agent step"


def test_the_agent_reads_what_the_models_write() -> None:
    from kubenode.api.v1alpha1 import RemedyOperationJob

    written: dict[str, Any] = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "RemedyOperationJob",
        "metadata": {"name": "j", "uid": "u"},
        "spec": {
            "nodeName": "n",
            "agent": "a",
            "trigger": {"firstTrue": T0.isoformat()},
            "ladder": [
                {"name": "r", "steps": [{"agent": {"action": "RestartUnit", "unit": UNIT}}]}
            ],
        },
        "status": {
            "phase": "Running",
            "steps": [
                {
                    "rung": 0,
                    "index": 0,
                    "name": "agent",
                    "by": "Agent",
                    "requestID": "r0s0a1",
                    "state": "Running",
                    "bootID": "b",
                    "expiresAt": T0.isoformat(),
                }
            ],
        },
    }
    from agent.request import open_requests, read
    from agent.wire import decode_job

    model = RemedyOperationJob.model_validate(written)
    job = decode_job(model.model_dump_json(by_alias=True, exclude_none=True).encode())
    ((request_id, step),) = open_requests(job)
    request = read(job, step)
    assert (request_id, request.timeout, request.expires_at) == ("r0s0a1", 120.0, T0)
    assert request.step is not None and request.step.unit == UNIT
