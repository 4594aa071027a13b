"""Whoever has a kubelet's key writes none of KubeNode's labels and annotations: finding 6."""

from collections.abc import Iterator
from typing import Any

import pytest
from support.agent_jobs import NODES, Caller, install
from support.control_plane import ControlPlane

pytestmark = pytest.mark.integration

NODE = "kubelet-1"
STRATEGIC = "application/strategic-merge-patch+json"
OURS = {"kubenode.io/machine": "m", "kubenode.io/bmc": "b"}


def a_node(name: str, **metadata: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, **metadata}}


@pytest.fixture(scope="module")
def kubelet(control_plane: ControlPlane) -> Iterator[Caller]:
    """Rights without limit: only the policy can refuse."""
    install(control_plane)
    admin = Caller(control_plane, "admin", ["system:masters"])
    marks = {"annotations": OURS, "labels": {"kubenode.io/pool": "gpu", "x": "y"}}
    assert admin.ask("POST", NODES, a_node(NODE, **marks))[0] == 201
    made = Caller(control_plane, f"system:node:{NODE}", ["system:nodes", "system:masters"])
    yield made
    control_plane.kubectl("delete", "node", NODE)


CHANGES: list[dict[str, Any]] = [
    {"annotations": {"kubenode.io/machine": "victim"}},
    {"annotations": {"kubenode.io/machine": None}},
    {"annotations": {"kubenode.io/cordoned-by": "x"}},
    {"annotations": {"rollback.kubenode.io/x": "x"}},
    {"labels": {"kubenode.io/pool": "cpu"}},
    {"labels": {"kubenode.io/pool": None}},
    {"labels": {"kubenode.io/rack": "r"}},
]


@pytest.mark.parametrize("part", ["", "/status"])
@pytest.mark.parametrize("change", CHANGES, ids=str)
def test_a_kubelet_changes_no_mark_of_kubenode(
    kubelet: Caller, change: dict[str, Any], part: str
) -> None:
    code, said = kubelet.ask("PATCH", f"{NODES}/{NODE}{part}", {"metadata": change}, STRATEGIC)
    assert code == 403, said
    assert "a kubelet writes no" in said


def test_a_kubelet_goes_on_writing_its_own(kubelet: Caller, control_plane: ControlPlane) -> None:
    own = {
        "labels": {"kubernetes.io/os": "linux", "notkubenode.io/x": "y"},
        "annotations": {"volumes.kubernetes.io/controller-managed-attach-detach": "true"},
    }
    for part in ("", "/status"):
        code, said = kubelet.ask("PATCH", f"{NODES}/{NODE}{part}", {"metadata": own}, STRATEGIC)
        assert code == 200, said
    assert OURS.items() <= control_plane.get(f"{NODES}/{NODE}")["metadata"]["annotations"].items()


def test_a_kubelet_registers_with_a_pool_and_a_rack_alone(
    kubelet: Caller, control_plane: ControlPlane
) -> None:
    new = Caller(control_plane, "system:node:kubelet-2", ["system:nodes", "system:masters"])
    path = f"{NODES}?dryRun=All"
    labels = {"kubenode.io/pool": "gpu", "kubenode.io/rack": "r"}
    code, said = new.ask("POST", path, a_node("kubelet-2", labels=labels))
    assert code == 201, said
    marks: list[dict[str, Any]] = [{"annotations": OURS}, {"labels": {"kubenode.io/x": "y"}}]
    for metadata in marks:
        code, said = new.ask("POST", path, a_node("kubelet-2", **metadata))
        assert (code, "a kubelet writes no" in said) == (403, True), said


def test_people_and_operators_write_marks(control_plane: ControlPlane, kubelet: Caller) -> None:
    ann = Caller(control_plane, "ann", ["system:masters"])
    for value in ("x", None):
        change = {"metadata": {"annotations": {"kubenode.io/hands-off": value}}}
        assert ann.ask("PATCH", f"{NODES}/{NODE}", change)[0] == 200
