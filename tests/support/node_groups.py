"""MachineSets that an autoscaler may scale, their class and their Machines."""

from typing import Any

from kubenode.api.v1alpha1 import Machine, MachineClass, MachineSet
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeSpec

NAME, CLASS = "pool", "large"


def a_group(replicas: int = 2, low: int = 0, high: int = 5, **more: Any) -> MachineSet:
    """`template` is the spec of the template, beyond the class; other fields are of the set."""
    labels = {"set": NAME}
    template = {"classRef": CLASS, **more.pop("template", {})}
    limits = {"minReplicas": low, "maxReplicas": high}
    spec = {
        "replicas": replicas,
        "selector": {"matchLabels": labels},
        "template": {"metadata": {"labels": labels}, "spec": template},
        "autoscaling": limits,
        **more,
    }
    metadata = {"name": NAME, "uid": "set-uid"}
    return MachineSet.model_validate({"metadata": metadata, "spec": spec})


def a_group_class(**spec: Any) -> MachineClass:
    body = {"metadata": {"name": CLASS}, "spec": {"provider": "local", "config": {}, **spec}}
    return MachineClass.model_validate(body)


def a_group_machine(
    name: str,
    status: dict[str, Any] | None = None,
    metadata: dict[str, Any] | None = None,
    provider_id: str = "",
) -> Machine:
    spec = {"origin": "Provision", "classRef": CLASS, "providerID": provider_id}
    meta = {"name": name, "uid": f"uid-{name}", **(metadata or {})}
    return Machine.model_validate({"metadata": meta, "spec": spec, "status": status or {}})


def a_group_node(name: str, provider_id: str) -> Node:
    return Node(KubeObjectMeta(name=name), NodeSpec(provider_id=provider_id))
