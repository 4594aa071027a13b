"""Marks on a node whose job is gone: somebody took its finalizer off and deleted it.

Marks that name a job are its own, whoever wrote them, so without the job they are taken off: those
of the autoscalers and the cordon. A fence stays, and with it the cordon: the host may be off.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kubenode.api.cordon import keeps_cordon
from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from remedy.job.marks import removed, set_by
from remedy.job.model import CORDONED_BY, FENCED_BY

GONE = timedelta(minutes=1)
"""A job that is not in our cache for so long is gone, and not merely not seen yet."""


def owners(node: Node) -> set[str]:
    """Names of the jobs whose cordon or marks stand on a node."""
    annotations = node.metadata.annotations
    return {set_by(annotations), annotations.get(CORDONED_BY, "")} - {""}


class LeftMarks:
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
        """By job the monotonic time since when it is known to be missing."""

    def noticed(self, key: str, old: Node | None, new: Node | None) -> Sequence[str]:
        """The mapper of the informer of Nodes."""
        return (key,) if new is not None and self._vanished(new) else ()

    async def reconcile(self, name: str) -> Result:
        """Take off what jobs have left on one node that are gone."""
        node = self._nodes.get(name)
        if node is None:
            return DONE
        now, waits = self._clock.monotonic(), 0.0
        for job in sorted(self._vanished(node)):
            left = self._missing.setdefault(job, now) + GONE.total_seconds() - now
            if left > 0:
                waits = max(waits, left)
                continue
            self._fence.check()
            await self._patch(node, job)
            self._missing.pop(job, None)
        return Result(timedelta(seconds=waits)) if waits else DONE

    def _vanished(self, node: Node) -> set[str]:
        names = owners(node)
        if not names or not self._jobs.fresh():
            return set()
        there = {n for n in names if self._jobs.get(n) is not None or not self._jobs.readable(n)}
        for name in there:
            self._missing.pop(name, None)
        return names - there

    async def _patch(self, node: Node, job: str) -> None:
        """Raises Conflict when somebody wrote since the node was read."""
        annotations = node.metadata.annotations
        changes: dict[str, Any] = dict(removed(annotations, job))
        spec: dict[str, Any] = {}
        if annotations.get(CORDONED_BY) == job and FENCED_BY not in annotations:
            changes[CORDONED_BY] = None
            spec = {} if keeps_cordon(annotations) else {"unschedulable": None}
        if not changes:
            return
        version = {"resourceVersion": node.metadata.resource_version}
        body: dict[str, Any] = {"metadata": {"annotations": changes, **version}}
        if spec:
            body["spec"] = spec
        await self._kube.patch(paths.node(node.metadata.name), body)
