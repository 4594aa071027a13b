"""Jobs at the API server: read from the informer, written by merge patches that a conflict stops.

The agent writes `status.agent` of the same object, we everything else. A patch holds only what
changed, so nothing of the agent's is ever overwritten, and the resourceVersion that the decision
was made on, so that nothing is decided on an outdated object.
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
    """`informer` is the one of all RemedyOperationJobs."""

    def __init__(self, kube: Kube, informer: Informer[RemedyOperationJob]) -> None:
        self._kube = kube
        self._informer = informer

    def get(self, key: str) -> Job | None:
        """None also for a job whose newest version we cannot read: nothing is decided on it."""
        obj = self._informer.get(key)
        return Job.of(obj) if obj is not None and self._informer.readable(key) else None

    def successor(self, job: Job) -> Job | None:
        """The job that supersedes this one. Needs the index `node` of the informer."""
        on_node = self._informer.by(NODE_INDEX, job.spec.node_name)
        found = (obj for obj in on_node if obj.spec.supersedes == job.name)
        return next((Job.of(obj) for obj in found), None)

    def outnumbered(self, job: Job) -> bool:
        """Whether MOST_CLOSED jobs of its node closed after it. Needs the index `node` too."""
        return job.name in beyond(self._informer.by(NODE_INDEX, job.spec.node_name))

    async def save(self, before: Job, after: Job) -> Job:
        """Raises Conflict when somebody wrote since `before` was read."""
        body = {
            "metadata": {"resourceVersion": before.resource_version},
            "status": status_patch(before, after),
        }
        path = paths.custom(PLURAL, before.name, "status")
        return Job.of(await self._kube.patch(path, body, decode=self._informer.read))

    async def set_finalizer(self, job: Job, on: bool) -> Job:
        """Ours on or off; those of others stay. Raises Conflict like `save`."""
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
        """Raises Conflict like `save`."""
        version = {"resourceVersion": job.resource_version}
        body = {"metadata": {**version, "annotations": {REQUESTED: str(request)}}}
        path = paths.custom(PLURAL, job.name)
        return Job.of(await self._kube.patch(path, body, decode=self._informer.read))

    async def delete(self, job: Job) -> None:
        try:
            await self._kube.delete(paths.custom(PLURAL, job.name), uid=job.uid)
        except NotFound:
            return

    async def settled(self, job: Job) -> None:
        """Return when `get` gives what we wrote, or something newer. Raises TimeoutError."""
        if job.name in self._informer.cache:
            await self._informer.wait_for(job.name, job.resource_version)


def beyond(on_node: Iterable[RemedyOperationJob]) -> frozenset[str]:
    """Names of the closed jobs of one node that are not among the newest MOST_CLOSED. Pure."""
    closed = [job for job in on_node if job.status.phase.closed]
    if len(closed) <= MOST_CLOSED:
        return frozenset()
    closed.sort(key=_closed_at)
    return frozenset(job.metadata.name for job in closed[:-MOST_CLOSED])


def _closed_at(job: RemedyOperationJob) -> tuple[float, str]:
    at = job.status.timeline.closed or job.metadata.creation_timestamp
    return at.timestamp() if at is not None else 0.0, job.metadata.name


def status_patch(before: Job, after: Job) -> dict[str, Any]:
    """The merge patch from one status to the other, without `agent`; phase is always named.

    A status that was never written reads as its defaults; naming the phase writes the first one.
    """
    patch = merge_patch(_dump(before), _dump(after))
    return {"phase": str(after.phase), "observedGeneration": before.generation, **patch}


def _dump(job: Job) -> dict[str, Any]:
    return job.status.model_dump(mode="json", by_alias=True, exclude_none=True, exclude={"agent"})


def merge_patch(before: dict[str, Any], after: dict[str, Any]) -> dict[str, Any]:
    """RFC 7386: what makes `after` of `before`; null removes, lists are replaced as a whole."""
    patch: dict[str, Any] = {key: None for key in before if key not in after}
    for key, new in after.items():
        old = before.get(key)
        if isinstance(old, dict) and isinstance(new, dict):
            if inner := merge_patch(old, new):
                patch[key] = inner
        elif key not in before or old != new:
            patch[key] = new
    return patch
