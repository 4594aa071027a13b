"""`kubenode pause` and `kubenode resume`, run as people run them, on the embedded API server."""

import json
import shutil
import subprocess
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.command import COMMAND, environment, kubenode
from support.control_plane import ControlPlane
from support.defender_objects import ZONE, node_object, permit_object, policy_object
from support.embedded import EmbeddedPlane

from kubenode.runtime.clock import SystemClock

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]
POLICIES = "/apis/kubenode.io/v1alpha1/defenderpolicies"
NODES = [node_object(f"n{i}", {ZONE: "ab"[i % 2], "kubenode.io/rack": f"r{i}"}) for i in range(4)]


@pytest.fixture(scope="module")
def installed() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        at = SystemClock().now() - timedelta(minutes=1)
        plane.api.load(json.loads(json.dumps([*NODES, permit_object("p1", "n1", at)])))
        yield plane


@pytest.fixture
def plane(installed: EmbeddedPlane) -> Iterator[EmbeddedPlane]:
    yield installed
    for name in policies(installed):
        installed.kubectl("delete", "defenderpolicy", name)


def policies(plane: EmbeddedPlane) -> dict[str, Any]:
    return {item["metadata"]["name"]: item["spec"] for item in plane.get(POLICIES)["items"]}


def pauses(plane: EmbeddedPlane, name: str = "default") -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = policies(plane)[name].get("pauses", [])
    return found


def run(plane: EmbeddedPlane, *words: str, code: int = 0) -> subprocess.CompletedProcess[str]:
    result = kubenode(*words, "--kubeconfig", plane.kubeconfig)
    assert result.returncode == code, result.stdout + result.stderr
    assert "Traceback" not in result.stderr
    return result


def test_without_a_policy_the_default_is_made_and_paused(plane: EmbeddedPlane) -> None:
    told = run(plane, "pause", "--why", "storage moves").stdout
    assert "policy default: created" in told
    (pause,) = pauses(plane)
    assert (pause["scope"], pause["why"]) == ("Cluster", "storage moves")
    assert pause["by"]
    assert "until" not in pause
    assert len(policies(plane)["default"]["limits"]) == 6
    assert "4 of 4 nodes: no new act starts there" in told
    assert "to undo: kubenode resume --scope cluster" in told


def test_pausing_again_prolongs_and_resuming_ends_it(plane: EmbeddedPlane) -> None:
    plane.api.load([policy_object()])
    run(plane, "pause", "--scope", "zone=b", "--for", "1h")
    told = run(plane, "pause", "--scope", "zone=b", "--for", "2h").stdout
    assert f"policy default: prolonged: {ZONE}=b until" in told
    assert "2 of 4 nodes" in told
    assert len(pauses(plane)) == 1
    assert (
        "unchanged: already paused"
        in run(plane, "pause", "--scope", "zone=b", "--for", "5m").stdout
    )
    assert "resumed; it was" in run(plane, "resume", "--scope", "zone=b").stdout
    assert pauses(plane) == []
    assert f"{ZONE}=b was not paused" in run(plane, "resume", "--scope", "zone=b").stdout


def test_every_policy_is_paused_unless_one_is_named(plane: EmbeddedPlane) -> None:
    selector = {"selector": {"matchLabels": {ZONE: "a"}}}
    plane.api.load([policy_object("all"), policy_object("zone-a", nodes=selector)])
    run(plane, "pause")
    assert len(pauses(plane, "all")) == len(pauses(plane, "zone-a")) == 1
    run(plane, "resume", "--all")
    told = run(plane, "pause", "--policy", "zone-a").stdout
    assert (len(pauses(plane, "all")), len(pauses(plane, "zone-a"))) == (0, 1)
    assert "2 of 4 nodes" in told
    assert "the other 2 of cluster it does not cover" in told
    assert "kubenode resume --scope cluster --policy zone-a" in told
    no = run(plane, "pause", "--policy", "zone-c", code=1).stderr
    assert "there is no DefenderPolicy zone-c; there are: all, zone-a" in no


def test_now_says_whose_permits_it_takes(plane: EmbeddedPlane) -> None:
    plane.api.load([policy_object()])
    told = run(plane, "pause", "--scope", "rack=r1").stdout
    assert "what holds one goes on; --now takes back" in told
    told = run(plane, "pause", "--scope", "rack=r1", "--now").stdout
    assert "already paused, and permits are taken back now" in told
    assert "open permits there: 1: " in told
    assert "Kube Defender takes back where" in told
    assert "n1 (RemedyOperationJob job-n1)" in told
    assert pauses(plane)[0]["now"] is True


