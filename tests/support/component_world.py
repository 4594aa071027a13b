"""One simulated host under the real engine, with levers: a Machine, components, deaths, permits."""

import asyncio
import base64
from collections.abc import Callable, Collection, Coroutine, Mapping
from datetime import timedelta
from typing import Any, TypeVar

import msgspec
from support.clock import FakeClock

from agent.components.engine import ComponentEngine
from agent.components.library import Library
from agent.components.model import ComponentApplyState, ComponentRecord
from agent.components.permits import LivePermits
from agent.components.records import MemoryRecords, Records
from kubenode.runtime.components import wire
from kubenode.runtime.components.hashes import config_hash, revision, text_digests
from kubenode.runtime.components.render import (
    KeyText,
    TextRef,
    machine_values,
    references,
    rendered,
)
from kubenode.runtime.kube.errors import NotFound, ServerUnreachable, Undecodable
from simulation.hosts.components import SimulatedComponents

T = TypeVar("T")
HOST = wire.WireMachineHost("boot-1", "debian-12", "6.1.0", "amd64")
PACKAGE = "containerd.io"
UNIT = "containerd.service"
CONFIG = "/etc/containerd/conf.d/10.toml"


def component(version: str = "2.1.3", family: str = "containerd", **spec: Any) -> dict[str, Any]:
    """A MachineComponent of a package with one unit and one file."""
    package = PACKAGE if family == "containerd" else family
    made: dict[str, Any] = {
        "component": family,
        "version": version,
        "source": {
            "type": "apt",
            "apt": {"packages": [{"name": package, "version": f"{version}-1"}]},
        },
        "units": [{"name": f"{family}.service"}],
        "disruption": {"install": "None", "patch": "Restart"},
        "healthDeadline": "30s",
    }
    if family == "containerd":
        content = {"inline": "pause = '${values.pause}'"}
        made["files"] = [{"path": CONFIG, "content": content, "onChange": "Restart"}]
    return {"metadata": {"name": f"{family}-{version}"}, "spec": made | spec}


class FakeServer:
    """Stands for Kube: GETs of components and texts."""

    def __init__(self) -> None:
        self.components: dict[str, dict[str, Any]] = {}
        self.texts: dict[TextRef, KeyText] = {}
        self.away = False
        self.reads: list[str] = []

    async def get(self, path: str, decode: Callable[[bytes], Any], query: object = None) -> Any:
        self.reads.append(path)
        if self.away:
            raise ServerUnreachable("away")
        kind, name = path.split("/")[-2:]
        if kind == "machinecomponents":
            if name not in self.components:
                raise NotFound(404)
            try:
                return decode(msgspec.json.encode(self.components[name]))
            except ValueError as error:
                raise Undecodable(200, "", str(error)) from error
        word = "Secret" if kind == "secrets" else "ConfigMap"
        data, uid = {}, ""
        for ref, text in self.texts.items():
            if (ref.kind, ref.name) == (word, name):
                secret = base64.b64encode(text.content.encode()).decode()
                data[ref.key], uid = (secret if word == "Secret" else text.content), text.salt
        if not data:
            raise NotFound(404)
        return decode(msgspec.json.encode({"metadata": {"uid": uid}, "data": data}))


class GoodReach:
    def __init__(self) -> None:
        self.said = ""

    async def http(self, url: str, limit: float) -> str:
        return self.said

    async def tcp(self, address: str, limit: float) -> str:
        return self.said


class FakeHost:
    def __init__(self) -> None:
        self.boot = 1
        self.reboots = 0

    def boot_id(self) -> str:
        return f"boot-{self.boot}"

    async def reboot(self) -> None:
        self.reboots += 1


