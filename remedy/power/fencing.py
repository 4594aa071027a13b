"""Sets and removes the out-of-service taint on a job's node, with our mark.

Kubernetes releases the pods and volumes of a node with this taint, which is right only for a
machine that is proven off. The list of taints is written as a whole, with the resourceVersion of
its read: a taint that somebody adds in between causes a conflict, and stays.
"""

from typing import Any, Protocol

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.errors import NotFound
from remedy.job.model import FENCED_BY, OUT_OF_SERVICE, Job, JobActResult, JobObservation, StepAct
from remedy.job.power_record import FenceAct

VALUE, EFFECT = "nodeshutdown", "NoExecute"


class NodeClient(Protocol):
    """The part of the client that is needed."""

    async def get(self, path: str) -> dict[str, Any]: ...
    async def patch(self, path: str, body: Any) -> dict[str, Any]: ...


class Fencing:
    def __init__(self, kube: NodeClient) -> None:
        self._kube = kube

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        await (self.fence(job) if what is FenceAct.FENCE else self.unfence(job))
        return JobActResult(what)

    async def fence(self, job: Job) -> None:
        """Set taint and mark in one write; do nothing if the taint is set already.
        Raises Conflict.
        """
        node = await self._live(job)
        if node is None or any(t.get("key") == OUT_OF_SERVICE for t in _taints(node)):
            return
        ours = {"key": OUT_OF_SERVICE, "value": VALUE, "effect": EFFECT}
        await self._write(node, [*_taints(node), ours], job.mark)

    async def unfence(self, job: Job) -> None:
        """Remove the taint if it carries our mark. Raises Conflict."""
        node = await self._live(job)
        if node is None or _annotations(node).get(FENCED_BY) != job.mark:
            return
        await self._write(node, [t for t in _taints(node) if t.get("key") != OUT_OF_SERVICE], None)

    async def _live(self, job: Job) -> dict[str, Any] | None:
        """Return the Node with all fields of its taints; None if it is gone or has another uid."""
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
