"""What the agent does on a real host besides units: reboots it, checks it, saves evidence, looks at
other hosts.
"""

import hashlib
import tarfile
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import Operator, a_probe, an_agent_job, asked
from support.agent_service import AGENT, AgentHost, binds, install_agent
from support.control_plane import ControlPlane
from support.hosts import Host, Hosts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

CHECK = "/opt/checks/tasks"
LISTEN = """
import socket
listener = socket.create_server(("", 10250))
while True:
    listener.accept()[0].close()
"""


@pytest.fixture(scope="module")
def actor(hosts: Hosts, control_plane: ControlPlane) -> AgentHost:
    """A host whose agent may run one check."""
    host = hosts.boot("acts", bind=binds())
    script = "#!/bin/sh\necho $1 tasks hang\n[ ! -e /opt/checks/verdict ] || exit 3\n"
    host.write(CHECK, script, 0o755)
    made = install_agent(host, control_plane, "acts")
    digest = hashlib.sha256(script.encode()).hexdigest()
    lines = f'\n[checks.tasks]\nargv = ["{CHECK}", "no"]\nsha256 = "{digest}"\n'
    host.write("/etc/kubenode/agent.toml", host.read("/etc/kubenode/agent.toml") + lines)
    host.run("systemctl", "restart", AGENT)
    return made


@pytest.fixture
def operator(control_plane: ControlPlane) -> Operator:
    return Operator(control_plane)


def a_job(name: str, step: dict[str, Any], **rung: Any) -> dict[str, Any]:
    job = an_agent_job(name, "acts", "a.service")
    job["spec"]["ladder"] = [{"name": "act", "steps": [step], **rung}]
    return job


def ask(operator: Operator, actor: AgentHost, name: str, step: dict[str, Any], **given: Any) -> str:
    boot_id = given.pop("boot_id", "") or actor.host.boot_id()
    return operator.make(a_job(name, step), asked(boot_id, **given))


def wait_end(operator: Operator, job: str, seconds: float = 90) -> dict[str, Any]:
    """The answer that is not Running any more."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        answer = operator.answer(job)
        if answer is not None and answer["state"] != "Running":
            return answer
        time.sleep(0.05)
    raise AssertionError(f"no end within {seconds} s: {operator.read(job)}")


def test_f23_the_agent_reboots_its_host_once_and_answers_from_the_next_boot(
    actor: AgentHost, operator: Operator
) -> None:
    before = actor.host.boot_id()
    job = ask(operator, actor, "reboot-1", {"reboot": {"timeout": "5m"}})
    answer = wait_end(operator, job)
    after = actor.host.boot_id()
    assert after not in ("", before)
    assert (answer["state"], answer["bootID"]) == ("Done", after), answer
    actor.host.wait_rebooted("")
    time.sleep(2)  # what must not happen has no condition to wait for
    assert actor.host.boot_id() == after, "ordered once"


def test_f23_a_reboot_asked_of_an_earlier_boot_or_too_late_is_refused(
    actor: AgentHost, operator: Operator
) -> None:
    now = actor.host.boot_id()
    other = ask(operator, actor, "reboot-2", {"reboot": {}}, boot_id="b" * 36)
    late = ask(operator, actor, "reboot-3", {"reboot": {}}, valid=timedelta(seconds=-1))
    for job in (other, late):
        assert wait_end(operator, job)["state"] == "Refused"
    assert actor.host.boot_id() == now


@pytest.fixture
def verdict(actor: AgentHost) -> Iterator[Host]:
    yield actor.host
    actor.host.run("rm", "-f", "/opt/checks/verdict")


def test_a_listed_check_says_yes_no_or_nothing(
    actor: AgentHost, operator: Operator, verdict: Host
) -> None:
    step = {"agent": {"action": "RunCheck", "check": "tasks", "timeout": "20s"}}
    yes = wait_end(operator, ask(operator, actor, "check-1", step))
    assert (yes["state"], yes.get("code", 0)) == ("Done", 0) and "no tasks hang" in yes["output"]
    verdict.write("/opt/checks/verdict", "")
    no = wait_end(operator, ask(operator, actor, "check-2", step))
    assert (no["state"], no["code"]) == ("Failed", 3)
    other = {"agent": {**step["agent"], "check": "others"}}
    nothing = wait_end(operator, ask(operator, actor, "check-3", other))
    assert (nothing["state"], nothing["code"]) == ("Failed", 127)


def test_evidence_is_kept_on_the_host_and_its_place_is_told(
    actor: AgentHost, operator: Operator
) -> None:
    for line in ("password=hunter22 and the rest of its line", "the cart is full"):
        actor.host.run("logger", "-t", "shop", line)
    step = {"collect": {"bundle": ["dmesg", "journal", "runtime", "kubelet", "network"]}}
    answer = wait_end(operator, ask(operator, actor, "collect-1", step))
    assert answer["state"] == "Done", answer
    path = Path(answer["output"].partition(" ")[0])
    assert path.parent == Path("/var/lib/kubenode-agent/diagnostics")
    with tarfile.open(actor.host.root / str(path).lstrip("/")) as bundle:
        files = {Path(m.name).name: bundle.extractfile(m) for m in bundle.getmembers()}
        texts = {name: file.read().decode() for name, file in files.items() if file is not None}
    assert "the cart is full" in texts["journal.txt"] and "hunter22" not in texts["journal.txt"]
    assert "lo:" in texts["network.txt"]


def a_look(name: str, target: Host, control: Host) -> dict[str, Any]:
    probe = a_probe(name, "acts", "peers")
    probe["spec"]["nodeName"] = ""
    probe["spec"]["args"] = {
        "for": "another",
        "address": target.address,
        "port": "10250",
        "controlAddress": control.address,
        "controlPort": "10250",
    }
    return probe


def test_f05_an_agent_tells_a_host_that_hangs_from_one_that_speaks_and_one_that_is_gone(
    hosts: Hosts, actor: AgentHost, operator: Operator
) -> None:
    """On both a process holds the kubelet's port; on the frozen one nobody answers behind it."""
    well, hung = hosts.boot("well"), hosts.boot("hung")
    for host in (well, hung):
        host.write("/opt/listen.py", LISTEN)
        unit = "[Service]\nExecStart=/usr/bin/python3 /opt/listen.py\n"
        host.write("/etc/systemd/system/kubelet.service", unit)
        host.run("systemctl", "daemon-reload")
        host.run("systemctl", "start", "kubelet")
    both = operator.wait_status(operator.ask(a_look("look-1", hung, well)))
    assert both["answer"] == {"reached": True, "control": True}, both
    hung.hang()
    frozen = operator.wait_status(operator.ask(a_look("look-2", hung, well)))
    assert frozen["answer"] == {"reached": False, "control": True}, frozen
    hung.thaw()
    hung.power_cut()
    gone = operator.wait_status(operator.ask(a_look("look-3", hung, well)))
    assert gone["answer"] == {"reached": False, "control": True}, gone
    well.destroy()
    hung.destroy()
