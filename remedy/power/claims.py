"""Claims a new Node as the replacement of one job, so that no other job counts it.

The claim is an annotation on the new Node, written with the resourceVersion at which it was
unclaimed: if two jobs choose the same Node, one write is rejected and that job looks for another.
"""

from collections.abc import Iterable
from typing import Any, Protocol

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import Conflict, NotFound

REPLACES = "kubenode.io/replaces"
"""Annotation on a Node: the request that it is the replacement for, as `uid of the
job`.`request`.
"""


class NodeApi(Protocol):
    """The part of the client that is needed."""

    async def get(self, path: str) -> dict[str, Any]: ...
    async def patch(self, path: str, body: Any) -> dict[str, Any]: ...


class ReplacementClaims:
    def __init__(self, kube: NodeApi) -> None:
        self._kube = kube

    async def claim(self, names: Iterable[str], request: str) -> str:
        """Return the Node that belongs to the request from now on, "" for none. Raises
        KubeError.
        """
        free = []
        for name in names:
            node = await self._read(name)
            holder = _holder(node) if node is not None else None
            if holder == request:
                return name
            if node is not None and not holder:
                free.append(node)
        for node in free:
            if await self._write(node, request):
                return str(node["metadata"]["name"])
        return ""

    async def _read(self, name: str) -> dict[str, Any] | None:
        try:
            return await self._kube.get(paths.node(name))
        except NotFound:
            return None

    async def _write(self, node: dict[str, Any], request: str) -> bool:
        meta = node["metadata"]
        version = {"uid": meta["uid"], "resourceVersion": meta["resourceVersion"]}
        body = {"metadata": {**version, "annotations": {REPLACES: request}}}
        try:
            await self._kube.patch(paths.node(meta["name"]), body)
        except (Conflict, NotFound):
            return False  # the next reconcile tries again
        return True


def _holder(node: dict[str, Any]) -> str:
    return str((node["metadata"].get("annotations") or {}).get(REPLACES) or "")
