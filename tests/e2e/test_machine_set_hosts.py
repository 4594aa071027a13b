"""A MachineSet of real hosts, from their first boot until nothing of them is left.

Real hosts that a rack boots for provider `local`, the packaged agent by user data under its own
identity, a real API server, the Machine operator, Kube Defender and the Remedy operator as
processes. One story, as each part begins where the last one ended.
"""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from support.agent_jobs import stamp
from support.command import kubenode
from support.components import CONTROL_PLANE, require
from support.hosts import Hosts
from support.machine_world import running, until
from support.node_rules import rule, rung
from support.pod_watch import instant
from support.set_hosts import CLUSTER, PATIENCE, Pool, pool

from kubenode.providers.instances import InstanceProviders
from kubenode.providers.local.instances import LocalInstances
from machine.ground import MachineSettings
from machine.site_settings import Provisioning

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(1200)]

SET = "s"
"""Short: names of its machines are names of hosts, which network links are called after."""
MIN_READY, UNWELL = 3.0, 2.0
"""Seconds: that a machine is well before it is available, that it is not before it is replaced."""
NEVER = 1_000_000
API = {"apiVersion": "kubenode.io/v1alpha1"}
OWN = "#cloud-config\nwrite_files:\n- {path: /opt/of-the-class, content: here}\n"
OLD = timedelta(minutes=31)
"""Older than what the collector spares."""


def a_class() -> dict[str, Any]:
    spec = {
        "provider": "local",
        "config": {"image": "debian-12"},
        "failureDomain": "rack-a",
        "userDataRef": "of-the-class",
    }
    return {**API, "kind": "MachineClass", "metadata": {"name": "rack"}, "spec": spec}


def a_set(replicas: int) -> dict[str, Any]:
    labels = {"set": SET}
    template = {
        "metadata": {"labels": labels},
        "spec": {
            "classRef": "rack",
            "minReady": f"{MIN_READY:g}s",
            "nodeTemplate": {"labels": {"pool": "racked"}},
        },
    }
    lost = {"type": "Ready", "status": "Unknown", "for": f"{UNWELL:g}s"}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": template,
        "health": {"unhealthyConditions": [lost]},
    }
    return {**API, "kind": "MachineSet", "metadata": {"name": SET}, "spec": spec}


def user_data() -> dict[str, Any]:
    meta = {"name": "of-the-class", "namespace": "kubenode-system"}
    data = {"userData": base64.b64encode(OWN.encode()).decode()}
    return {"apiVersion": "v1", "kind": "Secret", "metadata": meta, "data": data}


@pytest.fixture(scope="module")
def site(hosts: Hosts, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pool]:
    require(CONTROL_PLANE)
    with pool(hosts, tmp_path_factory.mktemp("set")) as made:
        yield made


def test_invariants_01_02_a_set_makes_real_hosts_keeps_their_number_and_leaves_nothing(
    site: Pool,
) -> None:
    makes_each_host_once_though_the_operator_is_killed(site)
    scales_out(site)
    is_redeployed_by_its_provider(site)
    leaves_one_to_its_repair_and_takes_it_back(site)
    replaces_a_host_that_died(site)
    gives_up_the_newest_first(site)
    finds_what_nobody_claims_and_leaves_nothing(site)


def makes_each_host_once_though_the_operator_is_killed(site: Pool) -> None:
    site.coming.clear()
    site.rack.lose = True
    site.create(user_data(), a_class(), a_set(1))
    site.until(lambda: site.rack.made, "a host is asked for; the answer is lost")
    site.kill_operator("the answer of the provider is lost")
    site.until(
        lambda: phases(site) == ["Provisioned"] and site.booted, "it is known, and not up yet"
    )
    site.kill_operator("a host that boots")
    site.coming.set()
    site.until(partial(site.counts, SET, replicas=1, ready=1, available=1), "it is available")

    ((name, machine),) = site.machines().items()
    host, uid = site.booted[name], machine["metadata"]["uid"]
    assert site.made == {name: [f"{uid}-1"]}, "one host for its token, booted once"
    assert host.boots == 1
    assert machine["status"]["phase"] == "Running"
    assert machine["spec"]["addresses"] == [host.address]
    assert machine["status"]["host"]["bootID"] == host.boot_id()
    assert host.read("/opt/of-the-class") == "here", "the class's own user data is followed"
    assert host.run("test", "-e", "/run/kubenode-join", check=False).returncode == 1
    node = site.nodes()[name]
    assert node["metadata"]["labels"]["pool"] == "racked"
    assert not [t for t in node["spec"].get("taints", ()) if "kubenode" in t["key"]]
    assert site.tokens() == [], "a token is revoked once its host has joined"


