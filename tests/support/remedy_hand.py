"""Informers fed by hand and an API that creates into them: the remedier without a network."""

import json
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any, TypeVar

from prometheus_client import CollectorRegistry
from support.clock import T0, FakeClock
from support.remedy_builders import granted
from support.remedy_engine import a_diagnoser
from support.remedy_world import merged
from support.running import running

from kubenode.api.v1alpha1 import (
    Ask,
    HostEvent,
    HostProbe,
    NodeRecord,
    NodeRemedier,
    RemedyOperationJob,
    Verdict,
)
from kubenode.api.v1alpha1.noderecord import NodeRecordSpec
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import MERGE_PATCH, Kube, as_dict
from kubenode.runtime.kube.errors import AlreadyExists, Conflict, Forbidden
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Event, Node, Object
from kubenode.runtime.kube.store import key_of
from remedy.operator import RemedyOperator, RemedySettings
from remedy.remedier.leases import AGENT_LEASES, Renewal

T = TypeVar("T", bound=Object)
NOWHERE: Any = None


class HandFed(Informer[T]):
    """An Informer whose server is the test."""

    def put(self, data: dict[str, Any]) -> T:
        obj = self._decode(json.dumps(data).encode())
        self._store.put(key_of(obj.metadata), obj)
        return obj

    def remove(self, name: str) -> None:
        self._store.put(name, None)

    def current(self, yes: bool = True) -> None:
        self.synced.set()
        self._contact = self._clock.monotonic() if yes else float("-inf")
        self._hearing_since = self._contact

    def deaf(self, seconds: float) -> None:
        """The server was away for so long until now."""
        self._contact = self._clock.monotonic() - seconds
        self._hearing_since = None
        self._proven()

    async def wait_for(
        self,
        key: str,
        resource_version: str,
        timeout: float = 5.0,  # noqa: ASYNC109  as the Informer's
    ) -> None:
        assert key in self.cache


