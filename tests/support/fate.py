"""What happens to an operator's acts on their way out: it dies, or the way itself fails.

    fate = Once(after=True)                # dies at each act that it has not died at before
    async with fated_life(cluster, fate, ...) as operator: ...

An act is a write to the API server, a word to Kube Defender or a request to a provider. Whatever is
asked after a death is never answered, as if the process were gone.
"""

import asyncio
import random
import re
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Protocol, TypeVar

from support.power_provider import MemoryProvider
from support.remedy_cluster import YesPermits

from kubenode.api.v1alpha1 import Ask, Verdict
from kubenode.providers.errors import Unreachable as ProviderUnreachable
from kubenode.providers.port import ProviderMachine
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, ServerUnreachable, TooManyRequests

T = TypeVar("T")
OF_JOBS = re.compile(r"/(remedyoperationjobs|nodes|pods|nodeclaims|machines)(/|$)")
"""Writes that repair. Status of rules, leases and Events are others' subjects."""
OF_A_RUNG = {"conditions", "rung", "step"}
"""Written or not, it is the same act on another rung."""


class Fate(Protocol):
    async def act(self, what: str, do: Callable[[], Awaitable[T]]) -> T:
        """Carry out the act `what`, or not."""
        ...


@dataclass
class Once:
    """Dies once at each act: `after` it took effect, unheard, or before."""

    after: bool
    died_at: list[str] = field(default_factory=list)
    dead: asyncio.Event = field(default_factory=asyncio.Event)
    buried: asyncio.Event = field(default_factory=asyncio.Event)
    """What waits for an answer is let go, so that the process that plays dead can end."""

    async def act(self, what: str, do: Callable[[], Awaitable[T]]) -> T:
        if not self.dead.is_set() and what in self.died_at:
            return await do()
        if not self.dead.is_set():
            self.dead.set()
            self.died_at.append(what)
            if self.after:
                await do()
        await self.buried.wait()
        raise ServerUnreachable("the process is dead")

    def reborn(self) -> None:
        self.dead, self.buried = asyncio.Event(), asyncio.Event()

    async def dead_within(self, seconds: float) -> None:
        """Return at its death, or after `seconds`."""
        with suppress(TimeoutError):
            await asyncio.wait_for(self.dead.wait(), seconds)


@dataclass
class Rough:
    """Every act may fail, in each way that an API server and the network have, `times` in all."""

    rng: random.Random
    times: int
    share: float = 0.4
    seen: list[str] = field(default_factory=list)

    async def act(self, what: str, do: Callable[[], Awaitable[T]]) -> T:
        if len(self.seen) >= self.times or self.rng.random() > self.share:
            return await do()
        how = self.rng.choice(("409", "429", "500", "lost", "unheard"))
        self.seen.append(f"{how} {what}")
        if how == "unheard":
            await do()
        raise _error(how, what)


def _error(how: str, what: str) -> Exception:
    if what.startswith("provider"):
        return ProviderUnreachable("memory", how)
    match how:
        case "409":
            return Conflict(409, "Conflict", "somebody wrote first")
        case "429" if "eviction" not in what:
            return TooManyRequests(429, "TooManyRequests", "too many requests", retry_after=0.05)
        case "500" if "eviction" not in what:
            return KubeError(500, "InternalError", "etcdserver: request timed out")
        case _:
            return ServerUnreachable("TimeoutError")


class FatedKube(Kube):
    """A client whose writes to `writes` go through `fate`. Subclasses choose and name them."""

    fate: Fate | None = None
    writes = OF_JOBS

    async def _once(self, method: str, path: str, query: Any, body: Any, *more: Any) -> Any:
        def do() -> Awaitable[Any]:
            return Kube._once(self, method, path, query, body, *more)

        if method == "GET" or self.fate is None or not self.writes.search(path):
            return await do()
        return await self.fate.act(self.describe_act(method, path, body), do)

    def describe_act(self, method: str, path: str, body: Any) -> str:
        """Return a text that is the same for the same act in another life."""
        return f"{method} {_short(path)} {_intent(body)}"


def _short(path: str) -> str:
    """Without the group, and names of nodes stay: each eviction is an act of its own."""
    return "/".join(path.split("/")[4 if path.startswith("/apis") else 3 :])


def _intent(body: Any) -> str:
    """What is written, without its times: the same act in another life reads the same."""
    status = body.get("status") if isinstance(body, dict) else None
    if not isinstance(status, dict):
        return str(sorted(body)) if isinstance(body, dict) else ""
    steps = [(s["name"], s["state"], s.get("attempts")) for s in status.get("steps") or []]
    return f"{status.get('phase')} {steps[-1:]} {sorted(status.keys() - OF_A_RUNG)}"


@dataclass
class FatedPermits(YesPermits):
    fate: Fate | None = None

    async def ask(self, ask: Ask) -> Verdict:
        return await self._through("ask", lambda: YesPermits.ask(self, ask))

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        return await self._through("renew", lambda: YesPermits.renew(self, permit))

    async def release(self, permit: str) -> None:
        await self._through("release", lambda: YesPermits.release(self, permit))

    async def _through(self, what: str, do: Callable[[], Awaitable[T]]) -> T:
        if not isinstance(self.fate, Once):  # Kube Defender's own failures are tested elsewhere
            return await do()
        return await self.fate.act(f"permit {what}", do)


@dataclass
class FatedProvider(MemoryProvider):
    fate: Fate | None = None

    async def off(self, machine: ProviderMachine, request: str) -> None:
        await self._through(f"off {request}", lambda: MemoryProvider.off(self, machine, request))

    async def on(self, machine: ProviderMachine, request: str) -> None:
        await self._through(f"on {request}", lambda: MemoryProvider.on(self, machine, request))

    async def reset(self, machine: ProviderMachine, request: str) -> None:
        await self._through("reset", lambda: MemoryProvider.reset(self, machine, request))

    async def replace(self, machine: ProviderMachine, request: str) -> None:
        await self._through(
            f"replace {request}", lambda: MemoryProvider.replace(self, machine, request)
        )

    async def _through(self, what: str, do: Callable[[], Awaitable[T]]) -> T:
        return await (self.fate.act(f"provider {what}", do) if self.fate is not None else do())


class JumpingClock(SystemClock):
    """Wall time that a person sets forward and back; monotonic time goes on."""

    def __init__(self) -> None:
        self.offset = timedelta()

    def now(self) -> datetime:
        return super().now() + self.offset

    def jump(self, *, hours: float) -> None:
        self.offset += timedelta(hours=hours)
