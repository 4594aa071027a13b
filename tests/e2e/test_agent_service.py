"""The agent as a systemd service of a real host, against a real API server."""

import json
import time
import urllib.error
from collections.abc import Callable, Iterator, Mapping
from datetime import timedelta
from functools import partial

import pytest
from support import waiting
from support.agent_jobs import Operator, a_probe, an_agent_job, asked
from support.agent_service import AGENT, AgentHost, CountedUnit, boot_with_agent
from support.control_plane import ControlPlane
from support.hosts import Hosts

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(300)]

Conditions = Mapping[str, Mapping[str, str]]
FOREIGN = ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", "NetworkUnavailable")
RSS_LIMIT_KB = 60 * 1024
IDLE_CPU_LIMIT = 0.005
IDLE_SECONDS = 20.0
MOMENTS = {
    "before-act": ("Failed", 0),
    "after-act": ("Done", 1),
    "before-answer": ("Done", 1),
    "after-answer": ("Done", 1),
}
"""Where the agent is killed: the answer in the end, and the starts of the unit."""
until = partial(waiting.until, seconds=60, every=0.02)


@pytest.fixture(scope="module")
def healer(hosts: Hosts, control_plane: ControlPlane) -> AgentHost:
    return boot_with_agent(hosts, control_plane, "h1")


@pytest.fixture
def operator(control_plane: ControlPlane) -> Operator:
    return Operator(control_plane)


@pytest.fixture(scope="module")
def numbered() -> Iterator[Callable[[], str]]:
    numbers = iter(range(1, 1000))
    yield lambda: f"web{next(numbers)}"


@pytest.fixture
def unit(healer: AgentHost, numbered: Callable[[], str]) -> CountedUnit:
    """A real service that crashed until its start limit was hit."""
    made = CountedUnit(healer.host, numbered())
    made.crash_until_it_stays_down()
    return made


def ask(operator: Operator, healer: AgentHost, unit: CountedUnit, boot_id: str = "") -> str:
    name = f"job-{unit.name.removesuffix('.service')}"
    job = an_agent_job(name, healer.name, unit.name)
    return operator.make(job, asked(boot_id or healer.host.boot_id()))


def test_a_crashed_unit_runs_again_and_the_answer_is_written_once(
    healer: AgentHost, unit: CountedUnit, operator: Operator
) -> None:
    before = unit.starts
    job = ask(operator, healer, unit)
    answer = operator.wait_answer(job)
    assert (answer["state"], answer.get("code")) == ("Done", 0), answer
    assert answer["bootID"] == healer.host.boot_id()
    assert unit.active == "active"
    assert unit.starts == before + 1
    operator.write(job, {"message": "the operator writes on"})  # wakes the agent once more
    time.sleep(1)  # what must not happen has no condition to wait for
    assert len(healer.requests("patch", job)) == 1
    assert len(healer.requests("get", job)) == 1
    assert unit.starts == before + 1


@pytest.mark.parametrize("moment", MOMENTS)
def test_killed_at_any_moment_it_restarts_the_unit_at_most_once(
    healer: AgentHost, unit: CountedUnit, operator: Operator, moment: str
) -> None:
    state, starts = MOMENTS[moment]
    healer.kill_agent_at(moment)
    before = unit.starts
    job = ask(operator, healer, unit)
    try:
        until(healer.was_killed, f"the agent is killed {moment}")
        answer = operator.wait_answer(job)
        pid = healer.host.unit(AGENT, "MainPID")
        until(lambda: healer.host.unit(AGENT, "ActiveState") == "active", "the agent is back")
        operator.write(job, {"message": "the operator writes on"})
        time.sleep(2)  # the agent is started again after one second
    finally:
        healer.kill_agent_at("")
    assert answer["state"] == state, (answer, pid)
    assert unit.starts == before + starts
    assert len(healer.requests("patch", job)) == 1
    if state == "Failed":
        assert "interrupted; not repeated" in answer["output"]
    else:
        assert unit.active == "active"


def test_killed_while_systemd_works_it_waits_for_the_result_and_does_not_ask_again(
    healer: AgentHost, unit: CountedUnit, operator: Operator
) -> None:
    before = unit.starts
    unit.hold()
    job = ask(operator, healer, unit)
    until(lambda: unit.starts == before + 1, "the unit starts")
    pid = healer.host.unit(AGENT, "MainPID")
    healer.host.run("kill", "-9", pid)
    until(lambda: healer.host.unit(AGENT, "MainPID") not in (pid, "0"), "the agent is back")
    assert operator.answer(job) is None
    unit.release()
    answer = operator.wait_answer(job)
    assert answer["state"] == "Done", answer
    assert "interrupted, the result stands" in answer["output"]
    assert unit.starts == before + 1


