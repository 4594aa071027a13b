"""Releases and members without a server: clusters as dicts of objects, with levers for failures."""

import asyncio
import copy
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, TypeVar

from support.clock import T0, FakeClock

from captain.members.cluster import MemberUnreachable
from captain.releases.clusters import ReleaseClusters
from captain.releases.content import compute_payload_digest
from captain.releases.reconciler import ReleaseReconciler
from kubenode.api.v1alpha1 import Release, ReleasePipeline
from kubenode.api.v1alpha1.membercluster import MemberReason
from kubenode.api.v1alpha1.release import PayloadObject, ReleaseStatus
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.errors import Conflict, Invalid

API = "kubenode.io/v1alpha1"
Raw = dict[str, Any]
T = TypeVar("T")


def make_component(version: str = "2.1.4") -> Raw:
    return {
        "apiVersion": API,
        "kind": "MachineComponent",
        "metadata": {"name": f"containerd-{version}"},
        "spec": {
            "component": "containerd",
            "version": version,
            "source": {
                "type": "apt",
                "apt": {"packages": [{"name": "containerd.io", "version": f"{version}-1"}]},
            },
        },
    }


def make_set(component: str = "containerd-2.1.4") -> Raw:
    return {
        "apiVersion": API,
        "kind": "MachineComponentSet",
        "metadata": {"name": "containerd"},
        "spec": {"selector": {"matchLabels": {"a": "b"}}, "component": component},
    }


def make_rule(mode: str = "DryRun", name: str = "rule") -> Raw:
    return {
        "apiVersion": API,
        "kind": "NodeRemedier",
        "metadata": {"name": name},
        "spec": {
            "mode": mode,
            "severity": "Warning",
            "faultClass": "disk",
            "nodes": {"all": True},
            "when": {"condition": {"type": "DiskPressure", "status": "True"}},
            "ladder": [{"name": "notify", "steps": [{"notify": {}}]}],
        },
    }


def make_stage(name: str, **settings: Any) -> Raw:
    return {"name": name, "selector": {"matchLabels": {"stage": name}}, **settings}


def make_pipeline(*stages: Raw, policy: str = "Pause") -> ReleasePipeline:
    return ReleasePipeline.from_user(
        {
            "apiVersion": API,
            "kind": "ReleasePipeline",
            "metadata": {"name": "online"},
            "spec": {"stages": list(stages), "failurePolicy": policy},
        }
    )


def make_release(*payload: Raw, name: str = "release", **spec: Any) -> Release:
    objects = [PayloadObject.model_validate(each) for each in payload or (make_rule(),)]
    raw = {
        "apiVersion": API,
        "kind": "Release",
        "metadata": {
            "name": name,
            "generation": 1,
            "creationTimestamp": "2026-01-01T11:00:00Z",
        },
        "spec": {
            "pipelineRef": "online",
            "payload": [each.to_dict() for each in objects],
            "digest": compute_payload_digest(objects),
            **spec,
        },
    }
    return Release.from_server(Release.from_user(raw).model_dump_json(by_alias=True).encode())


class DeathError(Exception):
    """Captain dies at a write."""


@dataclass(slots=True)
class Lifetime:
    """Counts the writes of a process, and ends it at one of them.

    ends_at: number of the write, from 1; 0 for none.
    before: whether the process dies before the write takes effect, rather than after it.
    """

    ends_at: int = 0
    before: bool = True
    writes: int = 0

    def write(self, take_effect: Callable[[], T]) -> T:
        self.writes += 1
        dies = self.writes == self.ends_at
        if dies and self.before:
            raise DeathError
        result = take_effect()
        if dies:
            raise DeathError
        return result


class MemberDouble:
    """Implements captain.members.cluster.Member.

    relapsed: number of jobs for a relapse that its rules count.
    reachable, healthy: levers; whether it answers, and whether its operator finds objects healthy.
    breaker: state of a breaker of its Kube Defender.
    conflict: message of a Conflict with which it answers each apply without force; "" for none.
    refusal: message of an Invalid with which it answers each write; "" for none.
    """

    def __init__(self, name: str, stage: str, life: Lifetime | None = None) -> None:
        self.name, self.labels = name, {"stage": stage}
        self.life = life or Lifetime()
        self.reachable = self.healthy = True
        self.conflict = self.refusal = ""
        self.breaker = "Closed"
        self.relapsed = 0
        self.objects: dict[str, Raw] = {}
        self.written: list[str] = []

    async def read(self, kind: str, name: str) -> Raw | None:
        self._answer()
        return self._with_status(self.objects.get(f"{kind}/{name}"))

    async def list_all(self, kind: str) -> list[Raw]:
        self._answer()
        assert kind == "DefenderPolicy"
        breaker = {"scope": "cluster", "state": self.breaker, "since": T0.isoformat(), "why": "x"}
        return [{"metadata": {"name": "limits"}, "status": {"breaker": [breaker]}}]

    def _with_status(self, stored: Raw | None) -> Raw | None:
        if stored is None:
            return None
        status = {
            "observedGeneration": stored["metadata"]["generation"],
            "conditions": _conditions(stored["kind"], healthy=self.healthy),
            "jobs": {"relapsed": self.relapsed},
        }
        return {**copy.deepcopy(stored), "status": status}

    async def apply(self, obj: Mapping[str, Any], *, manager: str, force: bool) -> Raw:
        self._answer(obj)
        if self.conflict and not force:
            raise Conflict(409, "Conflict", self.conflict)
        before = self.objects.get(_key(obj), {"metadata": {}, "spec": {}})
        merged = {**obj, "spec": _merge(before["spec"], obj["spec"])}
        live = self._with_status(self.life.write(lambda: self.put(merged)))
        assert live is not None
        return live

    async def replace(self, obj: Mapping[str, Any], *, manager: str) -> Raw:
        self._answer(obj)
        return self.life.write(lambda: self.put(obj))

    async def delete(self, kind: str, name: str) -> None:
        self._answer({"kind": kind, "metadata": {"name": name}})
        self.life.write(lambda: self.objects.pop(f"{kind}/{name}", None))

    def _answer(self, obj: Mapping[str, Any] | None = None) -> None:
        if not self.reachable:
            raise MemberUnreachable(self.name, MemberReason.TIMEOUT, "no answer in 10 s")
        if obj is not None and self.refusal:
            raise Invalid(422, "Invalid", self.refusal)
        if obj is not None:
            self.written.append(_key(obj))

    def put(self, obj: Mapping[str, Any]) -> Raw:
        """Store an object. The generation counts changes of its spec."""
        before, after = self.objects.get(_key(obj)), copy.deepcopy(dict(obj))
        generation = 0 if before is None else before["metadata"]["generation"]
        changed = before is None or before["spec"] != after["spec"]
        after["metadata"] = {**obj["metadata"], "generation": generation + changed}
        self.objects[_key(obj)] = after
        return copy.deepcopy(after)

    @property
    def specs(self) -> dict[str, Any]:
        return {key: copy.deepcopy(obj["spec"]) for key, obj in self.objects.items()}


