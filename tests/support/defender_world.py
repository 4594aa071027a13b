"""Kube Defender over an API in memory: informers are fed by it, writes fail on command.

Time stands still until a test steps it; nothing here waits.
"""

import asyncio
import json
from collections.abc import Callable
from datetime import datetime, timedelta
from enum import Enum
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.remedy_hand import NOWHERE, HandFed
from support.remedy_world import merged

from defender.replicas.charge.charge import MakeCharge
from defender.replicas.fleet.budget import MakeFleet
from defender.service import Defender, DefenderSettings
from kubenode.api.meta import NodeSelection, ObjectMeta
from kubenode.api.v1alpha1 import Ask, DefenderPolicy, Disruption, Permit
from kubenode.api.v1alpha1.defenderpolicy import DefenderPolicySpec, Limit, LimitScope
from kubenode.api.v1alpha1.permit import Holder, Operation, PermitState
from kubenode.runtime.fence import AlwaysLeader, Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import JSON, Kube, Query, as_dict
from kubenode.runtime.kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
    ServerUnreachable,
    TooManyRequests,
)

T = TypeVar("T")
Object = dict[str, Any]
Listener = Callable[[str, Object | None], None]
PERMITS = paths.custom("permits")
POLICIES = paths.custom("defenderpolicies")
JOBS = paths.custom("remedyoperationjobs")
NODES = paths.nodes()
SERVED = f"/apis/{paths.GROUP}/{paths.VERSION}"


class Fate(Enum):
    """What becomes of a write."""

    LOST = "no answer, and it never happened"
    UNHEARD = "it happened, and the answer was lost"
    LATE = "no answer, and it happens when `land` is called"
    REFUSED = "429: it surely did not happen"
    DIED = "it happened, and the asker was cancelled"


