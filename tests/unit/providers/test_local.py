"""Provider `local`: what a command says and how it ends becomes a state or a typed error."""

import asyncio
import os
from datetime import timedelta
from pathlib import Path

import pytest
from support.clock import FakeClock
from support.running import until

from kubenode.providers.errors import (
    Busy,
    Denied,
    NoSuchMachine,
    ProviderError,
    Refused,
    Throttled,
    Unreachable,
    Unsupported,
)
from kubenode.providers.local.commands import MAX_IN_FLIGHT
from kubenode.providers.local.power import Local
from kubenode.providers.port import PowerState, ProviderMachine

N1 = ProviderMachine("kubenode-local://rack-7/n1", "n1")


def script(folder: Path, text: str, *, timeout: float = 20.0) -> Local:
    """A provider whose command is a shell script; $1 verb, $2 machine, $3 request."""
    path = folder / "power"
    path.write_text(text)
    command = ["/bin/sh", str(path)]
    return Local(command, timeout=timedelta(seconds=timeout), clock=FakeClock())


@pytest.mark.parametrize(
    ("printed", "state"),
    [
        ("on", PowerState.ON),
        ("off", PowerState.OFF),
        ("OFF: no process is left", PowerState.UNKNOWN),
        ("Off since noon", PowerState.OFF),
        ("starting", PowerState.STARTING),
        ("stopping", PowerState.STOPPING),
        ("gone", PowerState.GONE),
        ("unknown", PowerState.UNKNOWN),
        ("shut off", PowerState.UNKNOWN),
        ("", PowerState.UNKNOWN),
    ],
)
async def test_only_a_known_first_word_is_a_state(
    tmp_path: Path, printed: str, state: PowerState
) -> None:
    power = await script(tmp_path, f"echo '{printed}'").power(N1)
    assert power.state is state


async def test_command_is_told_verb_machine_request_and_node(tmp_path: Path) -> None:
    local = script(tmp_path, f'echo "$1 $2 $3 $KUBENODE_NODE" >>{tmp_path}/said')
    await local.off(N1, "r1s2a1")
    await local.on(N1, "r1s3a1")
    await local.reset(N1, "r1s4a1")
    assert (tmp_path / "said").read_text().splitlines() == [
        "off rack-7/n1 r1s2a1 n1",
        "on rack-7/n1 r1s3a1 n1",
        "reset rack-7/n1 r1s4a1 n1",
    ]


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (1, Unreachable),
        (64, Unsupported),
        (68, NoSuchMachine),
        (69, Unreachable),
        (75, Busy),
        (77, Denied),
        (78, Refused),
        (126, Unreachable),
    ],
)
async def test_exit_code_is_a_typed_error_with_the_command_s_words(
    tmp_path: Path, code: int, kind: type[ProviderError]
) -> None:
    local = script(tmp_path, f"echo 'no answer from rack 7' >&2; exit {code}")
    with pytest.raises(kind, match="no answer from rack 7") as raised:
        await local.off(N1, "r")
    assert type(raised.value) is kind


async def test_state_printed_by_a_command_that_failed_is_no_state(tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        await script(tmp_path, "echo off; exit 1").power(N1)


async def test_command_that_hangs_is_unreachable_and_killed_with_its_children(
    tmp_path: Path,
) -> None:
    local = script(tmp_path, f"sleep 60 & echo $! >{tmp_path}/pid; wait", timeout=0.3)
    with pytest.raises(Unreachable, match=r"did not end within 0\.3 s"):
        await local.off(N1, "r")
    pid = int((tmp_path / "pid").read_text())
    assert not _runs(pid)


async def test_command_of_a_cancelled_call_is_killed(tmp_path: Path) -> None:
    local = script(tmp_path, f"echo $$ >{tmp_path}/pid; mv {tmp_path}/pid {tmp_path}/is; sleep 60")
    call = asyncio.ensure_future(local.off(N1, "r"))
    await until((tmp_path / "is").exists)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    assert not _runs(int((tmp_path / "is").read_text()))


def _runs(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


async def test_command_that_cannot_start_is_unreachable_by_name() -> None:
    local = Local(["/nowhere/power"])
    with pytest.raises(Unreachable, match="/nowhere/power does not start"):
        await local.power(N1)


def test_empty_command_is_refused() -> None:
    with pytest.raises(ValueError, match="give the program"):
        Local([])


@pytest.mark.parametrize(
    "provider_id",
    [
        "kubenode-local://rack-7/n2",
        "kubenode-local://",
        "kubenode-local://--help/n1",
        "kubenode-local://../n1",
        "kubenode-local:///n1",
        "kubenode-local://rack 7/n1",
        "kubenode-local://rack/n1\n",
        f"kubenode-local://{'r' * 600}/n1",
    ],
)
async def test_id_that_could_be_another_machine_s_runs_nothing(
    tmp_path: Path, provider_id: str
) -> None:
    local = script(tmp_path, f"echo on; touch {tmp_path}/ran")
    with pytest.raises(Refused):
        await local.off(ProviderMachine(provider_id, "n1"), "r")
    assert not (tmp_path / "ran").exists()


def test_own_are_the_ids_with_the_prefix() -> None:
    local = Local(["power"], prefix="lab://")
    assert local.owns(ProviderMachine("lab://a/n1", "n1"))
    assert not local.owns(N1)
    assert not local.owns(ProviderMachine("", "n1"))


async def test_more_output_than_is_kept_does_not_hold_up_the_command(tmp_path: Path) -> None:
    local = script(tmp_path, "echo on; head -c 300000 /dev/zero | tr '\\0' x")
    power = await local.power(N1)
    assert power.state is PowerState.ON
    assert len(power.raw) < 1000


async def test_too_many_calls_at_once_are_throttled(tmp_path: Path) -> None:
    local = script(tmp_path, "sleep 60")
    calls = [asyncio.ensure_future(local.power(N1)) for _ in range(MAX_IN_FLIGHT)]
    await asyncio.sleep(0)
    with pytest.raises(Throttled) as raised:
        await local.power(N1)
    assert raised.value.after is not None
    for call in calls:
        call.cancel()
    await asyncio.gather(*calls, return_exceptions=True)


async def test_secrets_do_not_travel_with_the_command_s_words(tmp_path: Path) -> None:
    local = script(tmp_path, "echo 'login failed: password=hunter2' >&2; exit 77")
    with pytest.raises(Denied) as raised:
        await local.off(N1, "r")
    assert "hunter2" not in str(raised.value)


async def test_neither_replaces_nor_approves(tmp_path: Path) -> None:
    local = script(tmp_path, "exit 0")
    assert not (local.can.replace or local.can.approve or local.can.repeatable)
    with pytest.raises(Unsupported):
        await local.replace(N1, "r")
    with pytest.raises(Unsupported):
        await local.approve(N1, "event")


def test_environment_of_ours_is_not_changed() -> None:
    assert "KUBENODE_NODE" not in os.environ
