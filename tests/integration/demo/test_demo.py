"""The demo as a visitor runs it: a subprocess, real controllers, real engine child, one JSON line.

`make demo ARGS="--for 60s --seed 7 --json"` is the acceptance run; here a shorter one keeps the
suite quick. Both zero-counts come from an observer whose own tests prove that it counts.
"""

import fcntl
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import termios
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.command import COMMAND, environment, fresh, freshly_started

from simulation.demo.breakers import STALE

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]


@pytest.fixture(scope="module")
def run() -> subprocess.CompletedProcess[str]:
    return fresh("demo", "--for", "45s", "--seed", "7", "--json", limit=150)


def test_ends_with_one_line_of_json_and_exit_code_0(
    run: subprocess.CompletedProcess[str],
) -> None:
    assert run.returncode == 0, run.stderr
    (line,) = run.stdout.splitlines()
    found = json.loads(line)
    assert found["nodes"] == 300
    assert found["faultsInjected"] >= 15
    assert sum(found["jobs"].values()) >= 10


def test_faults_are_healed_without_false_acts_or_limits_passed(
    run: subprocess.CompletedProcess[str],
) -> None:
    found = json.loads(run.stdout)
    assert found["healed"] >= 8
    assert found["falseActions"] == 0, found["falseActionsSeen"]
    assert found["limitViolations"] == 0, found["limitViolationsSeen"]
    assert found["observerGaps"] == 0
    assert found["actsJudged"] >= found["healed"]
    assert found["permitsJudged"] >= found["healed"]


def test_times_are_those_of_the_faults(run: subprocess.CompletedProcess[str]) -> None:
    found = json.loads(run.stdout)
    for name in ("timeToDetect", "timeToDecide", "timeToHeal"):
        assert 0 < found[name]["p50"] <= found[name]["p99"] < 45
    assert found["timeToDetect"]["p50"] < found["timeToHeal"]["p50"]


def test_says_how_fast_time_runs_and_how_to_look_beside_it(
    run: subprocess.CompletedProcess[str],
) -> None:
    assert "every duration of the rules and of the default policy is divided by 20" in run.stderr
    assert "kubectl --kubeconfig" in run.stderr
    assert "Traceback" not in run.stderr


@pytest.fixture(scope="module")
def storm() -> subprocess.CompletedProcess[str]:
    return fresh(
        "demo", "--scenario", "storm", "--nodes", "120", "--for", "60s", "--seed", "7", "--json",
        limit=180,
    )  # fmt: skip


def test_a_storm_opens_a_breaker_which_closes_again_step_by_step(
    storm: subprocess.CompletedProcess[str],
) -> None:
    assert storm.returncode == 0, storm.stderr
    found = json.loads(storm.stdout)
    assert found["scenario"] == "storm"
    assert found["breakerOpened"] >= 1, found
    assert found["breakerClosed"] >= 1, found
    assert "breakerUnexplained" not in found
    # 10 minutes, 50 times faster; the observer may hear of the opening later than of its end
    assert found["breakerOpenSeconds"] >= 12 - STALE
    # No lower bound: on a fast machine the fault of the zone is known before any of its jobs is
    # made, and then no job asks for a permit until the breaker is closed.
    assert found["halfOpenMostPermits"] <= 8


def test_in_a_storm_nothing_wrong_is_done_and_single_faults_elsewhere_are_healed(
    storm: subprocess.CompletedProcess[str],
) -> None:
    found = json.loads(storm.stdout)
    assert found["healedElsewhere"] >= 1, found
    assert found["permitsWhileOpen"] == 0
    assert found["limitViolations"] == 0, found["limitViolationsSeen"]
    assert found["falseActions"] == 0, found["falseActionsSeen"]
    assert found["observerGaps"] == 0


def test_an_unknown_scenario_is_refused_with_those_that_there_are() -> None:
    told = fresh("demo", "--scenario", "hurricane", limit=60)
    assert told.returncode == 2
    assert "--scenario hurricane: no such scenario; choose mixed, storm" in told.stderr


