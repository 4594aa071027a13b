"""The workload of the simulated fleet, with the controllers that a real cluster has for it.

There are applications with replicas on all nodes, some with a PodDisruptionBudget, one with a
budget that allows no eviction for a while. Three small controllers are clients of the API server
like everything else here. They replace missing pods, bind pods to nodes that accept pods, and
update the status of budgets. They are level-based and read the informers' caches.
"""

import random
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from kubenode.api.meta import format_time
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node, Pod
from simulation.demo.agenda import Agenda
from simulation.demo.hosts import DemoHost
from simulation.demo.kubelets import DAEMON, all_at_once, running

NAMESPACE = "shop"
APP = "app"
ROUND = 0.1
"""Seconds between two rounds of the controllers."""
PODS_PER_NODE = 3
MOST_PODS = 4000
NAMES = (
    "cart", "checkout", "catalogue", "search", "payment", "mail", "stock", "price", "image",
    "review", "account", "session", "export", "report", "feed", "router",
)  # fmt: skip
STUBBORN = "ledger"
SYSTEM = "kube-system"
REPLICA_SETS = f"/apis/apps/v1/namespaces/{NAMESPACE}/replicasets"
DAEMON_SETS = f"/apis/apps/v1/namespaces/{SYSTEM}/daemonsets"


@dataclass(frozen=True, slots=True)
class App:
    """An application.

    keep: minAvailable of its budget; None for no budget.
    grace: seconds that its pods may take to terminate.
    """

    name: str
    replicas: int
    keep: int | None
    grace: int


