"""Read and write the cordon of Nodes.

Each write follows a live read and carries its resourceVersion, so that a concurrent change by a
person causes a conflict and is not overwritten.
"""

from typing import Any

from kubenode.api.cordon import CORDONED_BY, CordonChange, CordonState
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs

_node = structs(Node)


def cordoned(node: Node) -> CordonState:
    """Return the cordon state of the Node."""
    return CordonState(node.spec.unschedulable, node.metadata.annotations)


class CordonAccess:
    """Access to the cordon of Nodes."""

    def __init__(self, kube: Kube, fence: Fence, informer: Informer[Node]) -> None:
        self._kube, self._fence, self._informer = kube, fence, informer

    async def observe(self, name: str) -> CordonState | None:
        """Return the cordon state from the cache, None if there is no Node.

        A Node that is missing in the cache is read from the API server.
        """
        node = self._informer.get(name)
        return cordoned(node) if node is not None else await self.live(name)

    async def live(self, name: str) -> CordonState | None:
        """Return the cordon state from the API server, None if there is no Node."""
        node = await self.read(name)
        return cordoned(node) if node is not None else None

    async def read(self, name: str) -> Node | None:
        """Return the Node from the API server, None if there is none."""
        try:
            return await self._kube.get(paths.node(name), _node)
        except NotFound:
            return None

    async def write(self, node: Node, change: CordonChange) -> CordonState:
        """Write the change and return the new state.

        Raises Conflict if the Node has changed since it was read.
        """
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
