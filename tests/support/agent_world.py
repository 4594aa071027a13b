"""A host, a job and an API server for the agent's core, and death at any moment.

Every effect (a read, a write to the journal, a job of systemd, an answer) passes `World.moment`.
The `die_at`-th one raises Killed, before it applies or after. A new core over the same journal
folder is the process that systemd starts next.
"""

from collections.abc import Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
from support.clock import T0, FakeClock
from support.disruption_guard import KeptPermits

from agent.actions import Bench
from agent.actions.allowlist import AllowedScript, Repairs
from agent.actions.checks import AllowedCheck
from agent.core import AgentCore
from agent.diagnostics.bundler import DiagnosticsCollector
from agent.diagnostics.bundles import Bundles
from agent.diagnostics.upload import BundleUploader
from agent.host import HostError, HostUnreachable, NoSuchUnit, Unit, UnitVerb
from agent.host.ports import Ports
from agent.jobpermits import JobPermits
from agent.journal import FileJournal, JournalEntry
from agent.request import Key
from agent.wire import WireAnswer, WireJob, decode_job, format_time
from kubenode.runtime.kube.errors import KubeError, ServerUnreachable

NODE, AGENT, BOOT = "n1", "n1", "boot-1"
UNIT = "containerd.service"
REQUEST = "r0s0a1"


class Killed(BaseException):
    """SIGKILL: nothing in the program may catch it."""


def a_job(
    *,
    agent_step: dict[str, Any] | None = None,
    asked: dict[str, Any] | None = None,
    phase: str = "Running",
    **spec: Any,
) -> WireJob:
    """A job with one Running agent step, as the operator writes it."""
    step = agent_step or {"action": "RestartUnit", "unit": UNIT, "timeout": "2m"}
    record = {
        "rung": 0,
        "index": 0,
        "name": "agent",
        "by": "Agent",
        "requestID": REQUEST,
        "state": "Running",
        "bootID": BOOT,
        "askedAt": format_time(T0),
        "expiresAt": format_time(T0 + timedelta(minutes=2)),
        **(asked or {}),
    }
    return decode_job(
        msgspec.json.encode(
            {
                "metadata": {"name": "n1-0123456789", "uid": "job-uid-1", "resourceVersion": "10"},
                "spec": {
                    "nodeName": NODE,
                    "agent": AGENT,
                    "ladder": [{"name": "restart", "steps": [{"agent": step}]}],
                    **spec,
                },
                "status": {"phase": phase, "steps": [record]},
            }
        )
    )