def _key(obj: Mapping[str, Any]) -> str:
    return f"{obj['kind']}/{obj['metadata']['name']}"


def _merge(before: Any, after: Any) -> Any:
    if isinstance(before, dict) and isinstance(after, dict):
        keys = dict.fromkeys([*before, *after])
        return {key: _merge(before.get(key), after.get(key, before.get(key))) for key in keys}
    return copy.deepcopy(after)


class ReleaseStoreDouble:
    """Implements captain.releases.reconciler.ReleaseStore, with JSON as an API server has it."""

    def __init__(self, life: Lifetime | None = None) -> None:
        self.life = life or Lifetime()
        self._raw: dict[str, bytes] = {}
        self._version = 0

    def put(self, release: Release) -> None:
        self._version += 1
        metadata = release.metadata.model_copy(update={"resource_version": str(self._version)})
        stored = release.model_copy(update={"metadata": metadata})
        self._raw[metadata.name] = stored.model_dump_json(by_alias=True).encode()

    def get(self, name: str = "release") -> Release:
        return Release.from_server(self._raw[name])

    def set_spec(self, name: str = "release", **spec: Any) -> None:
        release = self.get(name)
        generation = release.metadata.generation + 1
        changes = {
            "metadata": release.metadata.model_copy(update={"generation": generation}),
            "spec": release.spec.model_copy(update=spec),
        }
        self.put(release.model_copy(update=changes))

    async def read(self, name: str) -> Release | None:
        return self.get(name) if name in self._raw else None

    async def list_all(self) -> list[Release]:
        return [self.get(name) for name in self._raw]

    async def write_status(self, release: Release, status: ReleaseStatus) -> Release:
        stored = self.get(release.metadata.name)
        if stored.metadata.resource_version != release.metadata.resource_version:
            raise Conflict(409, "Conflict", "the object has been modified")
        new = stored.model_copy(update={"status": status})
        self.life.write(lambda: self.put(new))
        return self.get(release.metadata.name)


class ReleaseWorldDouble:
    """A pipeline, its members and a reconciler. `restart` builds the reconciler anew."""

    def __init__(
        self,
        pipeline: ReleasePipeline,
        members: Iterable[MemberDouble],
        clock: FakeClock | None = None,
    ) -> None:
        self.clock = clock or FakeClock()
        self.pipeline: ReleasePipeline | None = pipeline
        self.members = {member.name: member for member in members}
        self.store = ReleaseStoreDouble()
        self.restart()

    def restart(self, life: Lifetime | None = None) -> None:
        life = life or Lifetime()
        self.store.life = life
        for member in self.members.values():
            member.life = life
        self.reconciler = ReleaseReconciler(
            self.store,
            ReleaseClusters(self, AlwaysLeader()),
            self.clock,
            lambda: {name: member.labels for name, member in self.members.items()},
            lambda name: self.pipeline,
        )

    def get(self, name: str) -> MemberDouble | None:
        return self.members.get(name)

    def reconcile(self, name: str = "release") -> ReleaseStatus:
        asyncio.run(self.reconciler.reconcile(name))
        return self.store.get(name).status

    def run(self, name: str = "release", rounds: int = 60, step: float = 5.0) -> ReleaseStatus:
        """Reconcile every `step` seconds until the release waits for people or has ended.

        rounds: the most reconciles.
        """
        return asyncio.run(self._run(name, rounds, timedelta(seconds=step)))

    async def _run(self, name: str, rounds: int, step: timedelta) -> ReleaseStatus:
        for _ in range(rounds):
            result = await self.reconciler.reconcile(name)
            self.clock.step(step)
            if result.requeue_after is None:
                break
        return self.store.get(name).status

    @property
    def specs(self) -> dict[str, dict[str, Any]]:
        return {name: member.specs for name, member in self.members.items()}


def _conditions(kind: str, *, healthy: bool) -> list[Raw]:
    status = "True" if healthy else "False"
    type_ = {"NodeRemedier": "Compiled", "MachineComponent": "Valid"}.get(kind, "")
    if kind == "MachineComponentSet":
        type_, status = "Progressing", "False"
    if kind == "DefenderPolicy":
        type_, status = "NotEnforced", "False" if healthy else "True"
    reason = "Completed" if healthy else "DeadlineExceeded"
    at = (T0 - timedelta(hours=1)).isoformat()
    return [{"type": type_, "status": status, "reason": reason, "lastTransitionTime": at}]