class ComponentWorld:
    def __init__(self, records: Records | None = None) -> None:
        self.clock, self.server, self.host = FakeClock(), FakeServer(), FakeHost()
        self.parts, self.reach = SimulatedComponents(), GoodReach()
        for family in ("containerd", "runc", "kubelet"):
            package = PACKAGE if family == "containerd" else family
            self.parts.packages.brings[package] = (f"{family}.service",)
        self.records = records or MemoryRecords()
        self.hands, self.job = asyncio.Lock(), ""
        self.away, self.gone, self.other_permit = False, False, ""
        self.told: list[wire.WireComponentStatus] = []
        self.writes = 0
        self.assigned: dict[str, dict[str, Any]] = {}
        self.permit: dict[str, Any] | None = None
        self.mode = "Manage"
        self.leaving = False
        self.engine = self.life()

    def life(self) -> ComponentEngine:
        """A new process of the agent."""
        self.engine = ComponentEngine(
            self.parts.ports(),
            self.reach,
            self.records,
            Library(self.server, HOST),  # type: ignore[arg-type]
            self.host,  # type: ignore[arg-type]
            self.clock,
            self.hands,
            lambda: self.job,
            LivePermits(self._live, lambda permit: self.other_permit, self.clock),
            self._tell,
            spread=lambda: 0.5,
        )
        return self.engine

    async def _live(self) -> wire.WireMachine | None:
        if self.away:
            raise ServerUnreachable("away")
        return None if self.gone else self.machine()

    def _tell(self, components: list[wire.WireComponentStatus]) -> None:
        if components != self.told:
            self.writes += 1
        self.told = list(components)

    # -- what people and operators do -------------------------------------------------------------

    def machine(self) -> wire.WireMachine:
        meta: dict[str, Any] = {"name": "m1", "labels": {"pool": "online"}}
        if self.leaving:
            meta["deletionTimestamp"] = "2026-01-01T00:00:00Z"
        return wire.machine_of(
            {
                "metadata": meta,
                "spec": {
                    "mode": self.mode,
                    "components": list(self.assigned.values()),
                    "permit": self.permit,
                },
            }
        )

    def assign(
        self,
        made: Mapping[str, Any],
        *,
        attempt: int = 1,
        state: str = "Running",
        **values: str,
    ) -> str:
        """Put it on the Machine as its set would; its revision."""
        name, spec = made["metadata"]["name"], wire.spec_of(made["spec"])
        self.server.components[name] = dict(made)
        given = {"pause": "3.10"} | values
        texts = {r: self.server.texts[r] for r in references(spec) if r in self.server.texts}
        machine = self.machine()
        host = wire.WireMachineStatus(HOST)
        values_of = machine_values(wire.WireMachine(machine.metadata, machine.spec, host))
        files = rendered(spec, given, values_of, texts)
        self.assigned[spec.component] = {
            "name": spec.component,
            "component": name,
            "revision": revision(spec, given, state, text_digests(texts)),
            "configHash": config_hash(files),
            "values": given,
            "desiredState": state,
            "attempt": attempt,
        }
        return str(self.assigned[spec.component]["revision"])

    def allow(
        self, *names: str, most: str = "Reboot", seconds: float = 600, renewed: float | None = None
    ) -> None:
        self.permit = {
            "name": "p-1",
            "components": list(names),
            "maxDisruption": most,
            "startBefore": (self.clock.now() + timedelta(seconds=seconds)).isoformat(),
        }
        if renewed is not None:
            until = self.clock.now() + timedelta(seconds=renewed)
            self.permit["renewedUntil"] = until.isoformat()

    # -- going on ---------------------------------------------------------------------------------

    async def rounds(self, seconds: float = 60.0, until: Collection[str] = ()) -> None:
        """Let the engine work until `seconds` are over, or containerd is in one of these states."""
        end = self.clock.monotonic() + seconds
        if not self.engine._recovered.is_set():
            await self.engine.recover()
        self.engine.observe_machine(self.machine())
        async with asyncio.TaskGroup() as self.engine._tasks:
            while (now := self.clock.monotonic()) < end:
                self.engine._wake.clear()
                pause = await self.engine.round()
                if self.state() in until and self._of_this_revision():
                    return
                for _ in range(3):
                    await asyncio.sleep(0)
                if not self.engine._wake.is_set():
                    self.clock.step(timedelta(seconds=min(max(pause, 0.05), end - now + 0.01)))

    async def beside(self, work: Coroutine[Any, Any, T]) -> T:
        """What `work` comes to, while time goes on."""
        async with asyncio.TaskGroup() as tasks:
            task = tasks.create_task(work)
            while not task.done():
                for _ in range(5):
                    await asyncio.sleep(0)
                self.clock.step(timedelta(seconds=1))
        return task.result()

    def _of_this_revision(self) -> bool:
        return bool(self.record().revision == self.assigned["containerd"]["revision"])

    async def restart(self) -> None:
        await self.life().recover()

    def state(self, name: str = "containerd") -> str:
        record = self.engine.record(name)
        return record.state.value if record is not None else ""

    def record(self, name: str = "containerd") -> ComponentRecord:
        record = self.engine.record(name)
        assert record is not None
        return record

    def status(self, name: str = "containerd") -> wire.WireComponentStatus:
        return next(one for one in self.told if one.name == name)

    @property
    def version(self) -> str:
        return self.parts.packages.packages[PACKAGE].version

    def starts(self, unit: str = UNIT) -> int:
        return self.parts.units.starts.get(unit, 0)


ENDS = frozenset(
    {ComponentApplyState.HEALTHY, ComponentApplyState.ROLLED_BACK, ComponentApplyState.FAILED}
)