@dataclass
class World:
    """Implements Jobs and Host. Levers: `die_at`, `unreachable`, `comes_up`, `bus_lost`."""

    folder: Path
    job: WireJob | None = field(default_factory=a_job)
    die_at: int = 0
    applied: bool = False
    boot: str = BOOT
    active: str = "failed"
    invocation: int = 1
    comes_up: str = "active"
    oneshot: bool = False
    result: str = ""
    forgotten: bool = False
    known: bool = True
    unreachable: bool = False
    bus_lost: bool = False
    clock: FakeClock = field(default_factory=FakeClock)
    moments: int = 0
    acts: list[tuple[UnitVerb, str]] = field(default_factory=list)
    limits: list[float] = field(default_factory=list)
    resets: int = 0
    reboots: int = 0
    goes_down: bool = True
    checks: dict[str, AllowedCheck] = field(default_factory=dict)
    ports: Ports | None = None
    allowed: Repairs = field(default_factory=Repairs)
    scripts: dict[str, AllowedScript] = field(default_factory=dict)
    store: BundleUploader | None = None
    answers: list[tuple[str, WireAnswer]] = field(default_factory=list)
    reads: int = 0
    permits: KeptPermits = field(default_factory=KeptPermits)

    @contextmanager
    def moment(self) -> Iterator[None]:
        self.moments += 1
        if self.moments == self.die_at and not self.applied:
            raise Killed
        yield
        if self.moments == self.die_at:
            raise Killed

    def core(self) -> AgentCore:
        """A new process over the same disk."""
        journal = DyingJournal(self)
        bundles = Bundles(self.folder.parent / "diagnostics")
        collector = DiagnosticsCollector(bundles, self.clock, self.store)
        bench = Bench(
            self, self.clock, 0.0, self.checks, collector, self.ports, self.allowed, self.scripts
        )
        permits = JobPermits(self.permits)
        return AgentCore(self, bench, journal, node=NODE, agent=AGENT, permits=permits)

    @property
    def answer_now(self) -> WireAnswer | None:
        return None if self.job is None else self.job.answer(REQUEST)

    # -- Jobs

    async def read(self, name: str) -> WireJob | None:
        with self.moment():
            self.reads += 1
            if self.unreachable:
                raise ServerUnreachable("no route to host")
            return self.job

    async def answer(
        self, job: str, request_id: str, answer: WireAnswer, obsolete: Collection[str] = ()
    ) -> str:
        if self.unreachable:
            raise ServerUnreachable("no route to host")
        with self.moment():
            assert self.job is not None
            self.answers.append((request_id, answer))
            raw = msgspec.to_builtins(self.job)
            status = raw["status"]
            status["agent"] = status.get("agent") or {"requests": {}}
            for name in obsolete:
                del status["agent"]["requests"][name]
            status["agent"]["requests"][request_id] = msgspec.to_builtins(answer)
            version = str(int(raw["metadata"]["resourceVersion"]) + 1)
            raw["metadata"]["resourceVersion"] = version
            self.job = msgspec.convert(raw, WireJob)
        return version

    # -- Host

    def boot_id(self) -> str:
        return self.boot

    async def unit(self, name: str) -> Unit:
        with self.moment():
            if not self.known:
                raise NoSuchUnit(f"unit {name} is not-found on this host")
            result = self.result or ("success" if self.active == "active" else "exit-code")
            result = "success" if self.forgotten else result
            invocation = "" if self.forgotten else f"{self.invocation:032x}"
            return Unit(name, self.active, "sub", result, 3, invocation, self.oneshot)

    async def reset_failed(self, name: str) -> None:
        with self.moment():
            self.resets += 1
            if self.active == "failed":  # then inactive, so unloaded: the invocation is forgotten
                self.active, self.forgotten = "inactive", True

    async def unit_job(self, verb: UnitVerb, name: str, timeout: float) -> None:  # noqa: ASYNC109
        with self.moment():
            self.acts.append((verb, name))
            self.limits.append(timeout)
            if verb is UnitVerb.STOP:
                self.active = "inactive"
            elif verb is not UnitVerb.RELOAD:
                self.invocation, self.forgotten = self.invocation + 1, False
                self.active = self.comes_up
            if self.bus_lost:
                raise HostUnreachable("the system bus went away")
            if self.active == "failed":
                raise HostError(f"{verb} {name}: systemd's job ended with 'failed'")

    async def reboot(self) -> None:
        """Ends the agent, as the host goes down; what is ordered twice is counted twice."""
        with self.moment():
            self.reboots += 1
            if self.bus_lost:
                raise HostUnreachable("the system bus went away")
            if self.goes_down:
                self.booted()
                raise Killed

    def booted(self) -> None:
        self.boot, self.invocation, self.active = "boot-2", self.invocation + 1, "active"
        self.forgotten = False


class DyingJournal(FileJournal):
    def __init__(self, world: World) -> None:
        super().__init__(world.folder)
        self._world = world

    def _write(self, key: Key, entry: JournalEntry) -> None:
        with self._world.moment():
            super()._write(key, entry)


def an_entry(**changes: object) -> JournalEntry:
    values: dict[str, object] = {
        "job": "j",
        "action": "RestartUnit",
        "boot_id": "b",
        "started_at": T0,
        "expires_at": T0 + timedelta(minutes=2),
        "limit": 120.0,
        "before": {"unit": "a.service"},
    }
    return JournalEntry(**{**values, **changes})  # type: ignore[arg-type]


async def until_answered(world: World, tries: int = 5) -> None:
    """Run processes, one after another as they die, until the request has its answer."""
    for _ in range(tries):
        core = world.core()
        try:
            await core.recover()
            if world.job is not None:
                await core.handle(world.job)
        except Killed:
            world.die_at = 0
        except KubeError:
            continue
        if world.answer_now is not None:
            return


def with_status(job: WireJob, **changes: Any) -> WireJob:
    """`job` with a changed status."""
    raw = msgspec.to_builtins(job)
    raw["status"].update(changes)
    return msgspec.convert(raw, WireJob)


def later(job: WireJob, at: datetime) -> WireJob:
    """`job` whose request expires at another time."""
    raw = msgspec.to_builtins(job)
    raw["status"]["steps"][0]["expiresAt"] = format_time(at)
    return msgspec.convert(raw, WireJob)
