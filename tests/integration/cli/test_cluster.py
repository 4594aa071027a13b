"""The command against a cluster that answers: the embedded API server, from nothing on."""

import asyncio
import json
import signal
import socket
import subprocess
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import pytest
from support.command import kubenode, started
from support.daemons import free_port

from kubenode.api.meta import format_time
from kubenode.runtime.clock import SystemClock
from simulation.apiserver.server import EmbeddedApiServer

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

RULE = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "NodeRemedier",
    "metadata": {"name": "kubelet"},
    "spec": {
        "mode": "Enforce",
        "nodes": {"all": True},
        "when": {"condition": {"type": "KubeletUnhealthy", "status": "True", "for": "1h"}},
        "ladder": [{"name": "tell", "steps": [{"notify": {}}]}],
    },
}
NODE = {
    "apiVersion": "v1",
    "kind": "Node",
    "metadata": {"name": "n1"},
    "status": {
        "conditions": [
            {
                "type": kind,
                "status": "True",
                "reason": "Because",
                "lastHeartbeatTime": "2026-11-21T01:59:09Z",
                "lastTransitionTime": "2026-11-21T01:59:09Z",
            }
            for kind in ("Ready", "KubeletUnhealthy")
        ]
    },
}


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedApiServer]:
    async with EmbeddedApiServer() as running:
        yield running


@pytest.fixture
async def config(server: EmbeddedApiServer, tmp_path: Path) -> Path:
    path = tmp_path / "kubeconfig"
    await server.write_kubeconfig(path)
    return path


async def command(*arguments: str | Path) -> subprocess.CompletedProcess[str]:
    return await asyncio.to_thread(kubenode, *arguments)


async def test_install_makes_the_kinds_and_again_changes_nothing(config: Path) -> None:
    first = await command("install", "--kubeconfig", config)
    assert first.returncode == 0, first.stderr
    assert "noderemediers.kubenode.io created" in first.stdout
    assert "namespace kubenode-system created" in first.stdout
    second = await command("install", "--kubeconfig", config)
    assert second.returncode == 0, second.stderr
    assert "created" not in second.stdout
    assert "noderemediers.kubenode.io unchanged" in second.stdout


async def test_run_needs_the_namespace_of_its_leases(config: Path) -> None:
    await command("install", "--kubeconfig", config)
    result = await command("run", "all", "--kubeconfig", config, "--namespace", "elsewhere")
    assert result.returncode == 1
    assert "namespace elsewhere" in result.stderr
    assert "kubenode install" in result.stderr


def ready(port: int, limit: float = 60) -> str:
    """The text of /readyz once it is 200."""
    deadline = time.monotonic() + limit
    told = "no answer"
    while time.monotonic() < deadline:
        try:
            with urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2) as answer:
                return str(answer.read().decode())
        except OSError as error:  # refused, cut off or silent
            told = str(error)
        time.sleep(0.1)
    pytest.fail(f"never ready: {told}")


@pytest.mark.parametrize(
    ("program", "checks"),
    [
        ("all", {"remedy", "defender", "machine"}),
        ("remedy", {"remedy"}),
        ("defender", {"defender"}),
    ],
)
async def test_programs_get_ready_and_end_cleanly_on_sigterm(
    config: Path, program: str, checks: set[str]
) -> None:
    await command("install", "--kubeconfig", config)
    port = free_port()
    more = ["--listen-port", "0"] if program == "defender" else []
    with started(
        "run", program, "--kubeconfig", config, "--health-port", str(port), *more
    ) as process:
        text = await asyncio.to_thread(ready, port)
        assert {line.removeprefix("[+] ") for line in text.split("\n") if line} == checks
        process.send_signal(signal.SIGTERM)
        _, errors = await asyncio.to_thread(process.communicate, timeout=20)
    assert process.returncode == 0, errors
    assert "Traceback" not in errors


async def test_a_health_port_that_is_taken_is_named_with_its_flag(config: Path) -> None:
    await command("install", "--kubeconfig", config)
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        result = await command("run", "all", "--kubeconfig", config, "--health-port", port)
    assert result.returncode == 1, result.stderr
    assert f"port {port} on 127.0.0.1 is taken" in result.stderr
    assert "--health-port" in result.stderr
    assert "Traceback" not in result.stderr


async def test_explain_tells_why_a_node_is_not_repaired(
    server: EmbeddedApiServer, config: Path
) -> None:
    await command("install", "--kubeconfig", config)
    objects: list[dict[str, Any]] = json.loads(json.dumps([RULE, NODE]))
    server.load(objects)
    result = await command("explain", "node", "n1", "--kubeconfig", config)
    assert result.returncode == 0, result.stderr
    assert "node n1: Ready True, schedulable" in result.stdout
    assert "no job" in result.stdout
    assert "rule kubelet, mode Enforce" in result.stdout
    assert "does not match; what is missing" in result.stdout
    assert "KubeletUnhealthy" in result.stdout


@pytest.mark.parametrize("present", [True, False])
async def test_explain_counts_a_failed_attachment_for_the_node_of_its_pod(
    server: EmbeddedApiServer, config: Path, present: bool
) -> None:
    await command("install", "--kubeconfig", config)
    rule = json.loads(json.dumps(RULE))
    rule["spec"]["when"] = {"event": {"reason": "FailedAttachVolume"}}
    meta = {"name": "db-0", "namespace": "default"}
    spec = {"nodeName": "n1", "containers": [{"name": "c", "image": "i"}]}
    pod = {"apiVersion": "v1", "kind": "Pod", "metadata": meta, "spec": spec}
    server.load([rule, NODE, pod])
    (record,) = server.store.collection("pods").records("default")
    at = format_time(SystemClock().now())
    uid = record.obj["metadata"]["uid"] if present else "of-an-earlier-pod"
    event = {
        "apiVersion": "v1",
        "kind": "Event",
        "metadata": {"name": "db-0.1", "namespace": "default"},
        "involvedObject": {"kind": "Pod", "name": "db-0", "namespace": "default", "uid": uid},
        "source": {"component": "attachdetach-controller"},
        "type": "Warning",
        "reason": "FailedAttachVolume",
        "firstTimestamp": at,
        "lastTimestamp": at,
        "count": 1,
    }
    server.load([event])
    result = await command("explain", "node", "n1", "--kubeconfig", config)
    assert result.returncode == 0, result.stderr
    assert ("does not match" not in result.stdout) is present, result.stdout


async def test_explain_of_an_unknown_node_says_so(config: Path) -> None:
    await command("install", "--kubeconfig", config)
    result = await command("explain", "node", "n9", "--kubeconfig", config)
    assert result.returncode == 1
    assert "node n9 is not in the cluster" in result.stderr
