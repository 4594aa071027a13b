"""Hosts with the agent's package, all at once: they join, are upgraded, rebooted and cut off; and
one with its archive.

KUBENODE_FLEET  how many hosts (default 4; figures of 20: docs/explanation/performance-notes.md)
KUBENODE_AWAY   seconds that the API server is away (default 10)
"""

import json
import os
import subprocess
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from support import waiting
from support.agent_jobs import EVENTS, Operator, an_agent_job, asked
from support.agent_package import (
    PROVE_SECONDS,
    PackagedHost,
    Packages,
    agent_package,
    earlier_package,
    packages,
)
from support.agent_service import CountedUnit
from support.control_plane import ControlPlane
from support.hosts import Host, Hosts
from support.machine_world import OPERATOR, OPERATOR_GROUPS, a_machine, install
from support.programs import KUBENODE, Program

from kubenode.runtime.clock import SystemClock

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(900)]

REPOSITORY = Path(__file__).parents[2]
SIZE = int(os.environ.get("KUBENODE_FLEET", "4"))
AWAY = float(os.environ.get("KUBENODE_AWAY", "10"))
AT_ONCE = 4
PATIENCE = 90.0 + 10 * SIZE
"""Seconds: hosts and tests share the cores."""
until = partial(waiting.until, seconds=PATIENCE)
HOUR = 3600
JOURNAL = "/var/lib/kubenode-agent/requests"
SETTINGS = """certificate_life = "90m"

[detectors]
npd_configs = ["/etc/kubenode/appliance.json"]
"""
WATCHED = "/var/log/appliance.log"
DETECTOR = {
    "plugin": "filelog",
    "pluginConfig": {
        "timestamp": "^.{15}",
        "message": "(?i)Error: .*",
        "timestampFormat": "Jan _2 15:04:05",
    },
    "logPath": WATCHED,
    "lookback": "5m",
    "bufferSize": 10,
    "source": "appliance-monitor",
    "conditions": [{"type": "ApplianceBroken", "reason": "ApplianceIsWell", "message": "it works"}],
    "rules": [
        {
            "type": "permanent",
            "condition": "ApplianceBroken",
            "reason": "ApplianceFailed",
            "pattern": "Error: appliance failed.*",
        }
    ],
}


UNPACKED = "/var/cache/kubenode-agent"
SETUP = f"{UNPACKED}/setup.sh"
VERSION = "0.1.0"
FOLDERS = ("/etc", "/opt", "/usr/bin", "/usr/lib/systemd", "/var/lib")
"""Folders that the archive may write to."""


class Fleet:
    def __init__(self, hosts: list[PackagedHost], cp: ControlPlane, made: Packages) -> None:
        self.hosts, self.cp, self.packages = hosts, cp, made
        self.operator = Operator(cp)

    def each(self, work: Callable[[PackagedHost], Any]) -> list[Any]:
        """On all hosts, some at a time."""
        with ThreadPoolExecutor(AT_ONCE) as pool:
            return list(pool.map(work, self.hosts))

    def all_have(self, version: str) -> None:
        def there() -> bool:
            return all(host.version == version for host in self.hosts)

        until(there, f"every Machine tells agent {version}: {[h.version for h in self.hosts]}")

    def rolled_back(self) -> dict[str, str]:
        """Messages of Events AgentRolledBack by node."""
        events = [e for e in self.cp.get(EVENTS)["items"] if e["reason"] == "AgentRolledBack"]
        return {event["involvedObject"]["name"]: event["message"] for event in events}


