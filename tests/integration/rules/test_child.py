"""The engine's child ends with its parent, whatever state either of them is in."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from kubenode.runtime.child import ChildProcess
from rules.engines.talk import HEAD, hear

pytestmark = pytest.mark.integration

PARENT = """
import sys, time
from kubenode.runtime.child import ChildProcess
from rules.engines.talk import hear
child = ChildProcess("rules.engines.child")
hear(child, time.monotonic() + 20)
print(child.pid, flush=True)
sys.stdin.read()
"""


def gone(pid: int) -> bool:
    """Whether it has ended; one that waits for its parent to take note has."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return True
    return state in "ZX"


def ended(pid: int) -> bool:
    deadline = time.monotonic() + 20
    while not gone(pid) and time.monotonic() < deadline:
        time.sleep(0.02)
    return gone(pid)


def test_a_child_whose_parent_is_gone_before_it_can_answer_ends_without_a_word() -> None:
    """Its stderr is the log of a program that was killed: a trace there is taken for the cause."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.close()
        descriptor = theirs.fileno()
        child = subprocess.run(
            [sys.executable, "-m", "rules.engines.child", str(descriptor)],
            pass_fds=[descriptor],
            stderr=subprocess.PIPE,
            text=True,
            timeout=60,
            check=False,
        )
    assert (child.returncode, child.stderr) == (0, "")


@pytest.mark.parametrize("stopped", [False, True])
def test_child_does_not_outlive_a_killed_parent(stopped: bool) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as parent:
        assert parent.stdout is not None
        pid = int(parent.stdout.readline())
        if stopped:
            os.kill(pid, signal.SIGSTOP)
        parent.kill()
        parent.wait()
    assert ended(pid)


def test_child_has_a_process_group_of_its_own() -> None:
    child = ChildProcess("rules.engines.child")
    try:
        hear(child, time.monotonic() + 20)
        assert os.getpgid(child.pid) == child.pid
    finally:
        child.kill()


HANGING = """
import ctypes, sys
from rules.engines import child

class Library:
    def create_ruleset(self, name, text):
        ctypes.CDLL(None).pause()  # in C, where Python sees no signal

child.REQUEST_SECONDS = 1
connection = child.socket.socket(fileno=int(sys.argv[1]))
child.serve(connection, child.EngineService(Library()))
"""


def test_child_that_hangs_in_c_ends_by_itself() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        process = subprocess.Popen(
            [sys.executable, "-c", HANGING, str(theirs.fileno())], pass_fds=[theirs.fileno()]
        )
        good: dict[str, Any] = {"r0ep#0": {"all": [{"m": {"$and": [{"k": "eval"}, {"t0": True}]}}]}}
        request = {"op": "load", "rulesets": [{"rules": good, "slots": [0]}]}
        body = json.dumps(request).encode()
        ours.sendall(HEAD.pack(len(body)) + body)
        try:
            assert process.wait(20) == -signal.SIGALRM
        finally:
            process.kill()
            process.wait()


BREAKING_OUT = """
import json, os, socket, subprocess, sys
from rules.engines import child

written = open(sys.argv[1], "wb", buffering=0)
if os.geteuid() == 0:  # root may raise its limits again; images do not run as root
    os.setgroups([]), os.setgid(65534), os.setuid(65534)
child.give_up_rights()
attempts = {
    "file": lambda: open("/etc/hostname"),
    "socket": lambda: socket.socket(),
    "process": lambda: subprocess.run(["/bin/true"], check=True),
    "write": lambda: written.write(b"x"),
    "undo": lambda: child.resource.setrlimit(child.resource.RLIMIT_NOFILE, (64, 64)),
}
child.signal.signal(child.signal.SIGXFSZ, child.signal.SIG_IGN)
for name, attempt in attempts.items():
    try:
        attempt()
        print(name, flush=True)
    except (OSError, ValueError):
        pass
print("end")
"""


def test_child_that_gave_up_its_rights_opens_and_starts_nothing(tmp_path: Path) -> None:
    script = [sys.executable, "-c", BREAKING_OUT, str(tmp_path / "file")]
    answer = subprocess.run(script, capture_output=True, text=True, timeout=60, check=False)
    assert (answer.stdout, answer.returncode) == ("end\n", 0), answer.stderr


def test_child_has_given_up_its_rights_before_it_reads_rules() -> None:
    child = ChildProcess("rules.engines.child")
    try:
        hear(child, time.monotonic() + 20)
        limits = Path(f"/proc/{child.pid}/limits").read_text()
        status = Path(f"/proc/{child.pid}/status").read_text()
    finally:
        child.kill()
    for limit in ("Max open files", "Max processes", "Max file size"):
        assert re.search(rf"^{limit} +0 +0 ", limits, re.MULTILINE), limit
    assert "NoNewPrivs:\t1" in status


def test_child_gets_no_credential_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("KUBENODE_REDIS_PASSWORD", "hunter2-secret")
    child = ChildProcess("rules.engines.child")
    try:
        hear(child, time.monotonic() + 20)
        environment = Path(f"/proc/{child.pid}/environ").read_bytes()
    finally:
        child.kill()
    assert b"PATH=" in environment and b"hunter2" not in environment
