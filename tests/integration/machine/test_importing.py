"""Hosts are imported over real SSH into a real API server; the hosts themselves only answer.

Real hosts, packages and agents are in tests/e2e/test_machine_import.py.
"""

import asyncio
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from functools import partial
from pathlib import Path

import pytest
from support.control_plane import ControlPlane
from support.machine_host import a_host
from support.machine_world import CHARTS, MACHINES, MachineWorld, machine_world, until
from support.ssh_server import AnsweringHosts, answering_hosts

from agent.heartbeat import Heartbeat
from agent.host.systemd import SystemdHost
from kubenode.api.meta import format_time
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.machine_export import Exporter
from kubenode.cli.machine_import_cluster import Cluster, cluster_findings
from kubenode.cli.machine_import_rows import ImportRow, row_of
from kubenode.cli.machine_importer import Importer, ImportOutcome, ImportResult, import_all
from kubenode.cli.machine_ssh import connect_ssh
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.official import connect
from kubenode.runtime.kube.paths import custom, leases
from machine.names import LEASES

pytestmark = pytest.mark.integration
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
PATIENCE = 60.0


@pytest.fixture(scope="module")
def people(cluster: ControlPlane) -> Iterator[str]:
    """Kubeconfig of a user with the roles that docs/machine-import.md names, and no others."""
    cluster.kubectl("apply", "-f", CHARTS / "people.yaml")
    who = "imports-hosts"
    for role in ("kubenode-machine-operator", "kubenode-machine-exporter"):
        words = (f"{who}-{role}", f"--clusterrole={role}", f"--user={who}")
        cluster.kubectl("create", "clusterrolebinding", *words)
    words = (who, "--role=kubenode-machine-token-reader", f"--user={who}")
    cluster.kubectl("create", "rolebinding", "-n", "kube-system", *words)
    words = (who, "--role=kubenode-machine-exporter", f"--user={who}")
    cluster.kubectl("create", "rolebinding", "-n", LEASES, *words)
    yield str(cluster.kubeconfig_for(who))
    for namespace in ("kube-system", LEASES):
        cluster.kubectl("delete", "rolebinding", "-n", namespace, who)
    for role in ("kubenode-machine-operator", "kubenode-machine-exporter"):
        cluster.kubectl("delete", "clusterrolebinding", f"{who}-{role}")


@dataclass
class Site:
    """`told` is what a person saw."""

    world: MachineWorld
    hosts: AnsweringHosts
    kube: Kube
    tasks: asyncio.TaskGroup
    told: list[str] = field(default_factory=list)
    agents: list[asyncio.Task[None]] = field(default_factory=list)

    def row(self, name: str, **more: object) -> ImportRow:
        number = len(self.hosts.hosts)
        said = {**self.hosts.row(name), "addresses": [f"10.9.0.{number}"], "node": "None", **more}
        return row_of(said)

    def importer(self, seconds: float = PATIENCE) -> Importer:
        cluster = Cluster(self.world.cp.server, CA)
        return Importer(self.kube, cluster, connect_ssh, self.told.append, seconds=seconds)

    async def run(self, name: str, seconds: float = PATIENCE, **more: object) -> ImportOutcome:
        return await self.importer(seconds).run(self.row(name, **more))

    async def there(self, name: str) -> bool:
        try:
            return bool(await self.world.machine(name))
        except NotFound:
            return False

    async def failed(self, name: str) -> bool:
        return (await self.world.machine(name)).status.phase == "Failed"

    def becomes(self, name: str) -> None:
        """Its agent starts when the script has run, with the token that it was given."""

        async def start(token: str) -> None:
            self.agents.append(self.tasks.create_task(self._agent(name, token)))

        self.hosts.hosts[name].on_join = start

    async def _agent(self, name: str, token: str) -> None:
        async with a_host(self.world, name) as host:
            host.token_file.write_text(f"{token}\n")
            await host.keeper.renew_if_due()
            await Heartbeat(host.kube, SystemdHost(), name, host.clock, every=0.5).run()