def scales_out(site: Pool) -> None:
    site.scale(SET, 2)
    site.until(partial(site.counts, SET, replicas=2, available=2), "two are available")
    assert [len(tokens) for tokens in site.made.values()] == [1, 1]


def is_redeployed_by_its_provider(site: Pool) -> None:
    name = sorted(site.machines())[-1]
    host, boots = site.booted[name], site.booted[name].boots
    permit = site.permit(name)
    wanted = {"spec": {"operation": {"id": "moves", "type": "Redeploy", "permit": permit}}}
    site.cp.kubectl("patch", "machine", name, "--type=merge", "-p", json.dumps(wanted))
    site.until(
        lambda: last_operation(site, name) == ("moves", "Succeeded", "OK"), "it is asked for"
    )
    site.until(lambda: site.rack.made[name].state == "running", "it has booted")
    assert host.boots == boots + 1 and site.rack.made[name].asked == {"moves": "redeploy"}
    site.until(partial(site.counts, SET, replicas=2, available=2), "it is in service again")
    assert site.machines()[name]["status"]["host"]["bootID"] == host.boot_id()
    site.release(permit)


def leaves_one_to_its_repair_and_takes_it_back(site: Pool) -> None:
    before = sorted(site.machines())
    name = before[0]
    host = site.booted[name]
    host.board(f"delay {NEVER}")
    reboot = rung("reboot", {"reboot": {"via": ["Agent"], "timeout": "5m"}})
    dead = {"condition": {"type": "Ready", "status": "Unknown", "for": "1h"}}
    site.create(rule("reboot", "host_hung", dead, reboot))
    site.remedy.start()
    site.until(lambda: site.rule_phase("reboot") == "Active", "the rule is loaded")
    words = ("--remedier", "reboot", "--yes", "--kubeconfig", site.cp.kubeconfig)
    begun = kubenode("job", "run", name, *words, limit=PATIENCE)
    assert begun.returncode == 0, begun.stderr
    site.until(partial(site.counts, SET, replicas=2, available=1), "it counts as unavailable")
    site.until(lambda: lost_for(site, name) > 2 * UNWELL, "its Node is lost for long enough")
    for word in ("delay 0", "off", "on"):
        host.board(word)
    (job,) = site.until(lambda: [j for j in site.jobs() if over(j)], "the repair is over")
    assert job["status"]["phase"] == "Succeeded", site.why()
    site.until(partial(site.counts, SET, replicas=2, available=2), "it is available again")
    burnt_in = instant(job["status"]["timeline"]["closed"]) + MIN_READY
    assert time.time() >= burnt_in, "not before it has burnt in"
    site.remedy.stop()
    assert sorted(site.machines()) == before and host.boots == 2
    assert site.made.keys() == set(before), "nobody was made in its place"


def replaces_a_host_that_died(site: Pool) -> None:
    before = sorted(site.machines())
    dead = before[0]
    site.going.clear()
    site.booted[dead].power_cut()
    (new,) = site.until(lambda: set(site.machines()) - set(before), "another one is made first")
    site.until(lambda: "kubenode.io/leaving" in marks(site, dead), "the dead one is chosen")
    site.kill_operator("a machine is chosen to be replaced")
    site.until(lambda: site.rack.made[dead].state == "ending", "its host is being ended")
    site.kill_operator("a host that is being ended")
    assert dead in site.machines(), "the Machine stays as long as its host"
    site.going.set()
    site.until(lambda: dead not in site.machines(), "the dead one is given up")
    site.until(partial(site.counts, SET, replicas=2, available=2), "two are available")
    assert sorted(site.machines()) == sorted({*before, new} - {dead})
    for machines in site.history.states():
        if new in machines and "deletionTimestamp" in machines.get(dead, {}).get("metadata", {}):
            assert machines[new]["status"].get("initializedAt"), "the new one first"
    nothing_left_of(site, dead)


