"""`kubenode doctor` and `kubenode status` against the embedded API server."""

import json
from collections.abc import Iterator

import pytest
from support.command import kubenode, started
from support.defender_objects import node_object
from support.embedded import EmbeddedPlane
from support.waiting import until

from kubenode.cli.cluster import crds
from kubenode.runtime.clock import SystemClock

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]


@pytest.fixture
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        yield plane


def test_an_empty_cluster_has_a_problem_with_the_remedy(plane: EmbeddedPlane) -> None:
    done = kubenode("doctor", "--kubeconfig", plane.kubeconfig)
    assert done.returncode == 1, done.stderr
    assert "not installed: " in done.stdout
    assert "-> run `kubenode install`" in done.stdout


def test_an_installed_cluster_without_programs_names_them(plane: EmbeddedPlane) -> None:
    assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
    done = kubenode("doctor", "-o", "json", "--kubeconfig", plane.kubeconfig)
    assert done.returncode == 1, done.stderr
    results = {(r["check"], r["state"]): r for r in json.loads(done.stdout)}
    assert ("kinds", "ok") in results
    assert results["kinds", "ok"]["text"] == f"{len(crds())} kinds of this version are served"
    assert "kubenode run defender" in results["programs", "problem"]["remedy"]
    assert kubenode("doctor", "-o", "yaml", "--kubeconfig", plane.kubeconfig).returncode == 1


def test_with_all_programs_nothing_is_a_problem_and_all_is_well(plane: EmbeddedPlane) -> None:
    assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
    plane.api.load([node_object("n1")])

    def is_led() -> bool:
        return kubenode("doctor", "--kubeconfig", plane.kubeconfig).returncode == 0

    with started("run", "all", "--kubeconfig", plane.kubeconfig, "--health-port", "0"):
        until(is_led, "no problem is left", 60)
        done = kubenode("--kubeconfig", plane.kubeconfig, "status")
    assert done.returncode == 0, done.stderr
    assert done.stdout == "All is well: no node has a fault, and nothing waits.\n"


def test_leases_of_agents_are_counted_and_their_clocks_read(plane: EmbeddedPlane) -> None:
    assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
    renewed = SystemClock().now().isoformat(timespec="microseconds").replace("+00:00", "Z")
    lease = {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {
            "name": "n1",
            "namespace": "kubenode-agents",
            "annotations": {"kubenode.io/clock-offset": "7.000"},
        },
        "spec": {"holderIdentity": "n1", "leaseDurationSeconds": 40, "renewTime": renewed},
    }
    plane.api.load([node_object("n1"), node_object("n2"), lease])
    done = kubenode("doctor", "-o", "json", "--kubeconfig", plane.kubeconfig)
    texts = {result["check"]: result["text"] for result in json.loads(done.stdout)}
    assert texts["agents"] == "1 of 2 nodes have an agent"
    assert texts["clocks"] == "hosts' clocks are off: n1 +7.0 s"
