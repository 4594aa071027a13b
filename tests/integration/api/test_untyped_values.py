"""A real kube-apiserver refuses deep and large values where a field has no fixed type."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from support.api_objects import GOOD, changed
from support.control_plane import ControlPlane

from devtools.crds import FOLDER
from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import HostProbe
from kubenode.api.v1alpha1.machineclass import CONFIG_DEPTH

pytestmark = pytest.mark.integration
KINDS = ("hostprobes", "machineclasses")
PROBE: dict[str, Any] = {
    "apiVersion": "kubenode.io/v1alpha1",
    "kind": "HostProbe",
    "metadata": {"name": "closed"},
    "spec": {"agent": "a", "name": "disk", "expiresAt": "2026-11-21T01:59:09Z"},
}


DEEP = "(an array in an array, and so on)"
"""Stands for a value that is too deep for Python's JSON encoder."""


def text(data: Any) -> str:
    return json.dumps(data).replace(f'"{DEEP}"', "[" * 1500 + "]" * 1500)


def nested(levels: int, value: Any = 1) -> Any:
    for level in range(levels):
        value = {"a": value} if level % 2 else [value]
    return value


@pytest.fixture(scope="module")
def cluster(control_plane: ControlPlane) -> Iterator[ControlPlane]:
    files = [word for kind in KINDS for word in ("-f", FOLDER / f"kubenode.io_{kind}.yaml")]
    control_plane.kubectl("apply", *files)
    names = [f"crd/{kind}.kubenode.io" for kind in KINDS]
    control_plane.kubectl("wait", "--for=condition=Established", "--timeout=60s", *names)
    control_plane.kubectl("create", "-f", "-", stdin=json.dumps(PROBE))
    yield control_plane
    control_plane.kubectl("delete", "hostprobe", "closed", "--ignore-not-found")


def answer(cluster: ControlPlane, value: Any, *more: str) -> str:
    """What the server says of an answer with this value; "" when it accepts it."""
    patch = text({"status": {"answer": {"a": value}}})
    words = ["patch", "hostprobe", "closed", "--subresource=status", "--type=merge", *more]
    done = cluster.kubectl(*words, "-p", patch, check=False)
    return "" if done.returncode == 0 else done.stderr


@pytest.mark.parametrize("value", [True, False, 0, -1, 2**53, 1.5, "", "text", "x" * 1024])
def test_an_answer_of_a_probe_is_a_scalar(cluster: ControlPlane, value: Any) -> None:
    assert answer(cluster, value) == ""
    stored = cluster.get("/apis/kubenode.io/v1alpha1/hostprobes/closed")
    assert stored["status"]["answer"]["a"] == value


@pytest.mark.parametrize(
    "value",
    [[], {}, [1], {"a": 1}, [None], nested(3), DEEP, "x" * 1025],
    ids=["[]", "{}", "[1]", "{a:1}", "[null]", "3 deep", "1500 deep", "long"],
)
def test_an_answer_of_a_probe_is_nothing_else(cluster: ControlPlane, value: Any) -> None:
    assert "status.answer.a" in answer(cluster, value, "--dry-run=server")


def config(cluster: ControlPlane, value: Any) -> str:
    kind = next(name for name in GOOD if GOOD[name]["kind"] == "MachineClass")
    made = changed(GOOD[kind], "spec.config", {"a": value})
    words = ("create", "--dry-run=server", "-f", "-")
    done = cluster.kubectl(*words, stdin=text(made), check=False)
    return "" if done.returncode == 0 else done.stderr


def test_config_of_a_machine_class_is_bounded_in_depth(cluster: ControlPlane) -> None:
    assert config(cluster, nested(CONFIG_DEPTH)) == ""
    assert config(cluster, nested(CONFIG_DEPTH, "x" * 4096)) == ""
    assert "spec.config.a" in config(cluster, nested(CONFIG_DEPTH + 1))
    assert "spec.config.a" in config(cluster, DEEP)
    assert "spec.config.a" in config(cluster, [0] * 129)


def test_a_deep_answer_that_an_earlier_version_stored_stays_readable(
    cluster: ControlPlane,
) -> None:
    """The schema of an earlier version accepted any value; an upgrade leaves it in etcd."""
    crd = definition(HostProbe)
    earlier: dict[str, Any] = json.loads(json.dumps(crd))
    schema = earlier["spec"]["versions"][0]["schema"]["openAPIV3Schema"]
    values = schema["properties"]["status"]["properties"]["answer"]
    values["additionalProperties"] = {"x-kubernetes-preserve-unknown-fields": True}
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(earlier))
    try:
        while answer(cluster, nested(3)):
            pass  # until the server uses the earlier schema
    finally:
        cluster.kubectl("apply", "-f", "-", stdin=json.dumps(crd))
    while not answer(cluster, nested(4), "--dry-run=server"):
        pass  # until the server uses the new schema
    stored = cluster.get("/apis/kubenode.io/v1alpha1/hostprobes/closed")
    assert stored["status"]["answer"]["a"] == nested(3)
    # A write of another field does not have to repair it.
    label = '{"metadata": {"labels": {"x": "y"}}}'
    cluster.kubectl("patch", "hostprobe", "closed", "--type=merge", "-p", label)
    assert answer(cluster, 1) == "", "and an answer takes its place"
