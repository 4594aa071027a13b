"""What the operator says of a node when it is asked whether the node is ready."""

from typing import Any

import pytest
from support.clock import T0

from remedy.hostprobes.answer_writer import ready
from remedy.hostprobes.gangs import APART, GANG_MARKS, in_gang
from rules.probes import PROBES


def a_pod(*, owner: str = "ReplicaSet", phase: str = "Running", **metadata: Any) -> dict[str, Any]:
    of = {"kind": owner, "apiVersion": "apps/v1", "controller": True}
    owners = [of] if owner else []
    return {"metadata": {"ownerReferences": owners, **metadata}, "status": {"phase": phase}}


def a_node(status: str | None = "True") -> dict[str, Any]:
    conditions = [{"type": "Ready", "status": status}] if status else []
    return {"status": {"conditions": [{"type": "DiskPressure", "status": "False"}, *conditions]}}


@pytest.mark.parametrize("status", ["True", "False", "Unknown"])
def test_the_ready_condition_as_it_is(status: str) -> None:
    assert ready(a_node(status), [], T0)["status"] == status


def test_a_node_that_never_reported_is_unknown() -> None:
    assert ready(a_node(None), [], T0)["status"] == "Unknown"


def test_no_pods_are_neither_stateful_nor_in_a_gang() -> None:
    assert ready(a_node(), [], T0) == {
        "status": "True",
        "statefulset_pods": False,
        "gang_pods": False,
        "pods_stuck_terminating": 0,
        "oldest_pending_s": 0.0,
    }


@pytest.mark.parametrize(
    ("pod", "stateful"),
    [
        (a_pod(owner="StatefulSet"), True),
        (a_pod(owner="ReplicaSet"), False),
        (a_pod(owner=""), False),
        (a_pod(owner="StatefulSet", phase="Succeeded"), False),
        (a_pod(owner="StatefulSet", phase="Pending"), True),
    ],
)
def test_pods_of_statefulsets(pod: dict[str, Any], stateful: bool) -> None:
    assert ready(a_node(), [a_pod(), pod], T0)["statefulset_pods"] is stateful


@pytest.mark.parametrize("mark", sorted(GANG_MARKS))
@pytest.mark.parametrize("where", ["labels", "annotations"])
def test_pods_that_stand_and_fall_together(mark: str, where: str) -> None:
    marked = a_pod()
    marked["metadata"][where] = {mark: "g"}
    assert ready(a_node(), [a_pod(), marked], T0)["gang_pods"] is True


def owned(api_version: str, kind: str, **spec: Any) -> dict[str, Any]:
    owner = {"kind": kind, "apiVersion": api_version, "controller": True}
    return {"metadata": {"ownerReferences": [owner]}, "spec": spec}


@pytest.mark.parametrize(
    "pod",
    [
        {"metadata": {}, "spec": {"schedulingGroup": {"podGroupName": "training-0"}}},
        {"metadata": {}, "spec": {"workloadRef": {"name": "training", "podGroup": "workers"}}},
        {"metadata": {}, "spec": {"schedulerName": "slurm-bridge-scheduler"}},
        owned("ray.io/v1", "RayCluster"),
        owned("slinky.slurm.net/v1beta1", "NodeSet"),
        owned("kubeflow.org/v1", "PyTorchJob"),
        owned("kubeflow.org/v2beta1", "MPIJob"),
        owned("batch.volcano.sh/v1alpha1", "Job"),
        owned("example.com/v1", "NobodyKnows"),
        owned("", "NobodyKnows"),
    ],
    ids=lambda pod: str(pod["metadata"].get("ownerReferences", pod["spec"]))[:60],
)
def test_members_by_api_field_scheduler_and_owner_and_whoever_may_be_one(
    pod: dict[str, Any],
) -> None:
    assert in_gang(pod)


@pytest.mark.parametrize("group", sorted(APART - {"v1"}))
def test_pods_of_controllers_that_replace_one_by_one_are_no_gang(group: str) -> None:
    assert not in_gang(owned(f"{group}/v1", "Anything", schedulerName="default-scheduler"))


def test_static_pods_and_pods_of_nobody_are_no_gang() -> None:
    assert not in_gang(owned("v1", "Node"))
    assert not in_gang({"metadata": {"ownerReferences": [{"apiVersion": "ray.io/v1"}]}})
    assert not in_gang({"metadata": {"labels": None, "annotations": None}, "spec": None})


@pytest.mark.parametrize(("word", "member"), [("true", True), ("false", False), ("maybe", True)])
def test_the_author_of_a_pod_has_the_last_word(word: str, member: bool) -> None:
    ray = owned("ray.io/v1", "RayCluster")
    ray["metadata"]["labels"] = {"kubenode.io/gang": word, "ray.io/cluster": "c"}
    assert in_gang(ray) is member


def test_a_gang_that_is_over_binds_nobody() -> None:
    over = a_pod(phase="Failed", labels={"scheduling.k8s.io/group-name": "g"})
    assert ready(a_node(), [over], T0)["gang_pods"] is False


def test_every_field_that_is_said_is_in_the_catalogue() -> None:
    assert {f"ready.{name}" for name in ready(a_node(), [], T0)} <= PROBES.keys()
