"""What is taken off a Node when everything of ours has gone, and what stays."""

from typing import Any

from kubenode.cli.uninstall_nodes import NodeCleanup, plan_cleanup

OUT_OF_SERVICE = {"key": "node.kubernetes.io/out-of-service", "effect": "NoExecute"}
GPU = {"key": "nvidia.com/gpu", "effect": "NoSchedule"}
SAFE = "cluster-autoscaler.kubernetes.io/scale-down-disabled"


def a_node(*, spec: dict[str, Any] | None = None, **annotations: str) -> dict[str, Any]:
    notes = {f"kubenode.io/{key.replace('_', '-')}": value for key, value in annotations.items()}
    return {"metadata": {"name": "n", "annotations": notes}, "spec": spec or {}, "status": {}}


def test_a_node_without_a_mark_of_ours_is_left_alone() -> None:
    person = {"unschedulable": True, "taints": [GPU, OUT_OF_SERVICE]}
    assert plan_cleanup(a_node(spec=person, hands_off="true")) == NodeCleanup()


def test_a_cordon_of_ours_is_taken_off_with_its_mark() -> None:
    left = plan_cleanup(a_node(spec={"unschedulable": True}, cordoned_by="job-1"))
    assert left.node == {
        "metadata": {"annotations": {"kubenode.io/cordoned-by": None}},
        "spec": {"unschedulable": None},
    }


def test_a_mark_on_a_node_that_somebody_uncordoned_is_all_that_goes() -> None:
    left = plan_cleanup(a_node(cordoned_by="Machine/m/uid"))
    assert left.node == {"metadata": {"annotations": {"kubenode.io/cordoned-by": None}}}


def test_of_the_taints_the_fence_goes_and_the_others_stay() -> None:
    left = plan_cleanup(a_node(spec={"taints": [GPU, OUT_OF_SERVICE]}, fenced_by="job-1"))
    assert left.node["spec"] == {"taints": [GPU]}


def test_autoscaler_marks_go_where_we_set_them() -> None:
    node = a_node(protected_by=f"job-1 {SAFE}")
    node["metadata"]["annotations"] |= {SAFE: "true", "karpenter.sh/do-not-disrupt": "true"}
    gone = plan_cleanup(node).node["metadata"]["annotations"]
    assert gone == {SAFE: None, "kubenode.io/protected-by": None}


def test_labels_and_taints_of_a_machine_go_with_its_name() -> None:
    notes = {
        "machine": "m",
        "labels_from_machine": "pool=a",
        "taints_from_machine": "gpu=:NoExecute",
    }
    node = a_node(spec={"taints": [GPU, {"key": "gpu", "effect": "NoExecute"}]}, **notes)
    node["metadata"]["labels"] = {"pool": "a", "mine": "b"}
    left = plan_cleanup(node).node
    assert left["metadata"]["labels"] == {"pool": None}
    assert set(left["metadata"]["annotations"].values()) == {None}
    assert len(left["metadata"]["annotations"]) == 3
    assert left["spec"] == {"taints": [GPU]}


def test_the_finalizer_of_a_node_class_goes_and_others_stay() -> None:
    node = a_node()
    node["metadata"]["finalizers"] = ["other", "kubenode.io/node-class"]
    assert plan_cleanup(node).node == {"metadata": {"finalizers": ["other"]}}
    node["metadata"]["finalizers"] = ["other"]
    assert plan_cleanup(node) == NodeCleanup()


def test_conditions_go_that_the_agent_wrote_and_nobody_else() -> None:
    node = a_node()
    node["status"]["conditions"] = [{"type": kind} for kind in ("Ready", "DiskSlow", "Theirs")]
    node["metadata"]["managedFields"] = [
        _wrote("kubenode-agent", "DiskSlow", "LongGone"),
        _wrote("kubelet", "Ready"),
        _wrote("node-problem-detector", "Theirs"),
    ]
    left = plan_cleanup(node)
    assert left.status == {"status": {"conditions": [{"$patch": "delete", "type": "DiskSlow"}]}}
    assert left.node == {}


def _wrote(manager: str, *kinds: str) -> dict[str, Any]:
    keys: dict[str, Any] = {f'k:{{"type":"{kind}"}}': {} for kind in kinds}
    fields = {"f:status": {"f:conditions": {".": {}, **keys}}}
    return {"manager": manager, "subresource": "status", "fieldsV1": fields}