class MemoryApi(Kube):
    """Objects by collection. `fates` maps the number of a write, from 0, to its Fate."""

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.objects: dict[str, dict[str, Object]] = {}
        self.fates: dict[int, Fate] = {}
        self.down = False
        self.writes = 0
        self.version = 0
        self.listeners: dict[str, list[Listener]] = {}
        self.readable = {PERMITS, POLICIES, JOBS, NODES}
        """Collections that there are."""
        self.kinds = {"RemedyOperationJob", "Machine", "MachineSet", "MachineComponentSet"}
        """Of our group, whose definitions are installed."""
        self.lists: dict[str, list[str | int | None]] = {}
        """How many objects each list of a collection asked for."""
        self._late: list[Callable[[], object]] = []

    async def call(
        self,
        method: str,
        path: str,
        query: Query | None = None,
        body: Any = None,
        content_type: str = JSON,
        decode: Callable[[bytes], T] = as_dict,
        timeout: float | None = None,  # noqa: ASYNC109  as Kube's
        attempts: int | None = None,
    ) -> T:
        await asyncio.sleep(0)
        if self.down:
            raise ServerUnreachable("the API server is away", tried=f"{method} {path}")
        if method == "GET":
            return decode(json.dumps(self._get(path, query or {})).encode())
        fate = self.fates.get(self.writes)
        self.writes += 1
        if fate is Fate.REFUSED:
            raise TooManyRequests(429, "TooManyRequests")
        if fate is Fate.LOST:
            raise ServerUnreachable("timeout")
        if fate is Fate.LATE:
            self._late.append(lambda: self._write(method, path, body))
            raise ServerUnreachable("timeout")
        made = self._write(method, path, body)
        await asyncio.sleep(0)
        if fate is Fate.UNHEARD:
            raise ServerUnreachable("connection reset")
        if fate is Fate.DIED:
            raise asyncio.CancelledError
        return decode(json.dumps(made).encode())

    def land(self) -> None:
        """Requests that were on their way arrive."""
        late, self._late = self._late, []
        for write in late:
            try:
                write()
            except KubeError:
                continue  # nobody waits for its answer

    def _get(self, path: str, query: Query = {}) -> Object:  # noqa: B006  never changed
        if path == SERVED:
            return {"resources": [{"kind": kind} for kind in sorted(self.kinds)]}
        if path in self.readable:
            self.lists.setdefault(path, []).append(query.get("limit"))
            return self._page(list(self.objects.get(path, {}).values()), query)
        collection, name = path.rsplit("/", 1)
        if name not in self.objects.get(collection, {}):
            raise NotFound(404, "NotFound", path)
        return self.objects[collection][name]

    def _page(self, items: list[Object], query: Query) -> Object:
        limit = int(query.get("limit") or len(items))
        start = int(query.get("continue") or 0)
        more = str(start + limit) if start + limit < len(items) else ""
        metadata = {"resourceVersion": str(self.version), "continue": more}
        return {"metadata": metadata, "items": items[start : start + limit]}

    def _write(self, method: str, path: str, body: Any) -> Object:
        if method == "POST":
            if body["metadata"]["name"] in self.objects.get(path, {}):
                raise AlreadyExists(409, "AlreadyExists")
            new = {k: v for k, v in body.items() if k != "status"}
            meta = {"uid": f"uid-{self.version}", "generation": 1}
            at = self.clock.now().replace(microsecond=0).isoformat()
            new["metadata"] = body["metadata"] | meta | {"creationTimestamp": at}
            return self.put(path, new)
        if method == "PUT":
            return self._replace(path, body)
        part = "status" if path.endswith("/status") else "spec"
        collection, name = path.removesuffix("/status").rsplit("/", 1)
        old = self._get(f"{collection}/{name}")
        if method == "DELETE":
            return self.remove(collection, name)
        version = body.get("metadata", {}).get("resourceVersion")
        if version not in (None, old["metadata"]["resourceVersion"]):
            raise Conflict(409, "Conflict")
        notes = {"annotations": (body.get("metadata") or {}).get("annotations") or {}}
        return self.put(collection, merged(old, {part: body.get(part, {}), "metadata": notes}))

    def _replace(self, path: str, body: Any) -> Object:
        old = self._get(path)
        if body["metadata"].get("resourceVersion") != old["metadata"]["resourceVersion"]:
            raise Conflict(409, "Conflict")
        return self.put(path.rsplit("/", 1)[0], body)

    def put(self, collection: str, obj: Object) -> Object:
        """Also what a person or another program writes."""
        self.version += 1
        obj = json.loads(json.dumps(obj))
        obj["metadata"]["resourceVersion"] = str(self.version)
        self.objects.setdefault(collection, {})[obj["metadata"]["name"]] = obj
        self._tell(collection, obj["metadata"]["name"], obj)
        return obj

    def remove(self, collection: str, name: str) -> Object:
        obj = self.objects[collection].pop(name)
        self._tell(collection, name, None)
        return obj

    def _tell(self, collection: str, name: str, obj: Object | None) -> None:
        for listener in self.listeners.get(collection, ()):
            listener(name, obj)

    # -- what the record says -----------------------------------------------------------------

    def permits(self) -> list[Permit]:
        found = self.objects.get(PERMITS, {}).values()
        return [Permit.from_server(json.dumps(each).encode()) for each in found]

    def open_permits(self) -> list[Permit]:
        return [p for p in self.permits() if p.status.state is not PermitState.RELEASED]


def a_policy(*limits: Limit, name: str = "default", **spec: Any) -> DefenderPolicy:
    """For all nodes; by default one limit, two nodes of the cluster at once."""
    chosen = list(limits) or [Limit(scope=LimitScope.CLUSTER, max_concurrent=2)]
    given = {"nodes": NodeSelection(all=True), "limits": chosen} | spec
    return DefenderPolicy(metadata=ObjectMeta(name=name), spec=DefenderPolicySpec(**given))


def an_ask(
    node: str = "n0",
    class_: Disruption = Disruption.NODE,
    job: str = "",
    kind: str = "RemedyOperationJob",
    **change: Any,
) -> Ask:
    """A holder of another kind than ours cannot be looked at, and is taken to live."""
    job = job or f"job-{node}"
    holder = Holder(kind=kind, name=job, uid=f"uid-{job}")
    given: dict[str, Any] = {"operation": Operation.REPAIR, "holder": holder} | change
    return Ask(class_=class_, node=node, **given)


