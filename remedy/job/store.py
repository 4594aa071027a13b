"""Jobs at the API server: reads from the informer, writes merge patches with a resourceVersion.

The agent writes `status.agent` of the same object, we everything else. A patch holds only what
changed, so nothing of the agent's is overwritten, and the resourceVersion of the decision, so that
a decision on an outdated object is rejected.
"""

from collections.abc import Iterable
from typing import Any

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from remedy.job.model import FINALIZER, REQUESTED, Job, Requested

NODE_INDEX = "node"
PLURAL = RemedyOperationJob.resource.plural
MOST_CLOSED = 20
"""Closed jobs of one node that stay until their TTL, for people to read."""


class JobStore:
    """Reads and writes jobs. `informer` must be the one of all RemedyOperationJobs."""

    def __init__(self, kube: Kube, informer: Informer[RemedyOperationJob]) -> None:
        self._kube = kube
        self._informer = informer

    def get(self, key: str) -> Job | None:
        """Return the job; None if it is gone, or its newest version cannot be read: nothing is
        decided on it.
        """
        obj = self._informer.get(key)
        return Job.of(obj) if obj is not None and self._informer.readable(key) else None

    def successor(self, job: Job) -> Job | None:
        """Return the job that supersedes this one; None if there is none. Needs the informer's
        index `node`.
        """
        on_node = self._informer.by(NODE_INDEX, job.spec.node_name)
        successors = (obj for obj in on_node if obj.spec.supersedes == job.name)
        return next((Job.of(obj) for obj in successors), None)

    def outnumbered(self, job: Job) -> bool:
        """Report whether MOST_CLOSED jobs of its node closed after it. Needs the informer's index
        `node`.
        """
        return job.name in beyond(self._informer.by(NODE_INDEX, job.spec.node_name))

    async def save(self, before: Job, after: Job) -> Job:
        """Write the difference of the statuses. Raises Conflict if somebody wrote since `before`
        was read.
        """
        body = {
            "metadata": {"resourceVersion": before.resource_version},
            "status": status_patch(before, after),
        }
        path = paths.custom(PLURAL, before.name, "status")
        return Job.of(await self._kube.patch(path, body, decode=self._informer.read))

    async def set_finalizer(self, job: Job, on: bool) -> Job:
        """Set or remove our finalizer; others stay. Raises Conflict like `save`."""
        obj = self._informer.get(job.name)
        others = [f for f in (obj.metadata.finalizers if obj else ()) if f != FINALIZER]
        body = {
            "metadata": {
                "resourceVersion": job.resource_version,
                "finalizers": [*others, FINALIZER] if on else others,
            }
        }
        path = paths.custom(PLURAL, job.name)
        return Job.of(await self._kube.patch(path, body, decode=self._informer.read))

    async def note_request(self, job: Job, request: Requested) -> Job:
        """Write the annotation REQUESTED. Raises Conflict like `save`."""
        version = {"resourceVersion": job.resource_version}
        body = {"metadata": {**version, "annotations": {REQUESTED: str(request)}}}
        path = paths.custom(PLURAL, job.name)
        return Job.of(await self._kube.patch(path, body, decode=self._informer.read))

    async def delete(self, job: Job) -> None:
        """Delete the job by uid; a job that is gone is success."""
        try:
            await self._kube.delete(paths.custom(PLURAL, job.name), uid=job.uid)
        except NotFound:
            return

    async def settled(self, job: Job) -> None:
        """Return when `get` returns what we wrote, or something newer. Raises TimeoutError."""
        if job.name in self._informer.cache:
            await self._informer.wait_for(job.name, job.resource_version)


def beyond(on_node: Iterable[RemedyOperationJob]) -> frozenset[str]:
    """Return the names of the closed jobs of one node that are not among the newest MOST_CLOSED.
    Pure.
    """
    closed = [job for job in on_node if job.status.phase.closed]
    if len(closed) <= MOST_CLOSED:
        return frozenset()
    closed.sort(key=_closed_at)
    return frozenset(job.metadata.name for job in closed[:-MOST_CLOSED])


def _closed_at(job: RemedyOperationJob) -> tuple[float, str]:
    at = job.status.timeline.closed or job.metadata.creation_timestamp
    return at.timestamp() if at is not None else 0.0, job.metadata.name


def status_patch(before: Job, after: Job) -> dict[str, Any]:
    """Return the merge patch between two statuses, without `agent`; it always has the phase.

    A status that was never written reads as its defaults, so the phase makes the first write
    complete.
    """
    patch = merge_patch(_dump(before), _dump(after))
    return {"phase": str(after.phase), "observedGeneration": before.generation, **patch}


def _dump(job: Job) -> dict[str, Any]:
    return job.status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"agent"})


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """Return the RFC 7386 merge patch from `before` to `after`: null removes a key, lists are
    replaced.
    """
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, new in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            if inner := merge_patch(old, new):
                patch[key] = inner
        elif key not in before or old != new:
            patch[key] = new
    return patch
