"""The API server, Kube Defender and a cloud in memory, under the real controller of Machines.

Every write may be the one at which the controller dies, before or after it is applied: what runs
next is a new controller that knows nothing but what was written.
"""

import copy
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from types import SimpleNamespace
from typing import Any, cast

import msgspec
from support.clock import FakeClock
from support.disruption_guard import live_permit
from support.fake_instances import FakeInstances

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine, MachineClass, MachineComponentSet
from kubenode.api.v1alpha1.permit import Holder
from kubenode.providers.instances import InstanceProviders
from kubenode.runtime.audit import SILENT
from kubenode.runtime.disruption.guard import DisruptionGuard
from kubenode.runtime.disruption.permits import LivePermit
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.objects import Node, structs
from machine.access import MachineAccess
from machine.bootstrap.agentready import Lifesign
from machine.bootstrap.tokens import StoredToken
from machine.certificates.case import BootstrapToken
from machine.disruption.port import DisruptionRequest, DisruptionState, Prepared
from machine.ground import SharedCaches
from machine.machine.act import MachineActs
from machine.machine.attachments import Attachments
from machine.machine.controller import MachineController
from machine.machine.fights import NodeFights
from machine.machine.instances import InstanceAccess
from machine.machine.observe import MachineObserver
from machine.site_settings import Provisioning

_node = structs(Node)
CA = "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----\n"
MACHINE = "/apis/kubenode.io/v1alpha1/machines/m"
NODE = "/api/v1/nodes/m"


class Killed(BaseException):
    """Nothing of the controller runs after it."""


@dataclass(slots=True)
class Death:
    """number   of the write at which it comes, 0 for never
    applied  whether that write takes effect
    """

    number: int = 0
    applied: bool = False
    writes: int = 0

    def at(self, write: Callable[[], Any]) -> Any:
        self.writes += 1
        if self.writes != self.number:
            return write()
        if self.applied:
            write()
        raise Killed


