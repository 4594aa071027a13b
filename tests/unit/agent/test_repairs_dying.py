"""An agent that dies at any moment of a repair: begun at most once, and the answer is true."""

from itertools import count
from pathlib import Path

import pytest
from support.repairs import a_host, a_step, answered, dying, world_of

ACTS = {
    "KillProcess": ({"pid": "4711", "startTime": "99", "unit": "lost.service"}, "signal"),
    "CleanDisk": ({"target": "journal", "free": "6"}, "vacuum_journal"),
    "SyncTime": ({}, "measure"),
    "RestartNetwork": ({}, "network.begin"),
    "RemountFilesystem": ({"mountPoint": "/data"}, "remount_writable"),
    "LoadModule": ({"name": "vxlan"}, "load"),
    "ReloadModule": ({"name": "mlx5_ib"}, "unload"),
    "SetSysctl": ({"name": "fs.file-max", "factor": "2"}, "set_sysctl"),
    "DeleteSandbox": ({"id": "a" * 64}, "remove_sandbox"),
    "ResetGPU": ({}, "reset"),
    "RunScript": ({}, "scripts.begin"),
}
UNPROVEN = {"ReloadModule", "ResetGPU"}
"""They leave nothing by which a later process could tell."""


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("action", ACTS)
async def test_dying_at_any_moment_repairs_at_most_once_and_says_what_is_so(
    tmp_path: Path, action: str, applied: bool
) -> None:
    params, act = ACTS[action]
    ends = set()
    for die_at in count(1):
        host = a_host()
        world = world_of(tmp_path / str(die_at) / "j", host, a_step(action, **params))
        assert world.ports is not None
        world.ports, calls = dying(world, world.ports)
        world.die_at, world.applied = die_at, applied
        answer = await answered(world)
        assert sum(call.endswith(act) for call in calls) <= 1, (die_at, calls)
        ends.add(answer.state)
        if answer.state == "Failed":
            assert "interrupted; not repeated" in answer.output, (die_at, answer)
        else:
            assert answer.state == "Done"
        if world.moments < die_at:
            break
    assert ends == {"Done", "Failed"} if not applied or action in UNPROVEN else {"Done"} <= ends


async def test_a_roll_back_is_told_by_the_process_that_follows(tmp_path: Path) -> None:
    for die_at in count(1):
        host = a_host()
        host.network.cut = True
        world = world_of(tmp_path / str(die_at) / "j", host, a_step("RestartNetwork"))
        assert world.ports is not None
        world.ports, calls = dying(world, world.ports)
        world.die_at, world.applied = die_at, True
        answer = await answered(world)
        if "network.begin" in calls:
            assert "were put back" in answer.output
        if world.moments < die_at:
            break
