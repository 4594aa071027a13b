"""What the agent reports is true of its host, from the service and from the DaemonSet's Pod.

The Pod's own root says of itself that it is a container, and its tools refuse to work
(tests/hosts/agent_pod.py): evidence of the wrong machine fails here.
"""

import hashlib
import tarfile
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.agent_jobs import Operator, a_probe, an_agent_job, asked
from support.agent_pod import install_agent_pod, pod_binds
from support.agent_service import AGENT, AgentHost, binds, install_agent
from support.control_plane import ControlPlane
from support.hosts import Hosts

from agent.diagnostics.parts import PARTS

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CHECK = "/opt/checks/identity"
PROGRAM = '#!/bin/sh\n. /etc/os-release\necho "$ID $(cat /etc/hostname) $1"\n'
SETTINGS = f"""
[checks.identity]
argv = ["{CHECK}", "listed"]
sha256 = "{hashlib.sha256(PROGRAM.encode()).hexdigest()}"
"""
IMAGES = "/srv/images"


@pytest.fixture(scope="module", params=["service", "pod"])
def observed(
    request: pytest.FixtureRequest, hosts: Hosts, control_plane: ControlPlane
) -> Iterator[AgentHost]:
    in_pod = request.param == "pod"
    name = f"seen-{request.param[0]}"
    host = hosts.boot(name, bind=pod_binds() if in_pod else binds())
    host.write(CHECK, PROGRAM, 0o755)
    made = (install_agent_pod if in_pod else install_agent)(host, control_plane, name)
    host.write(made.config, host.read(made.config) + SETTINGS)
    # A link with a full path, and a mount that is younger than the Pod.
    host.run("systemctl", "restart", AGENT)
    probe(Operator(control_plane), made, "disk")  # the Pod's mounts are made when the agent answers
    host.run("mkdir", "-p", IMAGES)
    host.run("mount", "-t", "tmpfs", "-o", "size=10m", "tmpfs", IMAGES)
    host.run("sh", "-c", f"head -c 6291456 /dev/zero > {IMAGES}/layer")
    host.run("rm", "-rf", "/var/lib/containerd")
    host.run("ln", "-s", IMAGES, "/var/lib/containerd")
    yield made
    host.destroy()


@pytest.fixture
def operator(control_plane: ControlPlane) -> Operator:
    return Operator(control_plane)


def probe(operator: Operator, host: AgentHost, about: str) -> dict[str, Any]:
    name = f"{about}-{time.monotonic_ns()}"
    status = operator.wait_status(operator.ask(a_probe(name, host.name, about)))
    answer: dict[str, Any] = status.get("answer", {})
    assert answer, (status, host.host.journal(AGENT))
    return answer


def act(operator: Operator, host: AgentHost, step: dict[str, Any]) -> dict[str, Any]:
    job = an_agent_job(f"act-{time.monotonic_ns()}", host.name, "a.service")
    job["spec"]["ladder"] = [{"name": "act", "steps": [step]}]
    made = operator.make(job, asked(host.host.boot_id(), valid=timedelta(minutes=3)))
    try:
        return operator.wait_answer(made, 90)
    except AssertionError as error:
        raise AssertionError(host.host.journal(AGENT)) from error


def test_the_probe_of_the_disk_is_of_the_hosts_images(
    operator: Operator, observed: AgentHost
) -> None:
    answer = probe(operator, observed, "disk")
    assert 55 <= float(answer["used_pct"]) <= 65, answer


def test_a_check_of_the_site_runs_on_the_host(operator: Operator, observed: AgentHost) -> None:
    step = {"agent": {"action": "RunCheck", "check": "identity", "timeout": "20s"}}
    answer = act(operator, observed, step)
    assert answer["state"] == "Done", answer
    assert f"debian {observed.name} listed" in answer["output"], answer


def test_diagnostics_are_of_the_host(operator: Operator, observed: AgentHost) -> None:
    step = {"collect": {"bundle": list(PARTS), "timeout": "2m"}}
    answer = act(operator, observed, step)
    assert answer["state"] == "Done", answer
    folder = observed.host.root / "var/lib/kubenode-agent/diagnostics"
    with tarfile.open(max(folder.glob("*.tar.gz"), key=lambda p: p.stat().st_mtime)) as bundle:
        texts = {
            member.name.rpartition("/")[2]: file.read().decode()
            for member in bundle.getmembers()
            if (file := bundle.extractfile(member)) is not None
        }
    wrong = {name for name, text in texts.items() if "of the container" in text}
    assert wrong == set(), texts
    assert "ID=debian" in texts["system.txt"] and "ID=container" not in texts["system.txt"]
    assert IMAGES in texts["disks.txt"]
    assert "systemd-journald.service" in texts["units.txt"]
    assert "systemd" in texts["processes.txt"]
    assert observed.host.address in texts["network.txt"]
    assert "-- No entries --" not in texts["journal.txt"] and texts["journal.txt"]


def test_the_state_of_the_runtime_is_what_its_socket_on_the_host_says(
    operator: Operator, observed: AgentHost
) -> None:
    host = observed.host
    host.run("rm", "/var/lib/containerd")
    try:
        host.run("systemctl", "start", "containerd", timeout=60)
        assert probe(operator, observed, "host")["runtime_state"] == "ok"
        host.run("systemctl", "kill", "--signal=STOP", "containerd")
        assert probe(operator, observed, "host")["runtime_state"] == "hung"
    finally:
        host.run("systemctl", "kill", "--signal=KILL", "containerd")
        host.run("systemctl", "stop", "containerd")
        host.run("rm", "-rf", "/var/lib/containerd")
        host.run("ln", "-s", IMAGES, "/var/lib/containerd")
