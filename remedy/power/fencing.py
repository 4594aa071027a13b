"""The out-of-service taint on a job's node, under our mark.

Kubernetes frees the pods and the volumes of a node that carries it: right only for a machine that
is proven dark. Taints are a list without a key of their own, so the whole list is written, with the
resourceVersion that it was read at: a taint that somebody adds in between is a conflict, and stays.
"""

from typing import Any, Protocol

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import NotFound
from remedy.job.model import FENCED_BY, OUT_OF_SERVICE, Job

VALUE, EFFECT = "nodeshutdown", "NoExecute"


class NodeClient(Protocol):
    """Of the client what is needed."""

    async def get(self, path: str) -> dict[str, Any]: ...
    async def patch(self, path: str, body: Any) -> dict[str, Any]: ...


class Fencing:
    def __init__(self, kube: NodeClient) -> None:
        self._kube = kube

    async def fence(self, job: Job) -> None:
        """Taint and mark in one write; nothing if the taint is there already. Raises Conflict."""
        node = await self._live(job)
        if node is None or any(t.get("key") == OUT_OF_SERVICE for t in _taints(node)):
            return
        ours = {"key": OUT_OF_SERVICE, "value": VALUE, "effect": EFFECT}
        await self._write(node, [*_taints(node), ours], job.mark)

    async def unfence(self, job: Job) -> None:
        """Take off the taint that carries our mark, and no other. Raises Conflict."""
        node = await self._live(job)
        if node is None or _annotations(node).get(FENCED_BY) != job.mark:
            return
        await self._write(node, [t for t in _taints(node) if t.get("key") != OUT_OF_SERVICE], None)

    async def _live(self, job: Job) -> dict[str, Any] | None:
        """The Node as it is, with all fields of its taints; None if it is gone or another one."""
        try:
            node = await self._kube.get(paths.node(job.spec.node_name))
        except NotFound:
            return None
        return node if job.spec.node_uid in ("", node["metadata"]["uid"]) else None

    async def _write(
        self, node: dict[str, Any], taints: list[dict[str, Any]], mark: str | None
    ) -> None:
        meta = node["metadata"]
        body = {
            "metadata": {
                "resourceVersion": meta["resourceVersion"],
                "annotations": {FENCED_BY: mark},
            },
            "spec": {"taints": taints or None},
        }
        await self._kube.patch(paths.node(meta["name"]), body)


def _taints(node: dict[str, Any]) -> list[dict[str, Any]]:
    return node.get("spec", {}).get("taints") or []


def _annotations(node: dict[str, Any]) -> dict[str, str]:
    return node["metadata"].get("annotations") or {}
