"""Replaces a machine through Cluster API, by the Machine of the Node.

A Machine of a MachineSet is deleted, and the set creates another. A Machine of another controller
(a control plane) is marked for remediation, which that controller does in its own order; a
MachineHealthCheck must cover it. A Machine without a controller is left alone, since it would not
be replaced. Sources: cluster-api.sigs.k8s.io, Node annotations of the Machine controller, health
checks.
"""

from typing import Any

from kubenode.api.v1alpha1.ladder import ReplacePath
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.objects import Node
from remedy.job.model import JobActResult
from remedy.power.methods import (
    ObjectReplacement,
    ReplacementRequest,
    ReplacementTarget,
    controller_of,
    created,
    newest_of,
    taken,
    to_failed_result,
    young,
)
from remedy.power.observation import ReplacementObservation

MACHINE, NAMESPACE = "cluster.x-k8s.io/machine", "cluster.x-k8s.io/cluster-namespace"
"""Annotations of a Node: name and namespace of its Machine."""
DEPLOYMENT = "cluster.x-k8s.io/deployment-name"
"""Label of a Machine: its MachineDeployment, which outlives its MachineSets."""
REMEDIATE = "cluster.x-k8s.io/remediate-machine"
SET = "MachineSet"


class ClusterApi(ObjectReplacement):
    name = ReplacePath.CLUSTER_API
    group, plural = "cluster.x-k8s.io", "machines"

    async def find(self, node: Node) -> ReplacementTarget | str:
        annotations = node.metadata.annotations
        name, namespace = annotations.get(MACHINE), annotations.get(NAMESPACE)
        if not name or not namespace:
            return f"the Node has no annotations {MACHINE} and {NAMESPACE}"
        path = await self.path(name, namespace)
        machine = None if path is None else await self.read(path)
        if machine is None:
            return f"Machine {namespace}/{name} is not in this cluster"
        if _node_of(machine) != node.metadata.name:
            return f"Machine {namespace}/{name} says that it is another node's"
        if controller_of(machine) is None:
            return f"Machine {namespace}/{name} has no controller that would make another"
        uid = machine["metadata"]["uid"]
        group = _group_of(machine)
        made = [
            created(member) for member in await self.all(namespace) if _group_of(member) == group
        ]
        return ReplacementTarget(f"{namespace}/{name}/{uid}", group, newest_of(made))

    async def ask(self, request: ReplacementRequest) -> JobActResult:
        namespace, name, uid = request.target.split("/")
        path = await self.path(name, namespace)
        if path is None or request.group.startswith((SET, "MachineDeployment")):
            return taken() if path is None else await self.delete(path, uid)
        body = {"metadata": {"uid": uid, "annotations": {REMEDIATE: request.request}}}
        try:
            await self._kube.patch(path, body)
        except KubeError as error:
            return to_failed_result(error)
        return taken()

    async def far(self, request: ReplacementRequest) -> ReplacementObservation:
        namespace, name, uid = request.target.split("/")
        gone = not await self.is_there(name, uid, namespace)
        others = await self.recent(namespace) if gone else []
        new = [
            m
            for m in others
            if m["metadata"]["uid"] != uid and _group_of(m) == request.group and young(m, request)
        ]
        new = [m for m in new if not self.is_taken(_node_of(m), request)]
        ready = tuple(n for n in map(_node_of, new) if n and self.ready(n))
        why = f"Machine {namespace}/{name} is not gone yet"
        if gone:
            why = (
                f"{request.group} has no new Machine yet"
                if not new
                else "the new node is not Ready"
            )
        return ReplacementObservation(
            self.name,
            request.target,
            request.group,
            gone=gone,
            new=next(iter(ready), ""),
            candidates=ready,
            why=why,
        )


def _node_of(machine: dict[str, Any]) -> str:
    return str(((machine.get("status") or {}).get("nodeRef") or {}).get("name") or "")


def _group_of(machine: dict[str, Any]) -> str:
    deployment = (machine["metadata"].get("labels") or {}).get(DEPLOYMENT)
    if deployment:
        return f"MachineDeployment {deployment}"
    owner = controller_of(machine)
    return f"{owner['kind']} {owner['name']}" if owner else ""
