"""`kubenode watch` as its user runs it: with its output in a pipe, and on a terminal."""

import os
import pty
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
from support.command import COMMAND, environment, kubenode, started
from support.embedded import EmbeddedPlane

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
RULE = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "NodeRemedier",
    "metadata": {"name": "deadlock"},
    "spec": {
        "mode": "DryRun",
        "nodes": {"all": True},
        "when": {"condition": {"type": "KernelDeadlock"}},
        "ladder": [{"name": "page", "steps": [{"notify": {}}]}],
    },
}


def node(status: str) -> dict[str, Any]:
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": "n1"},
        "status": {"conditions": [{"type": "KernelDeadlock", "status": status}]},
    }


@pytest.fixture
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        plane.api.load([RULE, node("False")])
        yield plane


def test_a_pipe_gets_the_status_and_then_a_line_for_each_change(plane: EmbeddedPlane) -> None:
    with started("watch", "--every", "1s", "--kubeconfig", plane.kubeconfig) as process:
        assert process.stdout is not None
        assert process.stdout.readline() == "No node has a fault.\n"
        plane.patch("/api/v1/nodes/n1/status", {"status": node("True")["status"]})
        line = next(line for line in process.stdout if "  n1  " in line)
    assert line.endswith("n1  KernelDeadlock: has no job\n")


def test_a_terminal_shows_the_screen(plane: EmbeddedPlane) -> None:
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [COMMAND, "watch", "--every", "1s", "--kubeconfig", str(plane.kubeconfig)],
        env=environment(TERM="xterm"), stdin=theirs, stdout=theirs, stderr=theirs,
    )  # fmt: skip
    os.close(theirs)  # so that the end of the process ends the reading
    try:
        screen = b""
        while b"No node has a fault." not in screen:
            screen += os.read(ours, 4096)
        assert b"Ctrl-C ends" in screen
    finally:
        process.kill()
        process.wait()
        os.close(ours)