def apps(nodes: int) -> list[App]:
    """Return the applications of a fleet: about PODS_PER_NODE pods per node, at most MOST_PODS."""
    each = max(2, min(PODS_PER_NODE * nodes, MOST_PODS) // len(NAMES))
    return [
        App(name, each, each - max(1, each // 10) if i % 3 == 0 else None, 5 + 5 * (i % 6))
        for i, name in enumerate(NAMES)
    ] + [App(STUBBORN, 3, 3, 10)]


class Workloads:
    """A Part that creates the applications and then maintains them.

    pinned: the node that gets a pod of the application STUBBORN; "" for any.
    """

    name = "workloads"

    def __init__(
        self,
        kube: Kube,
        hosts: dict[str, DemoHost],
        pods: Informer[Pod],
        nodes: Informer[Node],
        agenda: Agenda,
        clock: Clock,
        rng: random.Random,
        pinned: str,
    ) -> None:
        self._kube = kube
        self._hosts = hosts
        self._pods = pods
        self._nodes = nodes
        self._agenda = agenda
        self._clock = clock
        self._rng = rng
        self._pinned = pinned
        self._apps = {app.name: app for app in apps(len(hosts))}
        self._owners: dict[str, dict[str, Any]] = {}
        self._dirty: set[str] = set()
        self._unbound: set[str] = set()
        self._in_flight: dict[str, int] = {}
        self._budgets: dict[str, tuple[int, int, int]] = {}
        pods.add_index(APP, lambda pod: [pod.metadata.labels.get(APP, "")])
        pods.add_handler(self._changed)

    @property
    def apps(self) -> list[App]:
        return list(self._apps.values())

    async def create(self) -> None:
        """Create the state of a healthy cluster: pods are bound and running."""
        self._owners[DAEMON] = await self._own(DAEMON_SETS, _daemon_set())
        for app in self.apps:
            self._owners[app.name] = await self._own(REPLICA_SETS, _replica_set(app))
            if app.keep is not None:
                path = paths.pod_disruption_budgets(NAMESPACE)
                await self._kube.create(path, _budget(app, app.keep))
        await all_at_once(32, [self._place(body) for body in self._first_pods()])

    async def _own(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        """Create `body`, and return the ownerReference to it."""
        made = await self._kube.create(path, body)
        return {
            "apiVersion": body["apiVersion"],
            "kind": body["kind"],
            "name": body["metadata"]["name"],
            "uid": made["metadata"]["uid"],
            "controller": True,
        }

    def _first_pods(self) -> Iterator[dict[str, Any]]:
        workers = [h.name for h in self._hosts.values() if not h.place.control_plane]
        start = self._rng.randrange(len(workers))
        at = 0
        for app in self.apps:
            for i in range(app.replicas):
                node = workers[(start + at) % len(workers)]
                if self._pinned and app.name == STUBBORN and i == 0:
                    node = self._pinned
                yield self._pod(app, node)
                at += 1
        if len(workers) * (PODS_PER_NODE + 1) <= MOST_PODS:
            for host in self._hosts.values():
                yield _daemon_pod(host.name, self._owners[DAEMON])

    async def _place(self, body: dict[str, Any]) -> None:
        made = await self._kube.create(paths.pods(body["metadata"]["namespace"]), body)
        meta = made["metadata"]
        path = paths.pod(meta["namespace"], meta["name"], "status")
        await self._kube.patch(path, {"status": running(format_time(self._clock.now()))})

    async def loosen(self, app: str) -> None:
        """Let the owner of `app` allow one eviction at a time from now on."""
        self._apps[app] = replace(self._apps[app], keep=self._apps[app].replicas - 1)
        path = f"{paths.pod_disruption_budgets(NAMESPACE)}/{app}"
        await self._kube.patch(path, {"spec": {"minAvailable": self._apps[app].keep}})
        self._dirty.add(app)

    def recount(self) -> None:
        """Compute and write the status of all budgets again."""
        self._budgets.clear()
        self._dirty.update(self._apps)

    def _changed(self, key: str, old: Pod | None, new: Pod | None) -> None:
        pod = new or old
        if pod is None or (app := pod.metadata.labels.get(APP, "")) not in self._apps:
            return
        self._dirty.add(app)
        if old is None:
            self._in_flight[app] = max(0, self._in_flight.get(app, 0) - 1)
        if new is not None and not new.spec.node_name and not new.metadata.deletion_timestamp:
            self._unbound.add(key)

    async def run(self) -> None:
        await self._pods.synced.wait()  # before, every pod would seem to be missing
        await self._nodes.synced.wait()
        self._dirty.update(self._apps)
        while True:
            await self._clock.sleep(ROUND)
            for name in sorted(self._dirty):
                self._dirty.discard(name)
                self._fill(self._apps[name])
                self._count(self._apps[name])
            for key in sorted(self._unbound):
                self._bind(key)

    def _fill(self, app: App) -> None:
        """Create missing pods.

        Pods that were requested and are not in the cache yet count as existing.
        """
        staying = [p for p in self._pods.by(APP, app.name) if not p.metadata.deletion_timestamp]
        missing = app.replicas - len(staying) - self._in_flight.get(app.name, 0)
        for _ in range(max(0, missing)):
            self._in_flight[app.name] = self._in_flight.get(app.name, 0) + 1
            body = self._pod(app)
            self._agenda.soon(0, partial(self._create, body))

    async def _create(self, body: dict[str, Any]) -> None:
        try:
            await self._kube.create(paths.pods(NAMESPACE), body)
        except AlreadyExists:
            return  # a response was lost, the pod exists

    def _bind(self, key: str) -> None:
        """Bind a pod to the least loaded of some random nodes, which is cheap at any size."""
        self._unbound.discard(key)
        pod = self._pods.get(key)
        if pod is None or pod.spec.node_name or pod.metadata.deletion_timestamp:
            return
        sample = self._rng.sample(list(self._nodes.cache.values()), k=min(24, len(self._hosts)))
        fit = [n for n in sample if _takes_pods(n)]
        if not fit:
            self._unbound.add(key)  # the next round may choose other nodes
            return
        best = min(fit, key=lambda n: self._hosts[n.metadata.name].workload_pods)
        path = paths.pod(pod.metadata.namespace, pod.metadata.name, "binding")
        body = {
            "apiVersion": "v1",
            "kind": "Binding",
            "metadata": {"name": pod.metadata.name, "namespace": pod.metadata.namespace},
            "target": {"apiVersion": "v1", "kind": "Node", "name": best.metadata.name},
        }
        self._agenda.soon(0, lambda: self._post(path, body))

    async def _post(self, path: str, body: dict[str, Any]) -> None:
        try:
            await self._kube.create(path, body)
        except AlreadyExists:
            return

    def _count(self, app: App) -> None:
        """Schedule the update of the budget's status if it changed, as the disruption controller
        does.
        """
        if app.keep is None:
            return
        pods = self._pods.by(APP, app.name)
        healthy = sum(_ready(p) for p in pods)
        counted = (healthy, app.keep, max(0, healthy - app.keep))
        if self._budgets.get(app.name) != counted:
            self._budgets[app.name] = counted
            self._agenda.soon(0, lambda: self._write_budget(app.name))

    async def _write_budget(self, app: str) -> None:
        """Write the budget's status.

        Granted evictions that are not in the cache yet stay counted.
        """
        path = f"{paths.pod_disruption_budgets(NAMESPACE)}/{app}"
        live = await self._kube.get(path)
        promised = live.get("status", {}).get("disruptedPods") or {}
        pods = {p.metadata.name: p for p in self._pods.by(APP, app)}
        pending = {
            name: at
            for name, at in promised.items()
            if (pod := pods.get(name)) is not None and not pod.metadata.deletion_timestamp
        }
        healthy = sum(_ready(p) for name, p in pods.items() if name not in pending)
        keep = self._apps[app].keep or 0
        status = {
            "currentHealthy": healthy,
            "desiredHealthy": keep,
            "expectedPods": self._apps[app].replicas,
            "disruptionsAllowed": max(0, healthy - keep),
            "observedGeneration": live["metadata"].get("generation", 1),
            "disruptedPods": pending,
        }
        body = {
            **live,
            "status": {**(live.get("status") or {}), **status},
        }
        await self._kube.replace(f"{path}/status", body)
        if pending:
            self._budgets.pop(app, None)
            self._dirty.add(app)

    def _pod(self, app: App, node: str = "") -> dict[str, Any]:
        return {
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": {
                "name": f"{app.name}-{self._rng.getrandbits(40):010x}",
                "namespace": NAMESPACE,
                "labels": {APP: app.name},
                "ownerReferences": [self._owners[app.name]],
            },
            "spec": {
                "terminationGracePeriodSeconds": app.grace,
                "containers": [{"name": "main", "image": f"registry.example/shop/{app.name}:2"}],
                **({"nodeName": node} if node else {}),
            },
        }


def _ready(pod: Pod) -> bool:
    if pod.metadata.deletion_timestamp is not None:
        return False
    return any(c.type == "Ready" and c.status == "True" for c in pod.status.conditions)


def _takes_pods(node: Node) -> bool:
    if node.spec.unschedulable or node.spec.taints:
        return False
    return node.is_ready


def _replica_set(app: App) -> dict[str, Any]:
    labels = {APP: app.name}
    container = {"name": "main", "image": f"registry.example/shop/{app.name}:2"}
    return {
        "apiVersion": "apps/v1",
        "kind": "ReplicaSet",
        "metadata": {"name": app.name, "namespace": NAMESPACE, "labels": labels},
        "spec": {
            "replicas": app.replicas,
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def _daemon_set() -> dict[str, Any]:
    labels = {DAEMON: "node-agent"}
    container = {"name": "main", "image": "registry.example/obs/node-agent:1"}
    return {
        "apiVersion": "apps/v1",
        "kind": "DaemonSet",
        "metadata": {"name": "node-agent", "namespace": SYSTEM, "labels": labels},
        "spec": {
            "selector": {"matchLabels": labels},
            "template": {"metadata": {"labels": labels}, "spec": {"containers": [container]}},
        },
    }


def _budget(app: App, keep: int) -> dict[str, Any]:
    return {
        "apiVersion": "policy/v1",
        "kind": "PodDisruptionBudget",
        "metadata": {"name": app.name, "namespace": NAMESPACE},
        "spec": {"minAvailable": keep, "selector": {"matchLabels": {APP: app.name}}},
    }


def _daemon_pod(node: str, owner: dict[str, Any]) -> dict[str, Any]:
    """Return a pod of a DaemonSet, which migrate must leave alone."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": f"node-agent-{node}",
            "namespace": SYSTEM,
            "labels": {DAEMON: "node-agent"},
            "ownerReferences": [owner],
        },
        "spec": {
            "nodeName": node,
            "containers": [{"name": "main", "image": "registry.example/obs/node-agent:1"}],
        },
    }
