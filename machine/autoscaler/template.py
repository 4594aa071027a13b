"""Node that a new machine of a set will become, for an autoscaler's simulation. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass

from kubenode.api.v1alpha1 import MachineClass, MachineSet
from kubenode.api.v1alpha1.machine import Propagation

ARCH, OS = "kubernetes.io/arch", "kubernetes.io/os"
HOSTNAME, ZONE = "kubernetes.io/hostname", "topology.kubernetes.io/zone"
PODS = "110"
"""Default of a kubelet's maxPods."""


@dataclass(frozen=True, slots=True)
class NodeTemplate:
    """The Node. Amounts are in the notation of Kubernetes; a taint is key, value and effect."""

    name: str
    labels: Mapping[str, str]
    taints: tuple[tuple[str, str, str], ...]
    capacity: Mapping[str, str]
    allocatable: Mapping[str, str]


def build_template(machine_set: MachineSet, class_: MachineClass | None) -> NodeTemplate | None:
    """Return the Node, None if its class does not state the resources.

    Taints that others remove after the start (propagation OnInitialization) are left out: pods wait
    for the removal, and fit then.
    """
    if class_ is None or class_.spec.node is None:
        return None
    node, wanted = class_.spec.node, machine_set.spec.template.spec.node_template
    name = f"{machine_set.metadata.name}-template"
    zone = {ZONE: class_.spec.failure_domain} if class_.spec.failure_domain else {}
    fixed = {ARCH: "amd64", OS: "linux", HOSTNAME: name, **zone}
    capacity = {"pods": PODS, **node.capacity}
    taints = (t for t in wanted.taints if t.propagation is Propagation.ALWAYS)
    return NodeTemplate(
        name,
        {**fixed, **node.labels, **wanted.labels},
        tuple((t.key, t.value, t.effect) for t in taints),
        capacity,
        {**capacity, **node.allocatable},
    )