def test_an_unknown_unit_fails_by_name(healer: AgentHost, operator: Operator) -> None:
    job = an_agent_job("job-nothing", healer.name, "nothing-here.service")
    operator.make(job, asked(healer.host.boot_id()))
    answer = operator.wait_answer("job-nothing")
    assert answer["state"] == "Failed"
    assert "nothing-here.service" in answer["output"]


def test_a_unit_that_cannot_start_fails_with_its_exit_status(
    healer: AgentHost, operator: Operator
) -> None:
    text = "[Service]\nExecStart=/bin/sh -c 'exit 3'\n"
    healer.host.write("/etc/systemd/system/broken.service", text)
    healer.host.run("systemctl", "daemon-reload")
    job = an_agent_job("job-broken", healer.name, "broken.service")
    operator.make(job, asked(healer.host.boot_id()))
    answer = operator.wait_answer("job-broken")
    assert (answer["state"], answer.get("code")) == ("Failed", 3), answer


def test_the_message_bus_itself_can_be_restarted(healer: AgentHost, operator: Operator) -> None:
    job = an_agent_job("job-dbus", healer.name, "dbus.service")
    operator.make(job, asked(healer.host.boot_id()))
    answer = operator.wait_answer("job-dbus")
    assert answer["state"] == "Done", answer


def test_an_expired_request_is_refused(
    healer: AgentHost, unit: CountedUnit, operator: Operator
) -> None:
    before = unit.starts
    old = asked(healer.host.boot_id(), valid=timedelta(seconds=-1))
    job = operator.make(an_agent_job("job-old", healer.name, unit.name), old)
    assert operator.wait_answer(job)["state"] == "Refused"
    assert unit.starts == before


def test_it_answers_after_the_network_was_away(
    healer: AgentHost, unit: CountedUnit, operator: Operator
) -> None:
    """Nothing new is begun without the API server; asked again within its time, it is done."""
    before = unit.starts
    healer.host.plug(False)
    job = ask(operator, healer, unit)
    time.sleep(2)
    assert unit.starts == before
    healer.host.plug(True)
    assert operator.wait_answer(job)["state"] in ("Done", "Refused")
    assert unit.starts <= before + 1


def test_f23_a_request_of_an_earlier_boot_is_refused(
    healer: AgentHost, unit: CountedUnit, operator: Operator
) -> None:
    before, old = unit.starts, healer.host.boot_id()
    healer.host.run("systemctl", "stop", AGENT)
    job = ask(operator, healer, unit, old)
    healer.host.reboot()
    answer = operator.wait_answer(job)
    assert answer["state"] == "Refused"
    assert f"asked of boot {old}, this host runs boot {healer.host.boot_id()}" in answer["output"]
    assert unit.starts == before


def test_the_lease_tells_the_boot_id(healer: AgentHost, control_plane: ControlPlane) -> None:
    path = f"/apis/coordination.k8s.io/v1/namespaces/kubenode-agents/leases/{healer.name}"

    def told() -> bool:
        try:
            annotations = control_plane.get(path)["metadata"]["annotations"]
        except urllib.error.HTTPError:
            return False  # the agent has just started: there is no lease yet
        return bool(annotations["kubenode.io/boot-id"] == healer.host.boot_id())

    until(told, "the lease has this boot's ID")


@pytest.fixture
def node(healer: AgentHost, control_plane: ControlPlane) -> Iterator[Callable[[], Conditions]]:
    """The host's Node, as kubelet would make it; what its conditions say."""
    made = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": healer.name}}
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(made))

    def conditions() -> Conditions:
        found = control_plane.get(f"/api/v1/nodes/{healer.name}")["status"].get("conditions", [])
        return {c["type"]: c for c in found if c["type"] not in FOREIGN}

    yield conditions
    control_plane.kubectl("delete", "node", healer.name)