@asynccontextmanager
async def a_site(cluster: ControlPlane, people: str, folder: Path) -> AsyncIterator[Site]:
    kube = Kube(connect(people))
    try:
        async with machine_world(cluster, folder) as world, answering_hosts(folder) as hosts:
            async with asyncio.TaskGroup() as tasks:
                site = Site(world, hosts, kube, tasks)
                yield site
                for agent in site.agents:
                    agent.cancel()
            for name in hosts.hosts:
                if await site.there(name):
                    await world.delete(name)
    finally:
        await kube.close()


async def test_a_host_is_imported_to_running_and_no_command_shows_its_token(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        host = site.hosts.add("goes-well")
        site.becomes("goes-well")
        outcome = await site.run("goes-well", labels={"pool": "edge"})
        assert outcome.result is ImportResult.RUNNING, outcome
        machine = await site.world.machine("goes-well")
        assert machine.metadata.labels == {"pool": "edge"}
        (token,) = {s.decode().strip() for c, s in host.asked if "join.sh" in c and len(s) == 24}
        assert all(token not in command for command, _ in host.asked)
        assert all(token not in line for line in site.told)
        last = host.asked[-1][0]
        assert "rm -f /etc/kubenode/bootstrap-token" in last

        again = await site.run("goes-well", addresses=["10.9.0.1"])
        assert again.result is ImportResult.RUNNING
        assert host.joins == 1, "an agent that is in is not installed again"
        assert (await site.world.machine("goes-well")).metadata.uid == machine.metadata.uid


async def test_what_is_refused_has_changed_nothing(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        host = site.hosts.add("refused", says={"systemd": None, "uid": "1000"})
        outcome = await site.run("refused")
        assert outcome.result is ImportResult.REFUSED and outcome.step == "preflight"
        assert "systemd: it does not run" in outcome.why and "sudo" in outcome.why
        assert not await site.there("refused") and host.joins == 0
        assert len(host.asked) == 2, "the clock and the probe"


async def test_an_import_that_was_cut_off_is_continued(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    """At each of its commands on the host, one after another: in the end there is one Machine."""
    async with a_site(cluster, people, tmp_path) as site:
        host = site.hosts.add("cut-off")
        site.becomes("cut-off")
        uids = set()
        for cut_at in ("date", "sh -s", "mkdir -p", "cat > ", "sh /var/lib/kubenode-import/join"):
            host.cut_at = cut_at
            outcome = await site.run("cut-off", addresses=["10.9.0.1"])
            assert outcome.result is ImportResult.FAILED, outcome
            assert "SSH connection broke" in outcome.why and "run it again" in outcome.why
            if await site.there("cut-off"):
                uids.add((await site.world.machine("cut-off")).metadata.uid)
        host.cut_at = ""
        outcome = await site.run("cut-off", addresses=["10.9.0.1"])
        assert outcome.result is ImportResult.RUNNING, outcome
        assert uids == {(await site.world.machine("cut-off")).metadata.uid}


async def test_an_agent_that_does_not_come_is_named_when_the_time_is_over(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        site.hosts.add("silent")
        outcome = await site.run("silent", seconds=0.0)
        assert (outcome.result, outcome.step) == (ImportResult.TIMED_OUT, "certificate")
        assert "journalctl -u kubenode-agent" in outcome.why
        found = [line for line in site.told if "certificate" in line]
        assert len(found) == 1, "what does not change is told once"


async def test_a_machine_of_another_host_is_not_taken_over(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        host = site.hosts.add("taken")
        await site.world.make("taken", addresses=["10.7.7.7"])
        outcome = await site.run("taken")
        assert outcome.result is ImportResult.FAILED and host.joins == 0
        assert "has addresses 10.7.7.7, and taken is 10.9.0.1" in outcome.why


async def test_a_machine_that_gave_up_on_its_host_waits_for_it_anew(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        host = site.hosts.add("too-late")
        await site.world.make("too-late", addresses=["10.9.0.1"], node="None")
        gave_up = {
            "type": "Healthy",
            "status": "False",
            "reason": "StartupTimeout",
            "message": "its host did not come",
            "lastTransitionTime": format_time(SystemClock().now() + timedelta(minutes=5)),
        }
        status = {"status": {"conditions": [gave_up]}}
        await site.world.kube.patch(custom("machines", "too-late", "status"), status)
        await until(partial(site.failed, "too-late"), "it has not failed")
        site.becomes("too-late")
        outcome = await site.run("too-late")
        assert outcome.result is ImportResult.RUNNING, outcome
        assert host.joins == 1


async def test_a_host_of_an_unknown_key_is_not_talked_to(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        host = site.hosts.add("stranger")
        known = site.hosts.known_hosts.read_text()
        other = known.split()[0] + " ssh-ed25519 " + "AAAAC3NzaC1lZDI1NTE5AAAAI" + "A" * 43
        for text in ("", other + "\n"):
            site.hosts.known_hosts.write_text(text)
            outcome = await site.run("stranger")
            assert outcome.result is ImportResult.FAILED
            assert "it shows ssh-ed25519 SHA256:" in outcome.why
            assert f"ssh-keyscan -p {site.hosts.port} 127.0.0.1" in outcome.why
        assert host.asked == [] and not await site.there("stranger")


async def test_who_is_not_let_in_by_ssh_is_told_what_to_name(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        site.hosts.add("locked")
        other = tmp_path / "other"
        import asyncssh

        asyncssh.generate_private_key("ssh-ed25519").write_private_key(other)
        outcome = await site.run("locked", identity=str(other))
        assert outcome.result is ImportResult.FAILED and "--identity" in outcome.why
        outcome = await site.run("locked", identity=str(tmp_path / "none"))
        assert "no such file; name a private key" in outcome.why
        outcome = await site.run("locked", ssh="locked@127.0.0.1:1")
        assert "not reached by SSH" in outcome.why


async def test_of_many_hosts_one_that_fails_does_not_hold_the_others(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        rows = []
        for number in range(4):
            name = f"many-{number}"
            site.hosts.add(name, says={"dpkg": None} if number == 1 else {})
            site.becomes(name)
            rows.append(site.row(name))
        outcomes = await import_all(site.importer(), rows, 2)
        assert [one.host for one in outcomes] == [f"many-{n}" for n in range(4)]
        results = [one.result for one in outcomes]
        assert results == [
            ImportResult.RUNNING,
            ImportResult.REFUSED,
            ImportResult.RUNNING,
            ImportResult.RUNNING,
        ]
        again = await import_all(site.importer(), [rows[0], rows[3]], 2)
        assert {one.result for one in again} == {ImportResult.RUNNING}
        assert [host.joins for host in site.hosts.hosts.values()] == [1, 0, 1, 1]


async def test_a_host_is_let_go_and_what_stays_is_told(
    cluster: ControlPlane, people: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        host = site.hosts.add("leaves", says={"agent": "leaves"})
        await site.world.make("leaves")
        lease = {"metadata": {"name": "leaves"}, "spec": {"holderIdentity": "leaves"}}
        await site.world.kube.create(leases(LEASES), lease)
        exporter = Exporter(site.kube, connect_ssh, site.told.append, PATIENCE)
        other = site.hosts.add("other-host", says={"agent": "somebody"})
        slip = site.row("leaves", ssh=f"other-host@127.0.0.1:{site.hosts.port}")
        with pytest.raises(Refusal, match="it is the host of Machine somebody"):
            await exporter.run(slip)
        assert await site.there("leaves") and len(other.asked) == 2

        assert await exporter.run(site.row("leaves")) is Exit.FINE
        assert not await site.there("leaves")
        assert any("apt-get purge" in command for command, _ in host.asked)
        assert "nothing of ours stays" in capsys.readouterr().out
        kept = (await site.world.kube.get(leases(LEASES)))["items"]
        assert "leaves" not in {each["metadata"]["name"] for each in kept}
        assert await exporter.run(site.row("leaves")) is Exit.FINE, "again is harmless"


async def test_whether_certificates_are_signed_is_looked_at_with_the_rights_of_people(
    cluster: ControlPlane, people: str, tmp_path: Path
) -> None:
    async with a_site(cluster, people, tmp_path) as site:
        found = await cluster_findings(site.kube, "kubenode-system")
        assert [one.what for one in found if "right" in str(one)] == []
        assert [one.what for one in found] == ["Machine operator"], "this one has no Lease"
        listed = await site.kube.get(MACHINES)
        assert listed["kind"] == "MachineList"
