"""Reports all remediation requests to Host Doctor, and writes the progress of the repair to each
request.

The complete list is reported after each change, and every half minute: a request that was deleted,
even during a restart, is over. What could not be read is reported the next time.
"""

import asyncio
import logging
from typing import Any

from kubenode.api.v1alpha1 import KubeNodeRemediation, RemedyOperationJob
from kubenode.api.v1alpha1.hostevent import HostEvent
from kubenode.api.v1alpha1.remediation import KubeNodeRemediationStatus
from kubenode.runtime.clock import Clock, wait
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.paths import GROUP as OURS
from kubenode.runtime.kube.paths import VERSION, resource
from remedy.hostdoctor.desk import SCOPE_INDEX, HostEventService, NotReady
from remedy.hostdoctor.record import fitted, name_of
from remedy.hostdoctor.report import Reported, ReportedEvents, ReportedHost
from remedy.job.store import NODE_INDEX
from remedy.remediation.step import GROUP, SCOPE, build_report, host_of, owner_of, status_of

log = logging.getLogger(__name__)

EVERY_SECONDS = 30.0
GATHER_SECONDS = 0.5
"""Time in which changes are collected before the next pass."""
MOST = 1000
"""Most concurrent requests; more are a mistake, or a cluster that repairs of single nodes cannot
help.
"""


class Remediations:
    """A Part that needs the lease."""

    name = "remediation-requests"

    def __init__(
        self,
        kube: Kube,
        requests: Informer[KubeNodeRemediation],
        jobs: Informer[RemedyOperationJob],
        desk: HostEventService,
        clock: Clock,
        fence: Fence,
    ) -> None:
        self._kube, self._requests, self._jobs, self._desk = kube, requests, jobs, desk
        self._clock, self._fence = clock, fence
        self._news, self._trouble = asyncio.Event(), ""
        requests.add_handler(lambda key, old, new: self._news.set())
        jobs.add_handler(self._job_changed)

    async def run(self) -> None:
        await self._requests.synced.wait()
        while True:
            self._news.clear()
            try:
                await self.process_requests()
                self._tell("")
            except (KubeError, NotReady) as error:
                self._tell(str(error))
            await wait(self._clock, self._news, EVERY_SECONDS)
            await self._clock.sleep(GATHER_SECONDS)

    async def process_requests(self) -> None:
        """Process all requests once, unless there are none now and were none before. Raises
        KubeError, NotReady.
        """
        if not self._requests.fresh():
            return
        requests = [item for _, item in sorted(self._requests.cache.items())]
        if not requests and self._desk.ready and not self._desk.events.by(SCOPE_INDEX, SCOPE):
            return
        if len(requests) > MOST:
            self._tell(f"{len(requests)} requests at once are more than {MOST}: none is looked at")
            return
        hosts = [await self._host(item) for item in requests]
        events = [build_report(item, host) for item, host in zip(requests, hosts, strict=True)]
        self._fence.check()
        await self._desk.take(ReportedEvents(tuple(events), SCOPE, complete=True))
        for request, host, event in zip(requests, hosts, events, strict=True):
            await self._answer(request, host, event)

    async def _host(self, request: KubeNodeRemediation) -> ReportedHost | None:
        owner = owner_of(request)
        if owner is None:
            return None
        base = f"/apis/{GROUP}/{owner.version}"
        path = resource(base, "machines", namespace=owner.namespace, name=owner.name)
        machine: dict[str, Any] | None
        try:
            machine = await self._kube.get(path)
        except NotFound:
            machine = None
        return host_of(owner, machine)

    async def _answer(
        self, request: KubeNodeRemediation, host: ReportedHost | None, reported: Reported
    ) -> None:
        event: HostEvent | None = self._desk.writer.known(name_of(fitted(reported)))
        node = event.spec.node.name if event is not None else ""
        jobs = self._jobs.by(NODE_INDEX, node) if node else ()
        status = status_of(request.status, host, event, jobs, self._clock.now())
        if status != request.status:
            await self._write(request, status)

    async def _write(self, request: KubeNodeRemediation, status: KubeNodeRemediationStatus) -> None:
        meta = request.metadata
        path = resource(
            f"/apis/{OURS}/{VERSION}",
            request.resource.plural,
            namespace=meta.namespace,
            name=meta.name,
            subresource="status",
        )
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": status.to_dict(),
        }
        self._fence.check()
        try:
            await self._kube.patch(path, body)
        except (Conflict, NotFound):
            self._news.set()

    def _job_changed(
        self, key: str, old: RemedyOperationJob | None, new: RemedyOperationJob | None
    ) -> None:
        """Start a pass if there are requests: the progress of repairs matters only to them."""
        if self._requests.cache:
            self._news.set()

    def _tell(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("requests for remediation wait", extra={"why": trouble})
        self._trouble = trouble
