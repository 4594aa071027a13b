"""Removes marks on a node whose job no longer exists, because somebody removed its finalizer and
deleted it.

Marks that name a job belong to it, whoever wrote them, so without the job they are removed: the
autoscaler annotations and the cordon. A fence stays, and its cordon too: the host may be off.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kubenode.api.cordon import CORDONED_BY, remove_mark
from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from remedy.job.marks import removed, set_by
from remedy.job.model import FENCED_BY
from remedy.job.nodes import cordon_state

GONE = timedelta(minutes=1)
"""A job that is missing in our cache for this long is gone, and not merely not cached yet."""


def owners(node: Node) -> set[str]:
    """Return the names of the jobs that a node's cordon and autoscaler annotations name."""
    return {set_by(node.metadata.annotations), *cordon_state(node).jobs} - {""}


class AbandonedMarks:
    """Reconciles nodes that carry marks of jobs that no longer exist."""

    def __init__(
        self,
        kube: Kube,
        nodes: Informer[Node],
        jobs: Informer[RemedyOperationJob],
        clock: Clock,
        fence: Fence,
    ) -> None:
        self._kube, self._nodes, self._jobs = kube, nodes, jobs
        self._clock, self._fence = clock, fence
        self._missing: dict[str, float] = {}
        """Monotonic time in seconds since when a job is known to be missing, by job name."""

    def noticed(self, key: str, old: Node | None, new: Node | None) -> Sequence[str]:
        """Map an event of the Node informer to the keys to reconcile."""
        return (key,) if new is not None and self._vanished(new) else ()

    async def reconcile(self, name: str) -> Result:
        """Remove the marks of missing jobs from one node, once they are missing for GONE."""
        node = self._nodes.get(name)
        if node is None:
            return DONE
        now, waits = self._clock.monotonic(), 0.0
        for job in sorted(self._vanished(node)):
            remaining = self._missing.setdefault(job, now) + GONE.total_seconds() - now
            if remaining > 0:
                waits = max(waits, remaining)
                continue
            self._fence.check()
            await self._patch(node, job)
            self._missing.pop(job, None)
        return Result(timedelta(seconds=waits)) if waits else DONE

    def _vanished(self, node: Node) -> set[str]:
        """Return the jobs named on the node that are missing; none while the cache is stale."""
        names = owners(node)
        if not names or not self._jobs.fresh():
            return set()
        there = {n for n in names if self._jobs.get(n) is not None or not self._jobs.readable(n)}
        for name in there:
            self._missing.pop(name, None)
        return names - there

    async def _patch(self, node: Node, job: str) -> None:
        """Remove the job's marks. Raises Conflict if somebody wrote since the node was read."""
        annotations = node.metadata.annotations
        changes: dict[str, Any] = dict(removed(annotations, job))
        spec: dict[str, Any] = {}
        change = remove_mark(cordon_state(node), job)
        if change is not None and FENCED_BY not in annotations:
            changes[CORDONED_BY] = change.mark
            uncordons = node.spec.unschedulable and not change.unschedulable
            spec = {"unschedulable": None} if uncordons else {}
        if not changes:
            return
        version = {"resourceVersion": node.metadata.resource_version}
        body: dict[str, Any] = {"metadata": {"annotations": changes, **version}}
        if spec:
            body["spec"] = spec
        await self._kube.patch(paths.node(node.metadata.name), body)