def gives_up_the_newest_first(site: Pool) -> None:
    oldest, newest = sorted(site.machines(), key=number)
    site.scale(SET, 1)
    site.until(lambda: newest not in site.machines(), "the newest is given up")
    assert site.machines().keys() == {oldest}
    nothing_left_of(site, newest)
    site.until(partial(site.counts, SET, replicas=1, available=1), "the other one stays")


def finds_what_nobody_claims_and_leaves_nothing(site: Pool) -> None:
    """The last Machine's finalizer is taken off by hand: its host goes on, and nobody knows it."""
    site.operator.stop()
    (lost,) = site.machines()
    site.cp.kubectl("delete", "machinesets", SET, "--wait=false")
    site.until(lambda: "deletionTimestamp" in site.machines()[lost]["metadata"], "it is to go too")
    patch = json.dumps({"metadata": {"finalizers": None}})
    site.cp.kubectl("patch", "machine", lost, "--type=merge", "-p", patch)
    site.until(lambda: not site.machines(), "no Machine is left")
    assert site.rack.made.keys() == {lost} and site.booted[lost].boot_id()
    site.rack.made[lost].created_at = stamp(-OLD)
    asyncio.run(found(site, lost))
    assert site.booted[lost].boot_id(), "an orphan is a finding: nobody ends it but a person"
    site.booted[lost].destroy()

    assert site.leases() <= {lost}, "of a host that was ended without its Machine"
    assert site.tokens() == [] and site.holders() == []
    assert site.nodes().keys() == {lost}
    assert [trace for host in site.booted.values() for trace in host.traces()] == []


async def found(site: Pool, name: str) -> None:
    """The operator as it is, but that it looks for orphans each second."""
    rack = LocalInstances(site.rack.command)
    ca = site.cp.ca_file.read_text()
    made = Provisioning(InstanceProviders([rack]), CLUSTER, site.cp.server, ca)

    async def told() -> bool:
        words = ("machine", "orphans", "-o", "json", "--kubeconfig", site.cp.kubeconfig)
        listed = await asyncio.to_thread(kubenode, *words)
        return [one["machine"] for one in json.loads(listed.stdout)] == [name]

    async with running(site.cp, MachineSettings(scan=1.0), provisioning=made):
        await until(told, "the host that nobody claims is an orphan", PATIENCE)


# -- eyes -----------------------------------------------------------------------------------------


def phases(site: Pool) -> list[str]:
    return [str(m.get("status", {}).get("phase", "")) for m in site.machines().values()]


def last_operation(site: Pool, name: str) -> tuple[str, str, str]:
    last = site.machines()[name]["status"].get("lastOperation", {})
    return last.get("id", ""), last.get("state", ""), last.get("code", "")


def marks(site: Pool, name: str) -> dict[str, str]:
    found: dict[str, str] = site.machines()[name]["metadata"].get("annotations", {})
    return found


def lost_for(site: Pool, node: str) -> float:
    """Seconds for which its Ready is Unknown."""
    conditions = site.nodes()[node]["status"]["conditions"]
    told = next(c for c in conditions if c["type"] == "Ready")
    since = instant(told["lastTransitionTime"])
    return time.time() - since if told["status"] == "Unknown" else 0.0


def number(machine: str) -> int:
    return int(machine.rpartition("-")[2])


def over(job: dict[str, Any]) -> bool:
    return job.get("status", {}).get("phase") in ("Succeeded", "Failed", "Cancelled", "NeedsHuman")


def nothing_left_of(site: Pool, name: str) -> None:
    assert site.booted[name].traces() == []
    assert name not in site.nodes() and name not in site.leases()
    site.until(lambda: name not in site.holders(), "its permit is given back")
