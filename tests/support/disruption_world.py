"""A few nodes with pods, and a Kube Defender that lets one holder have a node: in memory.

The API dies on command at its n-th write, before or after it happens, as a process that is killed.
"""

import json
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, TypeVar

import msgspec
from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.remedy_hand import NOWHERE

from defender.client import DefenderUnreachable
from kubenode.api.v1alpha1 import Ask, Reason, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.audit import AuditLine
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import JSON, Kube, Query, as_dict
from kubenode.runtime.kube.errors import NotFound, TooManyRequests
from machine.disruption.disruptions import NodeDisruptions
from machine.disruption.leaves import NodePermit
from machine.ground import SharedCaches

T = TypeVar("T")
LIFE = timedelta(minutes=30)


class Killed(BaseException):
    """The process dies here; nothing may catch it."""


class ClusterApi(Kube):
    """die_at   number of the write, from 1, at which the process dies; `applied`: after it happened
    refuses  keys of pods that a budget holds
    """

    def __init__(self, clock: FakeClock) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.nodes: dict[str, dict[str, Any]] = {}
        self.pods: dict[str, dict[str, Any]] = {}
        self.refuses: set[str] = set()
        self.die_at, self.applied, self.writes = 0, False, 0
        self.evicted: list[str] = []

    def add_node(self, name: str, pods: int = 0, unschedulable: bool = False) -> None:
        meta = {"name": name, "uid": f"uid-{name}", "resourceVersion": "1", "annotations": {}}
        self.nodes[name] = {"metadata": meta, "spec": {"unschedulable": unschedulable}}
        for i in range(pods):
            owner = {"kind": "ReplicaSet", "uid": f"rs-{name}", "name": "rs", "controller": True}
            pod_meta = {"name": f"{name}-{i}", "namespace": "shop", "uid": f"pod-{name}-{i}"}
            self.pods[f"shop/{name}-{i}"] = {
                "metadata": {**pod_meta, "ownerReferences": [owner]},
                "spec": {"nodeName": name},
                "status": {"phase": "Running"},
            }

    def schedulable(self, name: str, yes: bool) -> None:
        """As a person does it."""
        self.nodes[name]["spec"]["unschedulable"] = not yes
        self._moved(name)

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
        if method == "GET":
            return decode(json.dumps(self._get(path, query or {})).encode())
        self.writes += 1
        if self.writes == self.die_at and not self.applied:
            raise Killed
        made = self._write(path, body)
        if self.writes == self.die_at:
            raise Killed
        return decode(json.dumps(made).encode())

    def _get(self, path: str, query: Query) -> Any:
        if path == paths.pods():
            node = str(query["fieldSelector"]).removeprefix("spec.nodeName=")
            return {"items": [p for p in self.pods.values() if p["spec"]["nodeName"] == node]}
        if path.endswith("/poddisruptionbudgets"):
            budget = {"metadata": {"name": "few"}, "spec": {"selector": {}}}
            return {"items": [budget]}
        name = path.rpartition("/")[2]
        if name not in self.nodes:
            raise NotFound(404, "NotFound", path)
        return self.nodes[name]

    def _write(self, path: str, body: Any) -> Any:
        if path.endswith("/eviction"):
            key = f"{body['metadata']['namespace']}/{body['metadata']['name']}"
            if key in self.refuses:
                causes = frozenset({"DisruptionBudget"})
                raise TooManyRequests(429, "TooManyRequests", "it would be too few", causes=causes)
            if self.pods.pop(key, None) is None:
                raise NotFound(404, "NotFound", path)
            self.evicted.append(key)
            return {}
        name = path.rpartition("/")[2]
        node = self.nodes[name]
        for key, value in body["metadata"]["annotations"].items():
            if value is None:
                node["metadata"]["annotations"].pop(key, None)
            else:
                node["metadata"]["annotations"][key] = value
        node["spec"]["unschedulable"] = bool(body["spec"]["unschedulable"])
        self._moved(name)
        return node

    def _moved(self, name: str) -> None:
        meta = self.nodes[name]["metadata"]
        meta["resourceVersion"] = str(int(meta["resourceVersion"]) + 1)


@dataclass(frozen=True)
class Grant:
    name: str
    node: str
    holder: Holder
    at: datetime


@dataclass
class OnePerNode:
    """Kube Defender, as far as holders of one node matter."""

    clock: FakeClock
    held: dict[str, Grant] = field(default_factory=dict)
    asked: int = 0
    checked: int = 0
    renewed: int = 0
    down: bool = False
    refuses: Verdict | None = None
    released: list[str] = field(default_factory=list)

    async def ask(self, ask: Ask) -> Verdict:
        self._reach()
        self.asked += 1
        grant = self.held.get(ask.node)
        if grant is not None and grant.holder.uid != ask.holder.uid:
            return Verdict(allowed=False, reason=Reason.NODE_BUSY, message=grant.holder.name)
        if grant is None and self.refuses is not None:
            return self.refuses
        new = Grant(f"{ask.node}-{self.asked}", ask.node, ask.holder, self.clock.now())
        return self._granted(self.held.setdefault(ask.node, new))

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        self._reach()
        self.checked += 1
        return self._still(permit)

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        self._reach()
        self.renewed += 1
        return self._still(permit)

    async def release(self, permit: str) -> None:
        self._reach()
        self.released.append(permit)
        self.held = {node: grant for node, grant in self.held.items() if grant.name != permit}

    def wakes(self) -> AsyncIterator[Holder]:
        raise NotImplementedError

    def _reach(self) -> None:
        if self.down:
            raise DefenderUnreachable("connection refused")

    def _still(self, permit: str) -> Verdict:
        for grant in self.held.values():
            if grant.name == permit:
                return self._granted(grant)
        return Verdict(allowed=False, reason=Reason.UNKNOWN, message="it was revoked")

    def _granted(self, grant: Grant) -> Verdict:
        return Verdict(
            allowed=True,
            reason=Reason.GRANTED,
            permit=grant.name,
            granted_at=grant.at,
            expires_at=self.clock.now() + LIFE,
        )


class Lines:
    """An audit that keeps what it is told."""

    def __init__(self) -> None:
        self.lines: list[AuditLine] = []

    def write(self, line: AuditLine) -> None:
        self.lines.append(line)


class DisruptionWorld:
    def __init__(self) -> None:
        self.clock = FakeClock()
        self.api, self.defender = ClusterApi(self.clock), OnePerNode(self.clock)
        self.audit = Lines()
        self.job = self.frozen = ""

    def process(self) -> NodeDisruptions:
        """One that has just been started: it remembers nothing."""
        ground = SharedCaches(
            self.api, AlwaysLeader(), self.clock, CollectorRegistry(), audit=self.audit
        )
        made = NodeDisruptions(ground, self.defender)
        made._find_open_job, made._frozen = lambda node: self.job, lambda: self.frozen
        for grant in self.defender.held.values():
            made.permits._store.put(grant.name, _shown(grant))
        return made


def _shown(grant: Grant) -> NodePermit:
    spec = {"nodeName": grant.node, "holder": grant.holder.to_dict()}
    return msgspec.convert({"metadata": {"name": grant.name}, "spec": spec}, NodePermit)
