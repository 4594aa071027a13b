"""The kubelets of the simulated fleet, as clients of the API server.

Each renews its node's Lease, reports the node's status, starts pods that are bound to its node, and
ends pods that are being deleted. A kubelet that has failed does none of it, so its pods stay
Terminating and its Lease expires. A kubelet whose runtime has failed reports Ready=False.

The node controller is here too, since it reads the same heartbeat: it sets the conditions of a node
with an expired Lease to Unknown.
"""

import asyncio
import random
from datetime import datetime
from functools import partial
from typing import Any

from kubenode.api.meta import format_time
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import STRATEGIC_PATCH, Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Pod
from simulation.demo.agenda import Agenda
from simulation.demo.fleet import conditions, node_info, whole_seconds
from simulation.demo.hosts import CONTAINERD, KUBELET, DemoHost

LEASES = "kube-node-lease"
LEASE_EVERY = 10.0
STATUS_EVERY = 300.0
LEASES_PER_SECOND = 30.0
STATUS_PER_SECOND = 30.0
MISSED = 4
"""Lease renewals that a kubelet may miss before its conditions become Unknown."""
GRACE = 30.0
DAEMON = "demo.kubenode.io/daemon"
"""Label of daemon pods, which do not count as workload."""


class Kubelets:
    """A Part: all kubelets and the node controller."""

    name = "kubelets"

    def __init__(
        self,
        kube: Kube,
        hosts: dict[str, DemoHost],
        pods: Informer[Pod],
        agenda: Agenda,
        routine: Agenda,
        clock: Clock,
        speed: float,
        rng: random.Random,
    ) -> None:
        self._kube = kube
        self._hosts = hosts
        self._pods = pods
        self._agenda = agenda
        self._routine = routine
        self._clock = clock
        self._speed = speed
        self._rng = rng
        # Real intervals divided by the speed would be 2 renewals a second for each node. Above some
        # hundred nodes they are less frequent, and the node controller waits for longer.
        count = len(hosts)
        self.lease_every = max(LEASE_EVERY / speed, count / LEASES_PER_SECOND)
        self.status_every = max(STATUS_EVERY / speed, count / STATUS_PER_SECOND)
        self.grace = max(50.0 / speed, MISSED * self.lease_every)
        self._renewed: dict[str, float] = {}
        self._unknown: set[str] = set()
        self._ready: dict[str, tuple[bool, str]] = {}
        self._writing: dict[str, asyncio.Lock] = {}
        """Locks by node: status updates are sent one at a time, so an older one never replaces a
        newer one.
        """
        self._known_since: dict[str, datetime] = {}
        """Since when the conditions of a node have not been Unknown."""
        pods.add_handler(self._pod_changed)

    async def register(self, host: DemoHost) -> None:
        """Create the node's Lease, and start its heartbeats. The Node must exist."""
        now = self._time_on(host)
        self._writing[host.name] = asyncio.Lock()
        self._renewed[host.name] = self._clock.monotonic()
        self._ready[host.name] = (True, format_time(now))
        self._known_since[host.name] = now
        body = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": host.name, "namespace": LEASES},
            "spec": {
                "holderIdentity": host.name,
                "leaseDurationSeconds": 40,
                "renewTime": _micro(format_time(now)),
            },
        }
        await self._kube.create(paths.leases(LEASES), body)
        first = self._rng.uniform(0, self.lease_every)
        self._routine.every(self.lease_every, lambda: self._renew(host), first=first)
        first = self._rng.uniform(0, self.status_every)
        self._routine.every(self.status_every, lambda: self.report(host), first=first)

    def schedule_report(self, host: DemoHost) -> None:
        """Schedule a report if the kubelet runs and its readiness has changed."""
        ready = CONTAINERD not in host.ill
        known, _ = self._ready.get(host.name, (True, ""))
        if not _silent(host) and (ready != known or host.name in self._unknown):
            delay = self._rng.uniform(0.5, 2.0) / self._speed
            self._agenda.soon(delay, lambda: self.report(host))

    async def run(self) -> None:
        """Run the node controller."""
        while True:
            await self._clock.sleep(self.grace / 10)
            now = self._clock.monotonic()
            for name, renewed in self._renewed.items():
                if now - renewed > self.grace and name not in self._unknown:
                    self._unknown.add(name)
                    self._agenda.soon(0, partial(self._lost, self._hosts[name]))

    def tell_again(self, within: float) -> None:
        """Write all last reports again within `within` seconds, after the server has lost them."""
        for name in self._renewed:
            host = self._hosts[name]
            write = self._lost if name in self._unknown else self.report
            self._agenda.soon(self._rng.uniform(0, within), partial(write, host))

    async def _renew(self, host: DemoHost) -> None:
        if _silent(host):
            return
        self._renewed[host.name] = self._clock.monotonic()
        body = {"spec": {"renewTime": _micro(format_time(self._time_on(host)))}}
        await self._kube.patch(paths.lease(LEASES, host.name), body)
        if host.name in self._unknown:
            await self.report(host)

    async def report(self, host: DemoHost) -> None:
        """Write the kubelet's conditions and the boot ID."""
        async with self._writing[host.name]:
            if not _silent(host):
                await self._write(host)

    def _time_on(self, host: DemoHost) -> datetime:
        return self._clock.now() + host.clock_ahead

    async def _write(self, host: DemoHost) -> None:
        now = self._time_on(host)
        ready = CONTAINERD not in host.ill
        known, since = self._ready[host.name]
        if ready != known or host.name in self._unknown:
            since = format_time(now)
            self._ready[host.name] = (ready, since)
        if host.name in self._unknown:
            self._known_since[host.name] = now
            self._unknown.discard(host.name)
        current: list[dict[str, str]] = conditions(now, self._known_since[host.name])
        current[-1]["lastTransitionTime"] = since
        if not ready:
            current[-1] |= {
                "status": "False",
                "reason": "KubeletNotReady",
                "message": "container runtime is down",
            }
        body = {
            "status": {"conditions": current, "nodeInfo": node_info(host.place, host.boot_id)},
        }
        await self._kube.patch(paths.node(host.name, "status"), body, STRATEGIC_PATCH)

    async def _lost(self, host: DemoHost) -> None:
        """Set all conditions of the kubelet to Unknown, as the node controller does.

        lastHeartbeatTime stays as the kubelet wrote it.
        """
        async with self._writing[host.name]:
            if host.name in self._unknown:  # else the kubelet is back
                await self._give_up(host)

    async def _give_up(self, host: DemoHost) -> None:
        now = self._clock.now()
        self._ready[host.name] = (False, format_time(now))
        unknown = [
            {
                "type": known["type"],
                "status": "Unknown",
                "reason": "NodeStatusUnknown",
                "message": "Kubelet stopped posting node status.",
                "lastTransitionTime": whole_seconds(now),
            }
            for known in conditions(now, now)
        ]
        body = {"status": {"conditions": unknown}}
        await self._kube.patch(paths.node(host.name, "status"), body, STRATEGIC_PATCH)

    def _pod_changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        if old is not None and (new is None or old.metadata.uid != new.metadata.uid):
            self._count(old, -1)
        if new is None or not new.spec.node_name:
            return
        fresh = old is None or old.metadata.uid != new.metadata.uid
        if fresh or (old is not None and not old.spec.node_name):
            self._count(new, +1)
        host = self._hosts.get(new.spec.node_name)
        if host is None:
            return
        was_leaving = old is not None and not fresh and old.metadata.deletion_timestamp is not None
        if new.metadata.deletion_timestamp is not None and not was_leaving:
            grace = min(GRACE, float(new.spec.termination_grace_period_seconds or 0))
            delay = self._rng.uniform(0.2, 1.0) * grace / self._speed
            self._agenda.soon(delay, lambda: self._kill(host, new))
        elif new.status.phase in ("", "Pending") and (fresh or not (old and old.spec.node_name)):
            delay = self._rng.uniform(2.0, 8.0) / self._speed
            self._agenda.soon(delay, lambda: self._start(host, new))

    def _count(self, pod: Pod, by: int) -> None:
        host = self._hosts.get(pod.spec.node_name)
        if host is not None and DAEMON not in pod.metadata.labels:
            host.workload_pods += by

    async def _start(self, host: DemoHost, pod: Pod) -> None:
        if _silent(host) or CONTAINERD in host.ill:
            self._agenda.soon(10.0 / self._speed, lambda: self._start(host, pod))
            return
        now = format_time(self._clock.now())
        path = paths.pod(pod.metadata.namespace, pod.metadata.name, "status")
        await self._kube.patch(path, {"status": running(now)})

    async def _kill(self, host: DemoHost, pod: Pod) -> None:
        """End a pod.

        A kubelet that does not run tries again later, so the pod stays Terminating.
        """
        if _silent(host):
            self._agenda.soon(10.0 / self._speed, lambda: self._kill(host, pod))
            return
        path = paths.pod(pod.metadata.namespace, pod.metadata.name)
        await self._kube.delete(path, uid=pod.metadata.uid, grace_seconds=0)


def _silent(host: DemoHost) -> bool:
    """Return whether the kubelet of the host sends nothing."""
    return KUBELET in host.ill or not host.answers


def running(now: str) -> dict[str, Any]:
    """Return the status of a pod that runs and is ready since `now`."""
    types = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
    return {
        "phase": "Running",
        "startTime": now,
        "conditions": [{"type": t, "status": "True", "lastTransitionTime": now} for t in types],
    }


def _micro(rfc3339: str) -> str:
    """Return the time as metav1.MicroTime with six digits, which Leases use."""
    return rfc3339.replace("Z", "000Z")


async def all_at_once(width: int, todo: list[Any]) -> None:
    """Await all of `todo`, at most `width` at a time."""
    room = asyncio.Semaphore(width)

    async def await_item(awaitable: Any) -> None:
        async with room:
            await awaitable

    async with asyncio.TaskGroup() as tasks:
        for item in todo:
            tasks.create_task(await_item(item))
