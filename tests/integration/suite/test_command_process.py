"""Forks in which tests run the command: they behave as the command that a shell starts."""

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from support import command_process
from support.chart_plane import ready
from support.command import environment, fresh, kubenode, started
from support.command_process import CommandProcess
from support.daemons import free_port
from support.programs import Program
from support.waiting import until

pytestmark = pytest.mark.integration
LIMIT = 120.0
ORPHAN = """
import os, signal, sys
from pathlib import Path
from support import command_process
command_process._started.append(Path(sys.argv[1]))
process = command_process.CommandProcess(sys.argv[2:], os.environ)
print(process.pid, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


def insight(folder: Path, health: int = 0) -> list[str]:
    """A program that needs no cluster."""
    store = f"sqlite:///{folder / 'store.db'}"
    ports = ("--insight-port", str(free_port()), "--health-port", str(health))
    return ["run", "insight", "--database-url", store, *ports]


@pytest.fixture
def process(tmp_path: Path) -> Iterator[CommandProcess]:
    port = free_port()
    with started(*insight(tmp_path, port)) as process:
        until(lambda: ready(f"http://127.0.0.1:{port}"), "it is ready", LIMIT)
        yield process


def state(pid: int) -> str:
    """Return the letter of the process's state, "" if it is gone."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return ""


@pytest.mark.parametrize(
    "arguments",
    [("version",), ("dmo",), ("run", "insight", "--insight-port", "many")],
    ids=["output", "usage", "setting"],
)
def test_a_fork_ends_as_a_start_by_a_shell_does(arguments: tuple[str, ...]) -> None:
    fork, start = kubenode(*arguments), fresh(*arguments)
    assert (fork.returncode, fork.stdout, fork.stderr) == (
        start.returncode,
        start.stdout,
        start.stderr,
    )


def test_a_fork_has_the_environment_that_it_is_given(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBENODE_INSIGHT_PORT", "many")
    refused = kubenode("run", "insight", KUBENODE_HEALTH_PORT="none")
    assert refused.returncode == 2
    assert "KUBENODE_HEALTH_PORT" in refused.stderr
    assert "KUBENODE_INSIGHT_PORT" not in refused.stderr


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 0), (signal.SIGKILL, -9)])
def test_a_signal_ends_a_fork(process: CommandProcess, number: signal.Signals, code: int) -> None:
    assert process.poll() is None
    process.send_signal(number)
    assert process.wait(LIMIT) == code
    assert state(process.pid) == ""


def test_a_fork_can_be_frozen_and_has_its_own_session(process: CommandProcess) -> None:
    assert os.getsid(process.pid) == process.pid
    process.send_signal(signal.SIGSTOP)
    until(lambda: state(process.pid) == "T", "it is frozen", LIMIT)
    process.send_signal(signal.SIGCONT)
    until(lambda: state(process.pid) in {"S", "R"}, "it goes on", LIMIT)


def test_pipes_hold_what_a_fork_writes() -> None:
    with started("run", "insight", "--insight-port", "many") as process:
        out, err = process.communicate(LIMIT)
    assert out == "" and "--insight-port" in err
    assert process.returncode == 2


def test_no_answer_within_the_limit_kills_a_fork(tmp_path: Path) -> None:
    with pytest.raises(subprocess.TimeoutExpired):
        kubenode(*insight(tmp_path), limit=0.5)


def test_no_fork_outlives_the_test_that_started_it(tmp_path: Path) -> None:
    kubenode("version")  # the process that forks runs
    (path,) = command_process._started
    tests = Path(__file__).parents[2]
    done = subprocess.run(
        [sys.executable, "-c", ORPHAN, path, *insight(tmp_path)],
        env=environment(PYTHONPATH=str(tests)),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr
    until(lambda: state(int(done.stdout)) == "", "it is gone", LIMIT)


def test_a_fork_ends_with_the_process_that_attends_to_it(process: CommandProcess) -> None:
    stat = Path(f"/proc/{process.pid}/stat").read_text()
    os.kill(int(stat.rpartition(")")[2].split()[1]), signal.SIGKILL)
    until(lambda: state(process.pid) == "", "it is gone", LIMIT)
    assert process.wait(LIMIT) == -signal.SIGKILL


def test_a_program_starts_again_and_appends_to_its_log(tmp_path: Path) -> None:
    program = Program("refused", ["run", "insight", "--insight-port", "many"], tmp_path)
    program.start()
    until(lambda: program.log, "it writes", LIMIT)
    program.stop()
    first = program.log
    program.start()
    until(lambda: program.log != first, "it writes again", LIMIT)
    program.stop()
    assert program.log.startswith(first) and program.starts == 2
