"""Nodes as a disruption sees and changes them: read live before each write, and written over what
was read, so that a person who wrote in between is seen by the next run, not overwritten.
"""

from typing import Any

from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from machine.disruption.cordon import CORDONED_BY, CordonChange, Cordoned

_node = structs(Node)


def cordoned(node: Node) -> Cordoned:
    return Cordoned(node.spec.unschedulable, node.metadata.annotations)


class CordonAccess:
    def __init__(self, kube: Kube, fence: Fence, informer: Informer[Node]) -> None:
        self._kube, self._fence, self._informer = kube, fence, informer

    async def seen(self, name: str) -> Cordoned | None:
        """As the cache has it. That there is none is believed of the server alone."""
        node = self._informer.get(name)
        return cordoned(node) if node is not None else await self.live(name)

    async def live(self, name: str) -> Cordoned | None:
        node = await self.read(name)
        return cordoned(node) if node is not None else None

    async def read(self, name: str) -> Node | None:
        try:
            return await self._kube.get(paths.node(name), _node)
        except NotFound:
            return None

    async def write(self, node: Node, change: CordonChange) -> Cordoned:
        """Raises Conflict when somebody wrote since `node` was read."""
        self._fence.check()
        body: dict[str, Any] = {
            "metadata": {
                "resourceVersion": node.metadata.resource_version,
                "annotations": {CORDONED_BY: change.mark},
            },
            "spec": {"unschedulable": change.unschedulable or None},
        }
        name = node.metadata.name
        return cordoned(await self._kube.patch(paths.node(name), body, decode=_node))