class World:
    """A Defender on a MemoryApi. `restart` makes another one on the same record."""

    def __init__(self, nodes: int = 10, *policies: DefenderPolicy) -> None:
        self.clock = FakeClock()
        self.restored = ""
        self.api = MemoryApi(self.clock)
        self._listening: dict[int, tuple[str, Listener]] = {}
        for each in policies or (a_policy(),):
            self.api.put(POLICIES, each.to_dict())
        for i in range(nodes):
            self.node(f"n{i}")
        self.defender = self._new()

    def _new(
        self,
        fence: Fence | None = None,
        behind: bool = False,
        charge: MakeCharge | None = None,
        fleet: MakeFleet | None = None,
    ) -> Defender:
        self.registry = CollectorRegistry()
        defender = Defender(
            self.api,
            fence or AlwaysLeader(),
            self.clock,
            self.registry,
            DefenderSettings(),
            informer=HandFed,
            charge=charge,
            fleet=fleet,
            restored=lambda: self.restored,
        )
        for informer in (defender.nodes, defender.permits, defender.policies, defender.jobs):
            self._feed(informer, behind and informer is defender.permits)
        return defender

    def _feed(self, informer: Any, behind: bool) -> None:
        """behind: it has not seen what is there already, only what comes."""
        for obj in () if behind else self.api.objects.get(informer.path, {}).values():
            informer.put(obj)

        def listener(name: str, obj: Object | None) -> None:
            if obj is None:
                informer.remove(name)
            else:
                informer.put(obj)
            informer.resource_version = str(self.api.version)

        self._listening[id(informer)] = (informer.path, listener)
        self.api.listeners.setdefault(informer.path, []).append(listener)
        if not behind:
            informer.resource_version = str(self.api.version)
        informer.current()

    def deafen(self, informer: Any) -> None:
        """It hears nothing from here on."""
        path, listener = self._listening.pop(id(informer))
        self.api.listeners[path].remove(listener)

    async def start(self) -> Defender:
        await self.defender.load()
        return self.defender

    async def restart(self, fence: Fence | None = None, behind: bool = False) -> Defender:
        """The process is gone with all that it knew; another one begins. Its watch of permits may
        be `behind` what the one before wrote last."""
        self.api.listeners.clear()
        self.defender = self._new(fence, behind)
        return await self.start()

    def restore(self, permits: dict[str, Object], version: int) -> None:
        """Put the permits back to a backup, as a list of the informer finds it."""
        before, self.api.version = self.api.version, version
        self.api.objects[PERMITS] = permits
        for tell in self.api.on_went_back:
            tell(PERMITS, before, version)
        informer: Any = self.defender.permits
        for permit in permits.values():
            informer.put(permit)

    def current(self, yes: bool = True) -> None:
        d: Any = self.defender
        for informer in (d.nodes, d.permits, d.policies, d.jobs):
            informer.current(yes)

    def step(self, **time: float) -> None:
        """Let time pass while the informers go on hearing from the server."""
        self.clock.step(timedelta(**time))
        self.current()

    def node(self, name: str, ready: str = "True", **spec: Any) -> None:
        born = self.clock.now() - timedelta(days=1)
        since = self.clock.now().isoformat()
        self.api.put(
            NODES,
            {
                "metadata": {
                    "name": name,
                    "uid": f"uid-{name}",
                    "creationTimestamp": born.isoformat(),
                    "labels": spec.pop("labels", {}),
                },
                "spec": spec,
                "status": {
                    "conditions": [{"type": "Ready", "status": ready, "lastTransitionTime": since}]
                },
            },
        )

    def job(self, name: str, phase: str = "Running", uid: str = "") -> None:
        meta = {"name": name, "uid": uid or f"uid-{name}"}
        self.api.put(JOBS, {"metadata": meta, "status": {"phase": phase}})

    def grants(self) -> list[datetime]:
        return sorted(g.at for p in self.api.permits() for g in p.spec.grants)