@pytest.fixture(scope="module")
def fleet(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Joined as people join hosts: a Machine, a token, the package, a settings file."""
    folder = tmp_path_factory.mktemp("fleet")
    made = packages(folder)
    with ExitStack() as stack:
        cp = stack.enter_context(ControlPlane(address=hosts.gateway, scheduler=False))
        install(cp)
        cp.kubectl("apply", "-f", str(REPOSITORY / "charts/kubenode/agent/admission.yaml"))
        rights = cp.kubeconfig_for(OPERATOR, OPERATOR_GROUPS)
        # No lease: a test takes the API server away for longer than one is held, and no kubelet
        # would start again here who lost it.
        flags = ["--health-port=0", f"--kubeconfig={rights}", "--audit-file=", "--no-lease"]
        operator = Program("machine", ["run", "machine", *flags], folder)
        operator.start()
        stack.callback(operator.stop)
        booted = []
        for number in range(SIZE):
            host = hosts.boot(f"fleet{number}")
            stack.callback(host.destroy)
            booted.append(PackagedHost(host, cp))
        found = Fleet(booted, cp, made)
        found.each(lambda host: join(host, cp, made.first))
        yield found


def join(host: PackagedHost, cp: ControlPlane, package: Path) -> None:
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": host.name}}
    for thing in (node, a_machine(host.name, addresses=[host.host.address])):
        cp.kubectl("create", "-f", "-", stdin=json.dumps(thing))
    asked = [str(KUBENODE), "machine", "token", host.name, "--kubeconfig", str(cp.kubeconfig)]

    def token() -> str:
        return subprocess.run(asked, capture_output=True, text=True, check=False).stdout

    host.host.write("/etc/kubenode/appliance.json", json.dumps(DETECTOR))
    host.host.write(WATCHED, "")
    host.join(package, until(token, f"a token for {host.name}"), SETTINGS)


def test_every_host_joins_and_its_token_is_of_no_more_use(fleet: Fleet) -> None:
    until(lambda: all(h.joined for h in fleet.hosts), "every agent has joined")
    known = {"0.1.0", "0.1.1"}
    until(lambda: {h.version for h in fleet.hosts} <= known, "every Machine tells its agent")
    assert len({host.certificate for host in fleet.hosts}) == SIZE

    def tokens() -> list[str]:
        secrets = fleet.cp.get("/api/v1/namespaces/kube-system/secrets")["items"]
        return [
            s["metadata"]["name"] for s in secrets if s["type"] == "bootstrap.kubernetes.io/token"
        ]

    until(lambda: not tokens(), "every token is revoked")


def test_a_power_cut_in_the_middle_of_a_repair_repeats_nothing(fleet: Fleet) -> None:
    def begun(host: PackagedHost) -> CountedUnit:
        unit = CountedUnit(host.host, "held", burst=20)
        unit.hold()
        job = an_agent_job(f"reboot-{host.name}", host.name, unit.name)
        fleet.operator.make(job, asked(host.host.boot_id(), valid=timedelta(minutes=5)))
        until(lambda: unit.starts == 2, "the unit is being restarted")
        return unit

    units = fleet.each(begun)
    fleet.each(lambda host: host.host.power_cut())
    fleet.each(lambda host: host.host.start())
    for host, unit in zip(fleet.hosts, units, strict=True):
        answer = fleet.operator.wait_answer(f"reboot-{host.name}", seconds=PATIENCE)
        assert answer["state"] == "Failed" and "the host booted again" in answer["output"], answer
        assert unit.starts == 2, "nobody but the agent starts it, and it does so once"


def test_an_agent_whose_clock_is_an_hour_ahead_goes_by_the_api_server_and_renews_once(
    fleet: Fleet,
) -> None:
    """It does what is valid by the API server's time and refuses what is over. Ahead of its
    certificate's life it renews, and does not go on renewing.
    """
    before = {host.name: host.certificate for host in fleet.hosts}
    fleet.each(lambda host: host.set_clock(HOUR + 1200))
    until(
        lambda: all(h.certificate != before[h.name] for h in fleet.hosts),
        "every agent has a new certificate",
    )
    between = {host.name: host.certificate for host in fleet.hosts}
    units = {host.name: CountedUnit(host.host, "skewed") for host in fleet.hosts}
    for host in fleet.hosts:
        boot_id, unit = host.host.boot_id(), units[host.name].name
        valid = an_agent_job(f"valid-{host.name}", host.name, unit)
        fleet.operator.make(valid, asked(boot_id, valid=timedelta(minutes=5)))
        over = an_agent_job(f"over-{host.name}", host.name, "held.service")
        fleet.operator.make(over, asked(boot_id, valid=-timedelta(minutes=1)))
    for host in fleet.hosts:
        answer = fleet.operator.wait_answer(f"valid-{host.name}", seconds=PATIENCE)
        assert answer["state"] == "Done", answer
        assert units[host.name].starts == 2
        answer = fleet.operator.wait_answer(f"over-{host.name}", seconds=PATIENCE)
        assert answer["state"] == "Refused" and "expired at" in answer["output"], answer
        assert host.certificate == between[host.name], "one renewal, not one after another"
    fleet.each(lambda host: host.set_clock(0))


def test_a_disk_that_is_full_begins_nothing_and_forgets_nothing(fleet: Fleet) -> None:
    host = fleet.hosts[0]
    unit = CountedUnit(host.host, "full")
    host.host.run(
        "mount", "-t", "tmpfs", "-o", "size=256k", "tmpfs", "/var/lib/kubenode-agent/requests"
    )
    try:
        host.host.run("systemctl", "restart", "kubenode-agent.service")
        fill = f"head -c 1M /dev/zero > {JOURNAL}/fill"
        host.host.run("sh", "-c", fill, check=False)
        job = an_agent_job("full-1", host.name, unit.name)
        fleet.operator.make(job, asked(host.host.boot_id()))
        answer = fleet.operator.wait_answer("full-1", seconds=PATIENCE)
        assert answer["state"] == "Refused" and "nothing is begun" in answer["output"], answer
        assert unit.starts == 1
        host.host.run("rm", f"{JOURNAL}/fill")
        job = an_agent_job("full-2", host.name, unit.name)
        fleet.operator.make(job, asked(host.host.boot_id()))
        assert fleet.operator.wait_answer("full-2", seconds=PATIENCE)["state"] == "Done"
        assert unit.starts == 2
    finally:
        host.host.run("systemctl", "stop", "kubenode-agent.service")
        host.host.run("umount", JOURNAL)
        host.host.run("systemctl", "start", "kubenode-agent.service")


def broken(host: PackagedHost) -> dict[str, Any]:
    """The condition once it is True, else nothing."""
    found = host.condition("ApplianceBroken")
    return found if found.get("status") == "True" else {}


def test_what_happens_while_the_api_server_is_away_is_told_late_with_its_true_time(
    fleet: Fleet,
) -> None:
    server = fleet.cp.part("kube-apiserver")
    server.kill()
    began = time.monotonic()
    written: dict[str, datetime] = {}
    for host in fleet.hosts:
        at = host.host.run("date", "--utc", "+%b %e %H:%M:%S").stdout.strip()
        line = f"{at} Error: appliance failed on {host.name}\n"
        host.host.run("sh", "-c", f"cat >> {WATCHED}", stdin=line)
        written[host.name] = SystemClock().now()
    time.sleep(max(0.0, AWAY - (time.monotonic() - began)))  # how long it is away is the case
    fleet.cp.restart("kube-apiserver")
    for host in fleet.hosts:
        found = until(partial(broken, host), f"{host.name} tells its fault")
        assert found["reason"] == "ApplianceFailed"
        since = datetime.fromisoformat(found["lastTransitionTime"])
        assert abs((since - written[host.name]).total_seconds()) < 5, "when it was, not when told"


def test_upgrade_of_an_earlier_package_is_taken_back_or_proven(
    fleet: Fleet, hosts: Hosts, tmp_path: Path
) -> None:
    """It ran on the host's Python, and its unit did."""
    host = PackagedHost(hosts.boot("earlier"), fleet.cp)
    try:
        join(host, fleet.cp, earlier_package(tmp_path, "0.0.9"))
        until(lambda: host.version == "0.0.9", "the earlier agent has joined")
        certificate = host.certificate
        host.install(fleet.packages.broken)
        until(
            lambda: host.host.run("readlink", "/opt/kubenode").stdout.endswith("kept/0.0.9\n"),
            "the broken version is taken back",
        )
        until(lambda: host.name in fleet.rolled_back(), "the earlier agent runs again and reports")
        host.install(fleet.packages.first)
        until(lambda: host.version == "0.1.0", "the new version has renewed its Lease")
        assert host.certificate == certificate, "it keeps the identity"
    finally:
        host.host.destroy()


def test_an_upgrade_is_proven_by_the_lease_and_a_broken_one_is_taken_back(fleet: Fleet) -> None:
    fleet.each(lambda host: host.install(fleet.packages.next))
    fleet.all_have("0.1.1")
    fleet.each(lambda host: host.install(fleet.packages.broken))
    time.sleep(PROVE_SECONDS)  # how long a version has to prove itself is the case

    def back() -> bool:
        return all(
            host.host.run("readlink", "/opt/kubenode").stdout.strip().endswith("/kept/0.1.1")
            and host.host.unit("kubenode-agent.service", "ActiveState") == "active"
            for host in fleet.hosts
        )

    until(back, "every host runs the version before again")
    names = {host.name for host in fleet.hosts}
    until(lambda: names <= fleet.rolled_back().keys(), "every agent tells that it was taken back")
    reports = fleet.rolled_back()
    assert all("0.1.2 did not renew its lease" in reports[name] for name in names)
    fleet.all_have("0.1.1")


def test_the_package_leaves_nothing_behind_when_it_is_purged(fleet: Fleet, hosts: Hosts) -> None:
    host = hosts.boot("purged")
    try:
        PackagedHost(host, fleet.cp).install(fleet.packages.first)
        assert host.run("test", "-d", "/opt/kubenode/src").returncode == 0
        host.run("dpkg", "--purge", "kubenode-agent")
        left = ("/opt/kubenode", "/opt/kubenode-agent", "/var/lib/kubenode-agent", "/etc/kubenode")
        found = [one for one in left if host.run("test", "-e", one, check=False).returncode == 0]
        assert found == []
        assert host.unit("kubenode-agent.service", "LoadState") == "not-found"
    finally:
        host.destroy()


@pytest.fixture
def archive_host(hosts: Hosts, tmp_path: Path) -> Iterator[Host]:
    """A host on which the archive is unpacked."""
    archive = agent_package(tmp_path, "tar", VERSION)
    booted = hosts.boot("archive")
    folder = str(booted.root / "var/cache")
    subprocess.run(["tar", "-xzf", archive, "-C", folder, "--no-same-owner"], check=True)
    yield booted
    booted.destroy()


def list_files(host: Host) -> set[str]:
    listed = ("-printf", "%p %y %m %l\\n")
    pruned = ("-path", "/var/lib/systemd", "-prune", "-o")
    return set(host.run("find", *FOLDERS, *pruned, *listed).stdout.splitlines())


def current_version(host: Host) -> str:
    command = ("/opt/kubenode/bin/python3", "-c", "import platform as p; print(p.libc_ver()[1])")
    assert host.run(*command).stdout.startswith("2."), "its own Python runs"
    return host.run("readlink", "/opt/kubenode").stdout.strip()


def test_archive_is_installed_or_undone_and_leaves_nothing(archive_host: Host) -> None:
    host, before = archive_host, list_files(archive_host)
    interpreter = f"{UNPACKED}/{VERSION}/python/bin/python3.13"
    host.run("mv", interpreter, f"{interpreter}.good")
    failed = host.run("sh", SETUP, check=False)
    assert failed.returncode == 1
    assert "does not run on this host" in failed.stderr and "is undone" in failed.stderr
    assert list_files(host) == before

    host.run("mv", f"{interpreter}.good", interpreter)
    host.run("sh", SETUP)
    assert current_version(host) == f"/opt/kubenode-agent/{VERSION}"
    host.run("mv", interpreter, f"{interpreter}.good")
    assert host.run("sh", SETUP, check=False).returncode == 1
    assert current_version(host) == f"/opt/kubenode-agent/kept/{VERSION}", "the version before"

    host.run("/opt/kubenode/bin/setup", "purge")
    assert list_files(host) == before