def test_f03_killed_it_tells_the_same_of_its_node_and_nothing_looks_younger(
    healer: AgentHost, node: Callable[[], Conditions]
) -> None:
    def well() -> Conditions:
        return {kind: c for kind, c in node().items() if c["status"] == "False"}

    healer.host.run("systemctl", "restart", AGENT)
    until(lambda: len(well()) > 7, "its detectors looked and told")
    before, pid = well(), healer.host.unit(AGENT, "MainPID")
    newest = max(c["lastHeartbeatTime"] for c in before.values())
    healer.host.run("kill", "-9", pid)
    until(lambda: any(c["lastHeartbeatTime"] > newest for c in well().values()), "it told again")
    after = node()
    # On a busy host a check may take too long meanwhile, and its condition really change.
    kept = [k for k in before if after[k]["lastTransitionTime"] == before[k]["lastTransitionTime"]]
    assert len(kept) > 5, (before, after)


def test_a_setting_that_is_wrong_is_in_the_hosts_journal(healer: AgentHost) -> None:
    run = healer.host.run
    key, moved = "/etc/kubenode/agent.key", "/etc/kubenode/moved.key"
    run("mv", key, moved)
    try:
        run("systemctl", "restart", AGENT, check=False)
        said = "key_file /etc/kubenode/agent.key: No such file or directory"
        until(lambda: said in healer.host.journal(AGENT), said)
    finally:
        run("mv", moved, key)
    until(lambda: healer.host.unit(AGENT, "ActiveState") == "active", "it recovers by itself")


def test_it_is_small_and_quiet(
    healer: AgentHost, record_testsuite_property: Callable[[str, object], None]
) -> None:
    healer.host.run("systemctl", "restart", AGENT)
    time.sleep(5)  # past its start
    pid = healer.host.unit(AGENT, "MainPID")

    def cpu_ticks() -> int:
        fields = healer.host.run("cat", f"/proc/{pid}/stat").stdout.rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    began, ticks = time.monotonic(), cpu_ticks()
    time.sleep(IDLE_SECONDS)
    share = (cpu_ticks() - ticks) / 100 / (time.monotonic() - began)
    status = healer.host.run("cat", f"/proc/{pid}/status").stdout
    rss = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])
    record_testsuite_property("agent_rss_kb", rss)
    record_testsuite_property("agent_idle_cpu_share", round(share, 5))
    print(f"agent: RSS {rss / 1024:.1f} MB, idle CPU {share:.2%}")  # noqa: T201
    assert rss < RSS_LIMIT_KB
    assert share < IDLE_CPU_LIMIT


def test_a_host_answers_what_it_can_see_from_its_sandbox(
    operator: Operator, healer: AgentHost
) -> None:
    """The service may write nothing but its own folder, and holds no capability."""
    about = ("host", "clock", "disk", "write")
    names = [operator.ask(a_probe(f"e2e-{what}", healer.name, what)) for what in about]
    host, clock, disk, write = (operator.wait_status(name) for name in names)
    assert [status["error"] for status in (host, disk, write)] == ["", "", ""]
    assert host["answer"]["agent"] == "alive"
    assert host["answer"]["pid_max"] > 0 and host["answer"]["cgroup_count"] > 0
    assert "kubelet_state" not in host["answer"], "there is no kubelet on this host"
    # systemd-nspawn lets nobody inside ask about the clock, which is then told and not guessed.
    assert "Operation not permitted" in clock["error"] or "synchronized" in clock["answer"]
    assert 0 < disk["answer"]["used_pct"] < 100
    assert write["answer"] == {"write_test": "ok", "write_test_path": "/var/lib/kubenode-agent"}


@pytest.fixture
def mute_kubelet(healer: AgentHost) -> Iterator[None]:
    """A kubelet that runs and answers nobody; the host is without one again afterwards."""
    file = "/etc/systemd/system/kubelet.service"
    healer.host.write(file, "[Service]\nExecStart=/bin/sleep infinity\n")
    healer.host.run("systemctl", "daemon-reload")
    healer.host.run("systemctl", "start", "kubelet")
    yield
    healer.host.run("systemctl", "stop", "kubelet")
    healer.host.run("rm", file)
    healer.host.run("systemctl", "daemon-reload")


@pytest.mark.usefixtures("mute_kubelet")
def test_a_kubelet_that_runs_and_says_nothing_is_told(
    operator: Operator, healer: AgentHost
) -> None:
    hung = operator.wait_status(operator.ask(a_probe("e2e-hung", healer.name, "host")))
    healer.host.run("systemctl", "stop", "kubelet")
    stopped = operator.wait_status(operator.ask(a_probe("e2e-stopped", healer.name, "host")))
    assert hung["answer"]["kubelet_state"] == "hung"
    assert stopped["answer"]["kubelet_state"] == "stopped"
