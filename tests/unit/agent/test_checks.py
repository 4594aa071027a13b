"""RunCheck: only what is listed, and a check that says nothing is no answer (failure mode F01)."""

import hashlib
import os
import sys
from asyncio.subprocess import DEVNULL
from pathlib import Path
from typing import Any

import pytest
from support.agent_world import World, a_job, until_answered
from support.running import gone, until

from agent.actions import checks
from agent.actions.checks import AllowedCheck
from agent.host import HostError
from agent.host.files import HostRoot
from agent.programs import run, started
from agent.wire import WireAnswer, decode_job

STEP = {"action": "RunCheck", "check": "disk", "timeout": "5s"}


def listed(folder: Path, script: str, name: str = "check") -> AllowedCheck:
    file = folder / name
    file.write_text(f"#!/bin/sh\n{script}\n")
    file.chmod(0o755)
    return AllowedCheck([str(file), "one"], hashlib.sha256(file.read_bytes()).hexdigest())


async def answer(tmp_path: Path, check: AllowedCheck | None, limit: str = "5s") -> WireAnswer:
    world = World(tmp_path / "requests", job=a_job(agent_step={**STEP, "timeout": limit}))
    world.checks = {"disk": check} if check is not None else {}
    await until_answered(world)
    assert world.answer_now is not None
    return world.answer_now


async def test_exit_0_is_well_and_another_status_is_not(tmp_path: Path) -> None:
    well = await answer(tmp_path / "a", listed(tmp_path, 'echo "fine: $1"'))
    assert (well.state, well.code, well.output) == ("Done", 0, "check disk: fine: one")
    ill = await answer(tmp_path / "b", listed(tmp_path, "echo bad >&2; exit 3"))
    assert (ill.state, ill.code) == ("Failed", 3)
    assert "exit status 3: bad" in ill.output


@pytest.mark.parametrize(
    ("script", "code", "said"),
    [
        ("exit 127", 127, "exit status 127"),
        ("exit 126", 127, "exit status 126"),
        ("kill -9 $$", 127, "killed by signal 9"),
        ("sleep 30", 124, "no result within"),
    ],
)
async def test_f01_a_check_that_is_broken_or_hangs_is_unknown(
    tmp_path: Path, script: str, code: int, said: str
) -> None:
    found = await answer(tmp_path, listed(tmp_path, script), limit="250ms")
    assert (found.state, found.code) == ("Failed", code)
    assert said in found.output


