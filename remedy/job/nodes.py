"""Reads a job's Node and changes it: the cordon with our mark, labels and annotations.

Every change reads the Node live first, compares its uid, and carries the resourceVersion of that
read: a write of a person in between is not overwritten, and the next run sees it. The rounds of one
run follow within milliseconds and share a read; the response to our own write counts as one too.
"""

from dataclasses import replace
from typing import Any

from kubenode.api.cordon import (
    CORDONED_BY,
    CordonChange,
    CordonState,
    add_mark,
    remove_mark,
    replace_mark,
)
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, structs
from remedy.job.marks import added, removed
from remedy.job.model import FENCED_BY, OUT_OF_SERVICE, Job, NodeObservation
from remedy.remedier.boots import Boots
from remedy.remedier.leases import AGENT_SILENT, Ages

_node = structs(Node)

LIVE = 0.25
"""Seconds for which a read counts as live: under load a request takes as long."""
AHEAD = 60.0
"""Seconds for which a read is remembered while the cache is behind it."""


def observe_node(node: Node) -> NodeObservation:
    """Convert a Node to an observation, without what its agent reports."""
    return NodeObservation(
        unschedulable=node.spec.unschedulable,
        cordoned_by=node.metadata.annotations.get(CORDONED_BY, ""),
        boot_id=node.status.node_info.boot_id,
        provider_id=node.spec.provider_id,
        out_of_service=any(taint.key == OUT_OF_SERVICE for taint in node.spec.taints),
        fenced_by=node.metadata.annotations.get(FENCED_BY, ""),
        ready=node.ready_condition.status if node.ready_condition is not None else "",
        labels=node.metadata.labels,
        annotations=node.metadata.annotations,
    )


def cordon_state(node: Node) -> CordonState:
    """Return the cordon of the Node."""
    return CordonState(node.spec.unschedulable, node.metadata.annotations)


def cordon_owner(node: Node, job: Job) -> str:
    """Return the owner of the cordon that concerns the job: the job itself, else the job that it
    supersedes, else the whole annotation; "" for none.
    """
    marks = cordon_state(node).marks
    concerned = (mark for mark in (job.mark, job.spec.supersedes) if mark and mark in marks)
    return next(concerned, node.metadata.annotations.get(CORDONED_BY, ""))


def same(node: Node, job: Job) -> bool:
    """Report whether it is the node that the job was made for; without a uid the name is enough."""
    return job.spec.node_uid in ("", node.metadata.uid)


class NodeAccess:
    """Reads and changes Nodes for jobs.

    agents: time since the agents renewed their Leases
    boots: boot IDs as kubelets and agents report them
    """

    def __init__(self, kube: Kube, informer: Informer[Node], agents: Ages, boots: Boots) -> None:
        self._kube = kube
        self._informer = informer
        self._agents, self._boots = agents, boots
        self._recent: dict[str, tuple[float, Node]] = {}

    def known(self) -> bool:
        """Report whether all sources that `read` uses are available."""
        return self._boots.known()

    async def read(self, job: Job, *, live: bool) -> NodeObservation | None:
        """Return the job's node; None if it is gone or has another uid. `live` reads it from the
        API server.
        """
        node = await self._live(job) if live else self._newest(job.spec.node_name)
        if node is None or not same(node, job):
            return None
        agent = job.spec.agent
        age = self._agents.age(agent)
        return replace(
            observe_node(node),
            cordoned_by=cordon_owner(node, job),
            boot_id=self._boots.of(node, agent),
            agent_silent=age is not None and age > AGENT_SILENT,
        )

    def _newest(self, name: str) -> Node | None:
        """Return the Node from the cache, or our last read or write if the cache is behind it;
        None: gone.

        A cache without our own cordon would suggest that a person removed it.
        """
        cached = self._informer.get(name)
        if cached is None or name not in self._recent:
            return cached
        at, recent = self._recent[name]
        ahead = self._kube.clock.monotonic() < at + AHEAD and _version(recent) > _version(cached)
        return recent if ahead else cached

    async def _live(self, job: Job) -> Node | None:
        """Return the Node as read within LIVE, else read it; None if it is gone."""
        name, now = job.spec.node_name, self._kube.clock.monotonic()
        self._recent = {n: entry for n, entry in self._recent.items() if now < entry[0] + AHEAD}
        if name in self._recent and now < self._recent[name][0] + LIVE:
            return self._recent[name][1]
        try:
            node = await self._kube.get(paths.node(name), _node)
        except NotFound:
            return None
        self._recent[name] = (now, node)
        return node

    async def cordon(self, job: Job) -> None:
        """Set unschedulable and our mark in one write, or add our mark to those of other owners; do
        nothing if a person cordoned the node.
        """
        node = await self._live(job)
        if node is None or not same(node, job):
            return
        await self._write_cordon(node, add_mark(cordon_state(node), job.mark))

    async def uncordon(self, job: Job) -> None:
        """Remove our mark, and the cordon if no other owner needs it; do nothing if there is no
        mark of ours.

        The cordon stays if a person annotated the node with `kubenode.io/keep-cordoned`.
        """
        node = await self._live(job)
        if node is None or not same(node, job):
            return
        await self._write_cordon(node, remove_mark(cordon_state(node), job.mark))

    async def protect(self, job: Job) -> None:
        """Set the missing autoscaler annotations, and our record of them, in one write."""
        node = await self._live(job)
        if node is None or not same(node, job):
            return
        if marks := added(node.metadata.annotations, job.mark):
            await self._patch(node, {"annotations": marks})

    async def unprotect(self, job: Job) -> None:
        """Remove the autoscaler annotations that this job set."""
        node = await self._live(job)
        if node is None or not same(node, job):
            return
        if marks := removed(node.metadata.annotations, job.mark):
            await self._patch(node, {"annotations": marks})

    async def adopt_cordon(self, job: Job) -> None:
        """Replace the superseded job's mark by ours; do nothing if the cordon is not that job's."""
        node = await self._live(job)
        if node is None or not same(node, job):
            return
        change = replace_mark(cordon_state(node), job.spec.supersedes, job.mark)
        await self._write_cordon(node, change)

    async def _write_cordon(self, node: Node, change: CordonChange | None) -> None:
        if change is None:
            return
        differs = change.unschedulable != node.spec.unschedulable
        spec = {"unschedulable": change.unschedulable or None} if differs else None
        await self._patch(node, {"annotations": {CORDONED_BY: change.mark}}, spec)

    async def set(self, job: Job, kind: str, key: str, value: str) -> None:
        """Set one label or annotation; `kind` is the metadata field."""
        node = await self._live(job)
        if node is not None and same(node, job):
            await self._patch(node, {kind: {key: value}})

    async def _patch(
        self, node: Node, metadata: dict[str, Any], spec: dict[str, Any] | None = None
    ) -> None:
        version = {"resourceVersion": node.metadata.resource_version}
        body: dict[str, Any] = {"metadata": {**metadata, **version}}
        if spec is not None:
            body["spec"] = spec
        name = node.metadata.name
        self._recent.pop(name, None)
        now = self._kube.clock.monotonic()
        written = await self._kube.patch(paths.node(name), body, decode=_node)
        self._recent[name] = (now, written)


def _version(node: Node) -> int:
    return int(node.metadata.resource_version or 0)
