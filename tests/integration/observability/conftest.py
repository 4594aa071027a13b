"""Kube Defender and the remedy operator at work, and a real Prometheus that scrapes them.

One node is healed to its end, one waits for it, and one is not Ready; so every panel has something
to show; a Machine and a component set are only there. All on the embedded API server.
"""

import json
import urllib.request
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from support.command import kubenode, started
from support.daemons import free_port
from support.defender_objects import ZONE, node_object, policy_object
from support.embedded import EmbeddedPlane
from support.prometheus import Prometheus
from support.sick_node import JOBS, rule, say
from support.waiting import until

ROOT = Path(__file__).parents[3]
DASHBOARDS = ROOT / "charts" / "kubenode" / "dashboards"
ALERTS = ROOT / "charts" / "kubenode" / "alerts"
RULES = sorted(ALERTS.glob("*.yaml"))
RULE = rule("isolate", {"cordon": {}}, {"notify": {"message": "sick"}})
POLICY = policy_object(
    limits=[
        {
            "scope": "Cluster",
            "maxConcurrent": 1,
            "minHealthy": "50%",
            "rate": {"count": 60, "per": "1h", "burst": 5},
        },
        {"scope": "Label", "label": ZONE, "maxConcurrent": 1, "minHealthy": "20%"},
    ]
)

MACHINE = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "Machine",
    "metadata": {"name": "m0"},
    "spec": {
        "addresses": ["10.0.0.7"],
        "mode": "Observe",
        "components": [
            {
                "name": "c",
                "component": "c-1",
                "revision": "1-90d2c7e1fa",
                "configHash": "1-44c0b7d2e1",
            }
        ],
    },
    "status": {"components": [{"name": "c", "version": "1", "state": "Healthy"}]},
}
ROLLOUT = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "MachineComponentSet",
    "metadata": {"name": "s"},
    "spec": {"selector": {"matchLabels": {"pool": "none"}}, "component": "c-1"},
}


@dataclass(frozen=True)
class World:
    plane: EmbeddedPlane
    prometheus: Prometheus

    def say(self, node: str, **conditions: str) -> None:
        say(self.plane, node, **conditions)

    def phases(self) -> dict[str, str]:
        """Of the jobs, by node."""
        jobs: list[dict[str, Any]] = self.plane.get(JOBS)["items"]
        return {job["spec"]["nodeName"]: job.get("status", {}).get("phase", "") for job in jobs}


def _answers(port: int) -> bool:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=2):
            return True
    except OSError:
        return False


@pytest.fixture(scope="module")  # what a rate shows must have happened a moment ago
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    folder = tmp_path_factory.mktemp("prometheus")
    nodes = [node_object(f"n{i}", {ZONE: "abc"[i % 3]}) for i in range(40)]
    health, guard = free_port(), free_port()
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        plane.api.load(json.loads(json.dumps([*nodes, POLICY, RULE, MACHINE, ROLLOUT])))
        with (
            started(
                "run", "all", "--kubeconfig", plane.kubeconfig,
                "--health-port", str(health), "--guard-port", str(guard), "--log-level", "warning",
            ) as process,
            Prometheus(folder, [f"127.0.0.1:{health}"], RULES) as prometheus,
        ):  # fmt: skip
            until(
                lambda: _answers(health) or process.poll() is not None, "the programs are ready", 60
            )
            assert process.poll() is None, process.communicate()[1]
            prometheus.until("up == 1")  # a rate begins with what was seen before
            world = World(plane, prometheus)
            _let_happen(world)
            yield world


def _let_happen(world: World) -> None:
    """n0 falls ill and is healed; n1 falls ill and waits for the permit meanwhile; n2 is silent."""
    world.say("n0", Sick="True")
    until(
        lambda: world.phases().get("n0") == "Verifying", "the job of n0 is done with its steps", 60
    )
    world.say("n1", Sick="True")
    world.say("n2", Ready="False")
    waits = 'kubenode_defender_waiting{reason="ConcurrencyLimit"} == 1'
    world.prometheus.until(waits)
    world.say("n0", Sick="False")
    until(lambda: world.phases().get("n0") == "Succeeded", "n0 is healed", 60)
    until(lambda: world.phases().get("n1") in ("Running", "Verifying"), "n1 has its turn", 60)
