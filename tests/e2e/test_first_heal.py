"""The whole way of a fault, with nothing imitated that can run: kube-apiserver with its controllers
and scheduler, a host with its own systemd on which the agent runs as a service under its own client
certificate, Kube Defender and the Remedy operator as processes. kwok plays the kubelet.

Once undisturbed, and once with the operator killed after each step in turn.
"""

import json
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from support.agent_jobs import install
from support.agent_service import CountedUnit, binds, install_agent
from support.components import CONTROL_PLANE, HOSTS, require
from support.control_plane import ControlPlane
from support.daemons import free_port
from support.health_checker import CONDITION, HealthChecker
from support.hosts import Host, Hosts
from support.programs import Program
from support.waiting import until
from support.web import WORKLOAD

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(420)]

NODE = "h1"
OPERATOR = "kubenode:remedy"
RULE = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "NodeRemedier",
    "metadata": {"name": "containerd-down"},
    "spec": {
        "mode": "Enforce",
        "severity": "Critical",
        "faultClass": "runtime_down",
        "nodes": {"all": True},
        "when": {"condition": {"type": CONDITION, "for": "1s"}},
        "unless": {"any": [{"fact": {"name": "maintenance.active"}}]},
        "groupWait": "0s",
        "startupGrace": "0s",
        "ladder": [
            {
                "name": "restart",
                "steps": [
                    {"cordon": {}},
                    {"migrate": {"timeout": "3m"}},
                    # Long enough to be seen from outside between two steps that take no time.
                    {"wait": {"for": "2s"}},
                    {"notify": {"message": "restarting containerd"}},
                    {"wait": {"for": "2s"}},
                    {"agent": {"action": "RestartUnit", "unit": "containerd.service"}},
                ],
                "verify": {"for": "3s", "settle": "0s", "timeout": "2m"},
            }
        ],
    },
}


def a_node(name: str, zone: str) -> dict[str, Any]:
    labels = {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": zone}
    fake = {"kwok.x-k8s.io/node": "fake"}
    return {
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name, "labels": labels, "annotations": fake},
    }


class World:
    """A cluster of three nodes; the host of one of them is real."""

    def __init__(self, cp: ControlPlane, host: Host, folder: Path) -> None:
        self.cp, self.unit = cp, CountedUnit(host, "containerd")
        kubeconfig = str(cp.kubeconfig_for(OPERATOR, ["system:masters"]))
        port = str(free_port())
        common = ["--kubeconfig", kubeconfig, "--health-port", "0", "--namespace", "default"]
        self.defender = Program(
            "defender", ["run", "defender", *common, "--listen-port", port], folder
        )
        self.remedy = Program(
            "remedy",
            ["run", "remedy", *common, "--defender-url", f"http://127.0.0.1:{port}"],
            folder,
        )

    def jobs(self) -> list[dict[str, Any]]:
        path = "/apis/kubenode.io/v1alpha1/remedyoperationjobs"
        items: list[dict[str, Any]] = self.cp.get(path)["items"]
        return items

    def node(self) -> dict[str, Any]:
        node: dict[str, Any] = self.cp.get(f"/api/v1/nodes/{NODE}")
        return node

    def runs(self) -> bool:
        return self.unit.active == "active"

    def available(self) -> int:
        budget = self.cp.get("/apis/policy/v1/namespaces/default/poddisruptionbudgets/web")
        healthy: int = budget["status"].get("currentHealthy", 0)
        return healthy

    def why(self) -> str:
        """For a failure's message: the jobs and the ends of the logs."""
        jobs = json.dumps([job.get("status") for job in self.jobs()], indent=1)
        cluster = self.cp.kubectl("get", "nodes,pods,pdb", "-o", "wide", check=False).stdout
        logs = [f"--- {p}\n{log[-3000:]}" for p, log in self.logs().items()]
        return "\n".join([jobs, cluster, *logs])

    def logs(self) -> dict[str, str]:
        return {"remedy": self.remedy.log, "defender": self.defender.log}


@contextmanager
def a_world(folder: Path) -> Iterator[World]:
    with ExitStack() as stack:
        hosts = stack.enter_context(Hosts())
        plane = ControlPlane(
            address=hosts.gateway,
            kwok=True,
            kwok_annotation="kwok.x-k8s.io/node=fake",
            # Renewed every quarter of it. The default, made for thousands of nodes, comes so late
            # that a node may count as silent; its pods are then never ready again under kwok.
            kwok_args=["--node-lease-duration-seconds=40"],
            audit=True,
        )
        cp = stack.enter_context(plane)
        install(cp)
        host = hosts.boot(NODE, bind=binds())
        cp.kubectl("create", "-f", "-", stdin=json.dumps(a_node(NODE, "a")))
        boot = {"status": {"nodeInfo": {"bootID": host.boot_id()}}}
        cp.kubectl("patch", "node", NODE, "--subresource=status", "-p", json.dumps(boot))
        cp.kubectl("apply", "-f", "-", stdin=WORKLOAD)
        cp.kubectl("wait", "--for=condition=Available", "deployment/web", "--timeout=60s")
        for name, zone in (("k1", "b"), ("k2", "c")):
            cp.kubectl("create", "-f", "-", stdin=json.dumps(a_node(name, zone)))
        cp.kubectl("wait", "--for=condition=Ready", "node", "--all", "--timeout=60s")
        install_agent(host, cp, NODE)
        world = World(cp, host, folder)
        stack.enter_context(HealthChecker(cp, NODE, world.runs))
        cp.kubectl("apply", "-f", "-", stdin=json.dumps(RULE))
        world.defender.start()
        stack.callback(world.defender.stop)
        world.remedy.start()
        stack.callback(world.remedy.stop)
        until(lambda: _rule_is_active(cp), "the rule is loaded", 60, world.why)
        yield world