@dataclass
class Double:
    """`objects` by path, as JSON; the cloud; how the node is disrupted."""

    clock: FakeClock = field(default_factory=FakeClock)
    cloud: FakeInstances = field(default_factory=FakeInstances)
    death: Death = field(default_factory=Death)
    objects: dict[str, dict[str, Any]] = field(default_factory=dict)
    prepared: Prepared = field(default_factory=lambda: Prepared(DisruptionState.READY, "p-1"))
    marks: set[str] = field(default_factory=set)
    wishes: list[DisruptionRequest] = field(default_factory=list)
    volumes: int = 0
    lifesign: Lifesign = Lifesign.FRESH
    frozen: str = ""
    permit: str = "Granted"
    """State of every Permit, "" where none is there."""
    held: str = ""
    sets: list[MachineComponentSet] = field(default_factory=list)
    classes: dict[str, MachineClass] = field(default_factory=dict)
    told: list[str] = field(default_factory=list)
    version: int = 1

    # -- the API server ---------------------------------------------------------------------------

    async def get(self, path: str, decode: Any = None, query: Any = None) -> Any:
        if path.endswith("volumeattachments"):
            items = [{"spec": {"nodeName": "m"}}] * self.volumes
            return decode(msgspec.json.encode({"metadata": {}, "items": items}))
        if path not in self.objects:
            raise NotFound(404, "NotFound", path)
        return decode(msgspec.json.encode(self.objects[path]))

    async def patch(self, path: str, body: Any, *more: Any, decode: Any = None) -> Any:
        status = path.endswith("/status")
        path = path.removesuffix("/status")
        self._checked(path, body)

        def write() -> None:
            kept = body if not status else {"status": body["status"]}
            self.objects[path] = _merged(self.objects[path], _plain(kept))
            self._written(path)

        self.death.at(write)
        found = self.objects.get(path) or _GONE
        return decode(msgspec.json.encode(found)) if decode is not None else found

    async def delete(self, path: str, *, uid: str | None = None, **more: Any) -> None:
        self._checked(path, {"metadata": {"uid": uid}})

        def write() -> None:
            meta = self.objects[path]["metadata"]
            meta.setdefault("deletionTimestamp", format_time(self.clock.now()))
            self._written(path)

        self.death.at(write)

    def _checked(self, path: str, body: Any) -> None:
        if path not in self.objects:
            raise NotFound(404, "NotFound", path)
        have, asked = self.objects[path]["metadata"], body.get("metadata", {})
        for name in ("uid", "resourceVersion"):
            if asked.get(name) and asked[name] != have.get(name):
                raise Conflict(409, "Conflict", f"{path}: {name}")

    def _written(self, path: str) -> None:
        self.version += 1
        meta = self.objects[path]["metadata"]
        meta["resourceVersion"] = str(self.version)
        if "deletionTimestamp" in meta and not meta.get("finalizers"):
            del self.objects[path]

    # -- what a test does -------------------------------------------------------------------------

    def put(self, path: str, body: dict[str, Any]) -> None:
        self.version += 1
        meta = {"uid": f"u-{path[-1]}", "generation": 1, "resourceVersion": str(self.version)}
        made = {"creationTimestamp": format_time(self.clock.now())}
        self.objects[path] = {**body, "metadata": {**meta, **made, **body.get("metadata", {})}}

    def change(self, path: str, **parts: Any) -> None:
        """As a person or an agent would, behind the controller's back."""
        self.objects[path] = _merged(self.objects[path], parts)
        self._written(path)

    def ask_to_delete(self) -> None:
        self.objects[MACHINE]["metadata"]["deletionTimestamp"] = format_time(self.clock.now())
        self._written(MACHINE)

    def says(self, **statuses: str) -> None:
        """Conditions that others write, by type."""
        have = self.objects[MACHINE].get("status", {}).get("conditions", [])
        now = format_time(self.clock.now())
        given = [
            {"type": t, "status": s, "reason": "Test", "lastTransitionTime": now}
            for t, s in statuses.items()
        ]
        others = [c for c in have if c["type"] not in statuses]
        self.change(MACHINE, status={"conditions": others + given})

    @property
    def machine(self) -> Machine | None:
        return self._machine("m")

    @property
    def there(self) -> Machine:
        found = self.machine
        assert found is not None
        return found

    def reason(self, type_: str) -> str:
        found = self.there.status.condition(type_)
        return found.reason if found is not None else ""

    def _machine(self, name: str) -> Machine | None:
        raw = self.objects.get(MACHINE.removesuffix("m") + name)
        return Machine.from_server(msgspec.json.encode(raw)) if raw is not None else None

    def _node_of(self, name: str) -> Node | None:
        raw = self.objects.get(NODE.removesuffix("m") + name)
        return _node(msgspec.json.encode(raw)) if raw is not None else None

    # -- Kube Defender ----------------------------------------------------------------------------

    async def prepare(self, wish: DisruptionRequest) -> Prepared:
        self.wishes.append(wish)
        if self.prepared.state is not DisruptionState.WAITING:
            self.death.at(lambda: self.marks.add(wish.holder.name))
        return self.prepared

    async def end(self, node: str | None, holder: Holder) -> bool:
        self.death.at(lambda: self.marks.discard(holder.name))
        return True

    async def read(self, name: str) -> LivePermit | None:
        """Of the guard: the permit as the API server has it."""
        uid = self.objects[MACHINE]["metadata"]["uid"]
        return live_permit(name, "m", uid, state=self.permit) if self.permit else None

    # -- the controller ---------------------------------------------------------------------------

    def controller(self) -> MachineController:
        """A new one, which remembers nothing."""
        kube, ground = cast(Kube, self), cast(SharedCaches, self._ground())
        provisioning = Provisioning(
            InstanceProviders([_Mortal(self)]), "c1", "https://api:6443", CA
        )
        guard = DisruptionGuard(self, AlwaysLeader(), self.clock, SILENT, lambda: self.frozen)
        access = InstanceAccess(
            provisioning, kube, self.classes.get, lambda: self.frozen, self.clock, guard
        )
        access._tokens = cast(Any, _FakeTokens())
        fights = NodeFights(self.clock.monotonic)
        return MachineController(
            ground,
            MachineAccess(kube),
            MachineObserver(ground, access, fights, lambda: self.frozen, Attachments(ground.kube)),
            MachineActs(kube, self, access, self.clock, guard),
            access,
            fights,
        )

    def _ground(self) -> Any:
        async def emit(regarding: Any, type_: str, reason: str, message: str) -> None:
            self.told.append(reason)

        return SimpleNamespace(
            kube=self,
            clock=self.clock,
            fence=AlwaysLeader(),
            audit=SILENT,
            recorder=SimpleNamespace(emit=emit),
            machines=SimpleNamespace(
                get=self._machine, readable=lambda key: True, cache=_Names(self)
            ),
            nodes=SimpleNamespace(get=self._node_of),
            classes=SimpleNamespace(get=self.classes.get),
            component_sets=SimpleNamespace(cache={s.metadata.name: s for s in self.sets}),
            components=SimpleNamespace(get=lambda name: None),
            lifesigns=SimpleNamespace(of=lambda name: self.lifesign),
            find_open_job=lambda node: self.held,
        )

    async def run(self, controller: MachineController | None = None, looks: int = 6) -> None:
        """So many looks, each when the one before asked for it, at most a minute later."""
        controller = controller or self.controller()
        for _ in range(looks):
            try:
                result = await controller.reconcile("m")
            except Conflict:
                continue
            wait = result.requeue_after
            if wait is not None:
                self.clock.step(min(wait, timedelta(minutes=1)))

    async def run_dying(self, death: Death, looks: int = 6) -> bool:
        """As `run`, killed at that write; whether it came so far."""
        self.death = death
        try:
            await self.run(looks=looks)
        except Killed:
            self.death = Death()
            return True
        self.death = Death()
        return False