def test_the_dashboard_of_the_demo_is_where_it_says() -> None:
    with freshly_started("demo", "--nodes", "60", "--seed", "7", "--json") as process:
        found = re.search(r"dashboard: (\S+)", "".join(until_running(process)))
        assert found is not None
        with urllib.request.urlopen(found.group(1), timeout=20) as answer:
            assert answer.status == 200
            assert b"KubeNode" in answer.read()
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_interrupted_in_mid_storm_it_still_sums_up() -> None:
    run = ["demo", "--scenario", "storm", "--nodes", "60", "--seed", "7", "--json"]
    with freshly_started(*run) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "Open" in line and "breakers:" in line:
                break
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=20)
        assert process.returncode == 0, err
        found = json.loads(out)
        assert (found["breakerOpened"], found["limitViolations"]) == (1, 0), found


def children(session: int) -> set[int]:
    """Processes of the demo's own session, whatever group each is in."""
    found = set()
    for stat in Path("/proc").glob("[0-9]*/stat"):
        try:
            fields = stat.read_text().rpartition(")")[2].split()
        except OSError:
            continue
        if int(fields[3]) == session and fields[0] != "Z":
            found.add(int(stat.parent.name))
    return found


def until_running(process: subprocess.Popen[str]) -> Iterator[str]:
    """The lines of standard error up to the one that says that it runs."""
    assert process.stderr is not None
    for line in process.stderr:
        yield line
        if re.search(r"^\d+ s: ", line):
            return
    pytest.fail(f"the demo ended with {process.wait()}")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_ends_it_in_3_seconds_with_the_summary_and_no_process_left(
    number: signal.Signals,
) -> None:
    with freshly_started("demo", "--nodes", "60", "--seed", "7", "--json") as process:
        list(until_running(process))
        assert len(children(process.pid)) > 1  # the engine's child is there
        began = time.monotonic()
        process.send_signal(number)
        out, err = process.communicate(timeout=20)
        took = time.monotonic() - began
        assert took < 3, f"{took:.1f} s"
        assert process.returncode == 0, err
        assert json.loads(out)["nodes"] == 60
        deadline = time.monotonic() + 20
        while children(process.pid) and time.monotonic() < deadline:
            time.sleep(0.05)
        assert children(process.pid) == set()


@pytest.mark.skipif(shutil.which("kubectl") is None, reason="kubectl is not installed")
def test_kubectl_works_beside_it(tmp_path: Path) -> None:
    with freshly_started("demo", "--nodes", "60", "--seed", "7", "--json") as process:
        text = "".join(until_running(process))
        found = re.search(r"kubectl --kubeconfig (\S+)", text)
        assert found is not None, text
        for arguments, word in (
            (["get", "nodes"], "n00004"),
            (["get", "noderemediers"], "kubelet-unhealthy"),
            (["get", "kndp"], "default"),
            (["describe", "node", "n00004"], "KubeletUnhealthy"),
        ):
            told = subprocess.run(
                ["kubectl", "--kubeconfig", found.group(1), *arguments],
                env={"PATH": os.environ["PATH"], "HOME": str(tmp_path)},
                capture_output=True,
                text=True,
                timeout=30,
                check=False,
            )
            assert word in told.stdout, told.stderr
        process.send_signal(signal.SIGINT)
        process.communicate(timeout=20)


def test_on_a_terminal_it_draws_the_fleet_and_ends_with_the_summary() -> None:
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", 30, 100, 0, 0))
    process = subprocess.Popen(
        [COMMAND, "demo", "--nodes", "60", "--seed", "7"],
        env=environment(TERM="xterm-256color"),
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        start_new_session=True,
    )
    os.close(theirs)
    try:
        shown = read_until(ours, b"budgets", 60)
        assert b"zone-a: 20 nodes" in shown
        assert b"every duration of rules and policy is divided by 20" in shown
        process.send_signal(signal.SIGINT)
        last = read_until(ours, b"The observer judged", 30)
        assert process.wait(timeout=30) == 0
        assert b"\x1b[?1049l" in last  # the screen is given back
    finally:
        if process.poll() is None:
            process.kill()
            process.wait()
        os.close(ours)


def read_until(terminal: int, word: bytes, limit: float) -> bytes:
    """What the terminal shows up to `word`, within `limit` seconds."""
    shown = b""
    deadline = time.monotonic() + limit
    while word not in shown and time.monotonic() < deadline:
        if select.select([terminal], [], [], 0.5)[0]:
            shown += os.read(terminal, 65536)
    assert word in shown, shown[-2000:].decode(errors="replace")
    return shown