async def test_a_child_that_is_left_behind_does_not_hold_the_answer(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    found = await answer(tmp_path, listed(tmp_path, f"sleep 300 & echo $! > {pid}; echo fine"))
    assert (found.state, found.output) == ("Done", "check disk: fine")
    await gone(int(pid.read_text()))


async def test_f01_a_check_that_is_missing_is_unknown(tmp_path: Path) -> None:
    gone = AllowedCheck(["/nowhere/check"], "0" * 64)
    found = await answer(tmp_path, gone)
    assert (found.state, found.code) == ("Failed", 127)
    assert "/nowhere/check: No such file or directory" in found.output


async def test_only_listed_checks_run_and_only_as_they_were_listed(tmp_path: Path) -> None:
    unlisted = await answer(tmp_path / "a", None)
    assert (unlisted.state, unlisted.code) == ("Failed", 127)
    assert "not in the agent's configuration, which has none" in unlisted.output
    check = listed(tmp_path, "touch /tmp/never")
    listed(tmp_path, "echo changed")
    changed = await answer(tmp_path / "b", check)
    assert changed.code == 127 and "has digest" in changed.output


async def test_what_a_check_started_ends_with_it(tmp_path: Path) -> None:
    told = tmp_path / "pid"
    check = listed(tmp_path, f"sleep 60 & echo $! > {told}.new; mv {told}.new {told}; sleep 60")
    with pytest.raises(TimeoutError):
        await run(check.argv, 0.5)
    await until(lambda: not runs(told), what="what it started is gone")


def runs(told: Path) -> bool:
    stat = Path(f"/proc/{told.read_text().strip()}/stat")
    return stat.exists() and ") Z " not in stat.read_text()


async def test_endless_output_is_bounded_and_its_end_is_kept(tmp_path: Path) -> None:
    check = listed(tmp_path, "yes | head -c 3000000; echo the end")
    code, said = await run(check.argv, 20)
    assert code == 0 and said.endswith("the end") and len(said) <= 64 * 1024


async def test_a_file_that_is_no_program_cannot_be_run(tmp_path: Path) -> None:
    file = tmp_path / "data"
    file.write_text("x")
    with pytest.raises(HostError, match="Permission denied"):
        await run([str(file)], 1)


def test_checks_of_verify_stand_behind_the_steps() -> None:
    raw = b"""{"metadata": {"name": "j", "uid": "u"}, "spec": {"ladder": [{"steps": [{"agent":
      {"action": "RestartUnit", "unit": "a.service"}}], "verify": {"checks": [{"agent":
      {"action": "RunCheck", "check": "disk"}}]}}]}, "status": {"phase": "Verifying", "steps":
      [{"rung": 0, "index": 16, "by": "Agent", "state": "Running", "requestID": "r0c0a1"},
       {"rung": 0, "index": 17}, {"rung": 0, "index": 1}, {"rung": 0, "index": 0}]}}"""
    job = decode_job(raw)
    assert job.status is not None and job.status.steps is not None
    found = [job.action_of(step) for step in job.status.steps]
    assert [step.action if step else None for step in found] == [
        "RunCheck",
        None,
        None,
        "RestartUnit",
    ]


async def test_a_file_that_is_swapped_after_the_comparison_is_not_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bytes whose digest was compared are run, not the file once more."""
    check = listed(tmp_path, "echo listed")

    async def swapped(argv: list[str], limit: float, **more: Any) -> tuple[int, str]:
        listed(tmp_path, "echo swapped")
        return await run(argv, limit, **more)

    monkeypatch.setattr(checks, "run", swapped)
    found = await answer(tmp_path, check)
    assert (found.state, found.output) == ("Done", "check disk: listed")


SWAP = """
import os, sys
file, folder = sys.argv[1:]
contents = [b"#!/bin/sh\\necho swapped\\n", open(file, "rb").read()]
while True:
    for content in contents:
        new = os.open(folder + "/new", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o755)
        os.write(new, content)
        os.close(new)
        os.rename(folder + "/new", file)
"""


async def test_whoever_swaps_the_file_all_the_time_gets_nothing_run(tmp_path: Path) -> None:
    check = listed(tmp_path, "echo listed")
    argv = [sys.executable, "-c", SWAP, check.argv[0], str(tmp_path)]
    ran = refused = 0
    async with started(argv, DEVNULL):
        while not (ran > 100 and refused > 100):
            try:
                with checks.opened(check, HostRoot()) as program:
                    code, said = await run(check.argv, 5.0, program=program)
            except HostError as error:
                assert "has digest" in str(error)
                refused += 1
                continue
            assert (code, said) == (0, "listed")
            ran += 1


async def test_a_program_cannot_be_changed_while_it_is_run(tmp_path: Path) -> None:
    with (
        checks.opened(listed(tmp_path, "echo listed"), HostRoot()) as program,
        pytest.raises(PermissionError),
    ):
        os.pwrite(program, b"#!/bin/sh\necho changed\n", 0)


async def test_a_binary_is_run_by_its_bytes_too(tmp_path: Path) -> None:
    check = AllowedCheck(["/bin/true"], digest_of("/bin/true"))
    found = await answer(tmp_path, check)
    assert (found.state, found.code) == ("Done", 0)


def digest_of(path: str) -> str:
    return hashlib.sha256(Path(path).read_bytes()).hexdigest()


async def test_a_check_that_is_too_large_is_not_read_into_memory(tmp_path: Path) -> None:
    check = listed(tmp_path, "exit 0")
    os.truncate(check.argv[0], checks.MOST_BYTES + 1)
    found = await answer(tmp_path, check)
    assert found.code == 127 and f"larger than {checks.MOST_BYTES} bytes" in found.output