class _Mortal:
    """The cloud, at whose writes one may die too."""

    def __init__(self, double: Double) -> None:
        self._double, self._cloud = double, double.cloud
        self.name, self.provider = self._cloud.name, self._cloud.provider
        self.operations = self._cloud.operations
        self.validate, self.owns, self.get = self._cloud.validate, self._cloud.owns, self._cloud.get
        self.find, self.list, self.close = self._cloud.find, self._cloud.list, self._cloud.close

    async def create(self, order: Any) -> Any:
        return await self._dying(lambda: self._cloud.create(order))

    async def delete(self, provider_id: str, cluster: str) -> Any:
        return await self._dying(lambda: self._cloud.delete(provider_id, cluster))

    async def operate(self, *given: Any) -> None:
        await self._dying(lambda: self._cloud.operate(*given))

    async def _dying(self, write: Callable[[], Any]) -> Any:
        death = self._double.death
        death.writes += 1
        if death.writes != death.number:
            return await write()
        if death.applied:
            await write()
        raise Killed


class _FakeTokens:
    async def read(self, token_id: str) -> StoredToken | None:
        from machine.bootstrap.tokens import LONG_AGO

        return StoredToken(
            BootstrapToken(token_id, "m", "u-m", LONG_AGO), "u", "1", f"{token_id}.secret"
        )


class _Names:
    def __init__(self, double: Double) -> None:
        self._double = double

    def __contains__(self, name: str) -> bool:
        return f"{MACHINE.removesuffix('m')}{name}" in self._double.objects


_GONE: dict[str, Any] = {"metadata": {"name": "gone"}, "spec": {"addresses": ["10.0.0.1"]}}


def _plain(value: Any) -> Any:
    return msgspec.json.decode(msgspec.json.encode(value))


def _merged(old: Any, change: Any) -> Any:
    """RFC 7386."""
    if not isinstance(change, Mapping):
        return copy.deepcopy(change)
    base = dict(old) if isinstance(old, Mapping) else {}
    for key, value in change.items():
        if value is None:
            base.pop(key, None)
        else:
            base[key] = _merged(base.get(key), value)
    return base


def a_class(**spec: Any) -> MachineClass:
    raw = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineClass",
        "metadata": {"name": "small", "uid": "c"},
        "spec": {"provider": "local", "config": {}, **spec},
        "status": {"classHash": "1-0123456789"},
    }
    return MachineClass.model_validate(raw)


def imported(**spec: Any) -> dict[str, Any]:
    return _machine({"addresses": ["10.0.0.1"], **spec})


def provisioned(**spec: Any) -> dict[str, Any]:
    return _machine({"origin": "Provision", "classRef": "small", **spec})


def _machine(spec: dict[str, Any]) -> dict[str, Any]:
    kind = {"apiVersion": "kubenode.io/v1alpha1", "kind": "Machine"}
    bootstrap = {"bootstrap": {"tokenID": "abcdef"}}
    return {**kind, "metadata": {"name": "m", "uid": "u-m"}, "spec": spec, "status": bootstrap}


def a_node(ready: str = "True", **metadata: Any) -> dict[str, Any]:
    kind = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "m", "uid": "n-1", **metadata}}
    return {**kind, "spec": {}, "status": {"conditions": [{"type": "Ready", "status": ready}]}}


async def running(**spec: object) -> Double:
    """An imported Machine in service."""
    double = Double()
    double.put(MACHINE, imported(**spec))
    double.put(NODE, a_node())
    double.says(AgentReady="True")
    await double.run()
    assert double.there.status.phase == "Running"
    return double


async def made(**spec: object) -> Double:
    """One that we made, likewise."""
    double = Double()
    double.classes["small"] = a_class()
    double.put(MACHINE, provisioned(**spec))
    await double.run()
    double.put(NODE, a_node())
    double.says(AgentReady="True")
    await double.run()
    assert double.there.status.phase == "Running"
    return double