def _rule_is_active(cp: ControlPlane) -> bool:
    rule = cp.get("/apis/kubenode.io/v1alpha1/noderemediers/containerd-down")
    return bool(rule.get("status", {}).get("phase") == "Active")


def progress(job: dict[str, Any]) -> str:
    """How far a job is: its phase and the steps that are done."""
    status = job.get("status", {})
    done = [s["name"] for s in status.get("steps", []) if s["state"] == "Done"]
    return ",".join([status.get("phase", "Pending"), *done])


def healed(world: World) -> dict[str, Any]:
    """Assert that the one job ended well and left nothing behind; the job."""
    (job,) = world.jobs()
    assert job["status"]["phase"] == "Succeeded", world.why()
    timeline = job["status"]["timeline"]
    names = "faultSeen jobCreated permitGranted cordoned drained acted verified closed"
    assert [n for n in names.split() if n not in timeline] == []
    assert "podsUnavailable" in timeline
    instants = [timeline[name] for name in names.split()[1:]]
    assert instants == sorted(instants), timeline
    node = world.node()
    assert not node["spec"].get("unschedulable")
    assert "kubenode.io/cordoned-by" not in node["metadata"].get("annotations", {})
    assert world.runs()
    return job


def acts(world: World) -> Counter[str]:
    """What the operator's identity did to the cluster, by the API server's audit log."""
    done: Counter[str] = Counter()
    for line in world.cp.audit_log.read_text().splitlines():
        entry = json.loads(line)
        reference = entry.get("objectRef", {})
        ok = entry.get("responseStatus", {}).get("code", 0) < 300
        if entry["user"]["username"] != OPERATOR or entry["stage"] != "ResponseComplete" or not ok:
            continue
        name = f"{reference.get('resource')}/{reference.get('subresource', '')}".rstrip("/")
        if entry["verb"] in ("create", "patch", "update", "delete") and name in (
            "nodes",
            "pods/eviction",
            "remedyoperationjobs",
        ):
            which = reference.get("name", "") if name == "pods/eviction" else ""
            done[f"{entry['verb']} {name} {which}".strip()] += 1
    return done


def no_act_twice(world: World, starts_before: int) -> None:
    done = acts(world)
    assert done["create remedyoperationjobs"] == 1
    # The autoscalers' marks and the cordon, each once on and once off.
    assert done["patch nodes"] == 4, done
    evictions = {name: n for name, n in done.items() if "eviction" in name}
    assert len(evictions) == 3 and set(evictions.values()) == {1}, done
    assert world.unit.starts == starts_before + 1


@pytest.fixture
def world(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[World]:
    require(HOSTS)
    require(CONTROL_PLANE)
    # A successor waits this long for a lease whose holder was killed: once for every kill.
    monkeypatch.setenv("KUBENODE_LEASE_SECONDS", "3")
    with a_world(tmp_path) as made:
        yield made


def crash_and_watch(world: World, each: Callable[[dict[str, Any]], None]) -> int:
    """Break the service, call `each` for every state of the job until it is closed.

    Returns how often the service had been started before the repair.
    """
    world.unit.crash_until_it_stays_down()
    before = world.unit.starts
    end = time.monotonic() + 240
    seen, lowest = "", 3
    while time.monotonic() < end:
        lowest = min(lowest, world.available())
        for job in world.jobs():
            if progress(job) != seen:
                seen = progress(job)
                each(job)
            if seen.startswith(("Succeeded", "Failed", "Cancelled", "NeedsHuman")):
                assert lowest >= 2, "the PodDisruptionBudget was broken"
                return before
        time.sleep(0.05)
    raise AssertionError(f"the job never closed\n{world.why()}")


def test_fault_on_a_host_is_healed_and_the_node_is_back_in_service(world: World) -> None:
    before = crash_and_watch(world, lambda job: None)
    healed(world)
    no_act_twice(world, before)


def test_operator_killed_after_each_step_ends_the_same_with_no_act_twice(world: World) -> None:
    kills: list[str] = []

    def kill(job: dict[str, Any]) -> None:
        if progress(job).startswith("Succeeded"):
            return
        kills.append(progress(job))
        world.remedy.kill()
        world.remedy.start()

    before = crash_and_watch(world, kill)
    healed(world)
    no_act_twice(world, before)
    assert {"cordon", "migrate", "notify", "agent"} <= {k.rsplit(",", 1)[-1] for k in kills}
    assert any(k.startswith("Verifying") for k in kills)