def test_resuming_one_scope_tells_what_is_still_paused(plane: EmbeddedPlane) -> None:
    plane.api.load([policy_object()])
    run(plane, "pause")
    run(plane, "pause", "--scope", "node=n2")
    told = run(plane, "resume", "--scope", "node=n2").stdout
    assert "still paused: policy default: cluster until resumed" in told
    assert "resumed" in run(plane, "resume").stdout


def test_what_is_over_goes_and_a_full_list_says_what_to_do(plane: EmbeddedPlane) -> None:
    old = [{"scope": "Node", "value": f"x{i}", "until": "2026-01-01T00:00:00Z"} for i in range(32)]
    lasting = [{"scope": "Node", "value": f"x{i}"} for i in range(32)]
    plane.api.load([policy_object("old", pauses=old), policy_object("full", pauses=lasting)])
    result = run(plane, "pause", code=1)
    assert "policy old: paused cluster" in result.stdout
    assert "policy full: it has 32 pauses" in result.stderr
    assert len(pauses(plane, "old")) == 1


@pytest.mark.parametrize(
    ("words", "code", "said"),
    [
        (("--scope", "zone"), 2, "'zone' is no scope: write cluster, node=NAME"),
        (("--for", "2"), 2, "--for: '2' is no duration"),
        (("--until", "soon"), 2, "--until: 'soon' is no time"),
        (("--until", "2020-01-01T00:00Z"), 2, "which is over: write a later time"),
        (("--for", "1h", "--until", "16:00"), 2, "write one of them"),
        (("--why", "x" * 1025), 2, "--why: longer than 1024 characters"),
        (("--scope", "zone=c"), 1, f"no node has {ZONE}=c; there are: a, b; for nodes"),
        (("--scope", "team=x"), 1, "and no node has the label team"),
        (("--scope", "node=n9"), 1, "node n9 is not in the cluster"),
    ],
)
def test_what_is_wrong_is_named_with_the_remedy(
    plane: EmbeddedPlane, words: tuple[str, ...], code: int, said: str
) -> None:
    assert said in run(plane, "pause", *words, code=code).stderr
    assert policies(plane) == {}


def test_nodes_that_are_to_come_can_be_paused(plane: EmbeddedPlane) -> None:
    run(plane, "pause", "--scope", "zone=c", "--allow-empty")
    assert pauses(plane)[0]["value"] == "c"


def test_the_rest_of_a_policy_is_left_as_it_is_even_where_it_cannot_be_read(
    plane: EmbeddedPlane,
) -> None:
    body = policy_object()
    body["spec"]["limits"][0]["someday"] = 1
    body["spec"]["breaker"] = {"open": "never"}
    plane.api.load([body])
    run(plane, "pause")
    spec = policies(plane)["default"]
    assert spec.pop("pauses")[0]["scope"] == "Cluster"
    assert spec["breaker"]["open"] == "never"


def test_it_is_a_kubectl_plugin_too(plane: EmbeddedPlane, tmp_path: Path) -> None:
    plugin = Path(COMMAND).with_name("kubectl-kubenode")
    result = subprocess.run(
        [plugin, "pause", "--kubeconfig", plane.kubeconfig],
        env=environment(),
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert len(pauses(plane)) == 1
    assert shutil.which(str(plugin)) is not None


def test_a_cluster_that_does_not_answer_is_exit_code_3(tmp_path: Path) -> None:
    with EmbeddedPlane() as plane:
        config = shutil.copy(plane.kubeconfig, tmp_path / "config")
    result = kubenode("pause", "--kubeconfig", config)
    assert result.returncode == 3
    assert "does not answer" in result.stderr


def test_by_is_who_the_api_server_says_and_a_missing_right_is_told(
    control_plane: ControlPlane,
) -> None:
    """On a real kube-apiserver, with RBAC."""
    assert kubenode("install", "--kubeconfig", control_plane.kubeconfig).returncode == 0
    ann = control_plane.kubeconfig_for("ann")
    refused = kubenode("pause", "--scope", "node=x1", "--allow-empty", "--kubeconfig", ann)
    assert refused.returncode == 1
    assert "a right is missing" in refused.stderr
    admin = control_plane.kubeconfig_for("bea", ("system:masters",))
    try:
        done = kubenode("pause", "--scope", "node=x1", "--allow-empty", "--kubeconfig", admin)
        assert done.returncode == 0, done.stderr
        (pause,) = control_plane.get(f"{POLICIES}/default")["spec"]["pauses"]
        assert pause["by"] == "bea"
    finally:
        control_plane.kubectl("delete", "defenderpolicy", "--all")