class HandApi(Kube):
    """Creates jobs and probes and patches statuses straight into the informers; a name is taken
    once.
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.jobs: HandFed[RemedyOperationJob] = NOWHERE
        self.remediers: HandFed[NodeRemedier] = NOWHERE
        self.probes: HandFed[HostProbe] = NOWHERE
        self.records: HandFed[NodeRecord] = NOWHERE
        self.elsewhere: set[str] = set()
        """Names that are taken, by objects that our informers have not seen."""
        self.forbidden = False
        """Whether the operator has no right to ask hosts."""
        self.creates = 0

    async def create(
        self,
        path: str,
        body: Any,
        decode: Callable[[bytes], Any] = as_dict,
        query: Any = None,
    ) -> Any:
        informers: dict[str, HandFed[Any]] = {
            paths.custom("remedyoperationjobs"): self.jobs,
            paths.custom("hostprobes"): self.probes,
            paths.custom("noderecords"): self.records,
        }
        informer = informers[path]
        self.creates += informer is self.jobs
        name = body["metadata"]["name"]
        if self.forbidden and informer is self.probes:
            raise Forbidden(403, "Forbidden", name)
        if name in informer.cache or name in self.elsewhere:
            raise AlreadyExists(409, "AlreadyExists", name)
        at = self.clock.now().isoformat()
        made = {"uid": f"uid-{name}", "resourceVersion": "1", "creationTimestamp": at}
        return informer.put({**body, "metadata": {**body["metadata"], **made}})

    async def replace(
        self,
        path: str,
        body: Any,
        decode: Callable[[bytes], Any] = as_dict,
        query: Any = None,
    ) -> Any:
        stored = self.records.cache[path.rsplit("/", 1)[-1]]
        version = stored.metadata.resource_version
        if body["metadata"]["resourceVersion"] != version:
            raise Conflict(409, "Conflict", "somebody wrote first")
        made = {"uid": stored.metadata.uid, "resourceVersion": str(int(version) + 1)}
        return self.records.put({**body, "metadata": {**body["metadata"], **made}})

    async def delete(self, path: str, **options: Any) -> Any:
        self.probes.remove(path.rsplit("/", 1)[-1])

    async def patch(
        self,
        path: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        decode: Callable[[bytes], Any] = as_dict,
        query: Any = None,
    ) -> Any:
        name = path.split("/")[-2]
        rule = self.remediers.cache[name]
        return self.remediers.put(merged(rule.to_dict(), {"status": body["status"]}))


class GrantedPermits:
    """A Kube Defender that would grant everything, and remembers what it was asked."""

    def __init__(self) -> None:
        self.asks: list[Ask] = []

    async def ask(self, ask: Ask) -> Verdict:
        self.asks.append(ask)
        return granted(class_=ask.class_)


class Hands:
    """A remedy operator without parts running: the test feeds caches and asks for decisions."""

    def __init__(self, clock: FakeClock | None = None, store: "Hands | None" = None) -> None:
        """`store`: another one's objects, as after a restart."""
        self.clock = clock or FakeClock()
        self.restored = ""
        """Why a restore of etcd freezes; "" if none does."""
        self.api = HandApi(self.clock)
        self.diagnoser = a_diagnoser()
        self.permits = GrantedPermits()
        self.registry = CollectorRegistry()
        self.operator = RemedyOperator(
            self.api,
            self.permits,  # type: ignore[arg-type]
            self.diagnoser,
            AlwaysLeader(),
            self.clock,
            self.registry,
            RemedySettings(accept_single_engine=True),
            informer=HandFed,
            restored=lambda: self.restored,
        )
        self.nodes: HandFed[Node] = self.operator.informers.nodes  # type: ignore[assignment]
        self.events: HandFed[Event] = self.operator.informers.events.nodes  # type: ignore[assignment]
        self.pod_events: HandFed[Event] = self.operator.informers.events.pods  # type: ignore[assignment]
        self.volume_events: HandFed[Event] = self.operator.informers.events.volumes  # type: ignore[assignment]
        self.jobs: HandFed[RemedyOperationJob] = self.operator.informers.jobs  # type: ignore[assignment]
        self.remediers: HandFed[NodeRemedier] = self.operator.informers.remediers  # type: ignore[assignment]
        self.host_events: HandFed[HostEvent] = self.operator.informers.host_events  # type: ignore[assignment]
        self.probes: HandFed[HostProbe] = self.operator.informers.probes  # type: ignore[assignment]
        self.agents: HandFed[Renewal] = self.operator.informers.agent_leases  # type: ignore[assignment]
        self.api.jobs, self.api.remediers = self.jobs, self.remediers
        self.records: HandFed[NodeRecord] = self.operator.informers.node_records  # type: ignore[assignment]
        self.api.probes, self.api.records = self.probes, self.records
        for source, target in self._pairs(store) if store is not None else ():
            for obj in source.cache.values():
                target._store.put(obj.metadata.name, obj)
        self.current()

    def _pairs(self, other: "Hands") -> list[tuple[HandFed[Any], HandFed[Any]]]:
        return [
            (other.nodes, self.nodes),
            (other.events, self.events),
            (other.pod_events, self.pod_events),
            (other.volume_events, self.volume_events),
            (other.records, self.records),
            (other.jobs, self.jobs),
            (other.remediers, self.remediers),
            (other.host_events, self.host_events),
            (other.probes, self.probes),
        ]

    def current(self, yes: bool = True) -> None:
        for informer in (
            self.nodes,
            self.events,
            self.pod_events,
            self.volume_events,
            self.jobs,
            self.records,
            self.remediers,
            self.host_events,
            self.probes,
            self.agents,
        ):
            informer.current(yes)

    def events_told(self) -> list[str]:
        """Reasons of the Events that wait to be written."""
        pending = self.operator.recorder._pending
        return [pending.get_nowait()["reason"] for _ in range(pending.qsize())]

    def dispute(self, rule_id: str, why: str) -> None:
        """As if the engines had come to differ about a rule."""
        self.diagnoser.check.quarantined[rule_id] = why

    async def rule(self, name: str = "runtime", generation: int = 1, **spec: Any) -> None:
        metadata = {"name": name, "uid": f"uid-{name}", "generation": generation}
        self.remediers.put({"metadata": metadata, "spec": {**RULE, **spec}})
        await self.operator.rules.reload()

    def node(
        self,
        name: str = "n1",
        labels: dict[str, str] | None = None,
        **conditions: tuple[str, datetime],
    ) -> None:
        """Each condition is (status, since); heard of now."""
        now = self.clock.now()
        found = [
            {
                "type": type_,
                "status": status,
                "lastHeartbeatTime": now.isoformat(),
                "lastTransitionTime": since.isoformat(),
            }
            for type_, (status, since) in conditions.items()
        ]
        self.nodes.put(
            {
                "metadata": {
                    "name": name,
                    "uid": f"uid-{name}",
                    "creationTimestamp": (T0 - timedelta(days=30)).isoformat(),
                    "labels": {"topology.kubernetes.io/zone": "z1", **(labels or {})},
                },
                "status": {"conditions": found, "nodeInfo": {"bootID": "boot-1"}},
            }
        )

    def agent(self, boot_id: str, name: str = "n1") -> None:
        """It renews its Lease, and tells which boot its host runs."""
        metadata = {"name": name, "namespace": AGENT_LEASES}
        self.agents.put(
            {
                "metadata": {**metadata, "annotations": {"kubenode.io/boot-id": boot_id}},
                "spec": {"renewTime": self.clock.now().isoformat()},
            }
        )

    async def decide(self, name: str = "n1") -> timedelta | None:
        """One run of the remedier; how long until it wants to look again."""
        async with running(self.operator.evaluator.run()):
            return (await self.operator.decider.reconcile(name)).requeue_after

    async def record(self, name: str = "n1") -> NodeRecordSpec:
        """One run of whoever writes the record of the node; what is stored then."""
        await self.operator.records.reconcile(name)
        stored = self.records.get(name)
        return stored.spec if stored is not None else NodeRecordSpec()

    async def settle(self, rounds: int = 20) -> None:
        """Look at every node that wants to be looked at, until nobody does."""
        queue = self.operator.remedier.queue
        for _ in range(rounds):
            due = list(queue._ready)
            if not due:
                return
            for name in due:
                queue._ready.pop(name, None)
                await self.decide(name)
        raise AssertionError(f"no end of looking again: {list(queue._ready)}")

    async def later(self, delta: timedelta, name: str = "n1") -> timedelta | None:
        """Time passes, the watch lives; reports stay as old as they are."""
        self.clock.step(delta)
        self.current()
        return await self.decide(name)

    def host_event(self, name: str, class_: str, node: str = "n1", **parts: Any) -> None:
        """As Host Doctor; `phase` and times of status go into it, all else into the spec."""
        now = self.clock.now().isoformat()
        status = {"phase": "Active", "firstSeen": now, "lastSeen": now, "seen": 1}
        status |= {key: parts.pop(key) for key in list(parts) if key in status}
        about = {"name": node} if node else {}
        spec = {"source": "AWS", "externalID": name, "class": class_, "node": about, **parts}
        metadata = {"name": name, "uid": f"uid-{name}"}
        self.host_events.put({"metadata": metadata, "spec": spec, "status": status})

    def alert(self, name: str, node: str = "n1", phase: str = "Active", **labels: str) -> None:
        self.host_event(
            f"alert-{name.lower()}-{node or 'nobody'}",
            "Alert",
            node,
            source="Alertmanager",
            phase=phase,
            attributes={"alertname": name, **labels},
        )

    def answers(self, kind: str, node: str = "n1", error: str = "", **answer: Any) -> None:
        """As the agent: the open question of this kind about the node."""
        probe = next(
            p
            for p in reversed(self.probes.cache.values())
            if (p.spec.node_name, p.spec.name) == (node, kind)
        )
        at = self.clock.now().isoformat()
        status = {"answer": answer, "answeredAt": at, "error": error}
        self.probes.put({**probe.to_dict(), "status": status})

    def made(self) -> list[RemedyOperationJob]:
        return list(self.jobs.cache.values())

    def closes(self, name: str, phase: str, **status: Any) -> None:
        """As the job controller: the job ends."""
        job = self.jobs.cache[name].to_dict()
        closed = {"phase": phase, "timeline": {"closed": self.clock.now().isoformat()}, **status}
        self.jobs.put({**job, "status": closed})


RULE: dict[str, Any] = {
    "mode": "Enforce",
    "faultClass": "runtime_unhealthy",
    "nodes": {"all": True},
    "when": {"condition": {"type": "Sick", "status": "True", "for": "30s"}},
    "groupWait": "0s",
    "startupGrace": "0s",
    "ladder": [
        {"name": "restart", "steps": [{"agent": {"action": "RestartUnit", "unit": "a.service"}}]}
    ],
}
