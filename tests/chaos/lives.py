"""The product in simulated time: one life after the other of each of its programs.

A life that ends by a blow ends as by SIGKILL: nothing that it still had in mind reaches the API
server or another program, be it in the middle of a write. The next one starts from what the API
server says.
"""

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable, Coroutine, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import Any, TypeVar, cast

import aiohttp
from prometheus_client import CollectorRegistry
from support.direct_server import LATENCY, DirectResponse, DirectTransport

from defender.client import DefenderUnreachable
from defender.service import Defender, DefenderSettings
from kubenode.api.v1alpha1 import Ask, Verdict
from kubenode.api.v1alpha1.permit import Holder
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import Part, serve
from kubenode.runtime.restore import KnownFile, KnownLineage, RestoreWatch
from machine.operator import MachineOperator
from remedy.operator import RemedyOperator, RemedySettings
from rules.diagnose import Diagnoser

T = TypeVar("T")
ANSWER_SECONDS = 10.0
STORE_AWAY = json.dumps(
    {
        "kind": "Status",
        "status": "Failure",
        "reason": "ServiceUnavailable",
        "message": "etcdserver: request timed out",
        "code": 503,
    }
).encode()


class Way:
    """To the API server, for everybody: whether it is there. Closures may overlap."""

    def __init__(self) -> None:
        self._closures = 0
        self._closed_resources: set[str] = set()
        self._watches: dict[DirectResponse, str] = {}

    def carries(self, answer: DirectResponse, path: str) -> None:
        def ended() -> None:
            self._watches.pop(answer, None)

        if answer.on_end(ended):
            self._watches[answer] = path

    def close(self) -> None:
        """The server dies: whoever watches hears of it."""
        self._closures += 1
        for watch in [*self._watches]:
            watch.cut()

    def reopen(self) -> None:
        self._closures -= 1

    @property
    def open(self) -> bool:
        return not self._closures

    def serves(self, path: str) -> bool:
        """Whether the store of the resource that `path` names can be reached."""
        return self._closed_resources.isdisjoint(_resource_path(path))

    def close_resource(self, plural: str) -> None:
        """Refuse one resource with 503, as a server whose etcd for it is down; end its watches."""
        self._closed_resources.add(plural)
        for watch, path in [*self._watches.items()]:
            if plural in _resource_path(path):
                watch.cut()

    def open_resource(self, plural: str) -> None:
        self._closed_resources.discard(plural)


def _resource_path(path: str) -> list[str]:
    return path.partition("?")[0].split("/")


class Line(DirectTransport):
    """Of one client. Cut, nothing goes out and nothing comes in any more."""

    way: Way
    cut = False

    async def send(
        self,
        method: str,
        path: str,
        body: bytes | None,
        headers: Mapping[str, str],
        timeout: aiohttp.ClientTimeout,  # noqa: ASYNC109  aiohttp's own
    ) -> aiohttp.ClientResponse:
        self._alive()
        if not self.way.open:
            await asyncio.sleep(LATENCY)
            raise ConnectionRefusedError("nobody listens")
        if not self.way.serves(path):
            await asyncio.sleep(LATENCY)
            return cast("aiohttp.ClientResponse", DirectResponse(503, STORE_AWAY))
        answer = await super().send(method, path, body, headers, timeout)
        assert isinstance(answer, DirectResponse)
        self.way.carries(answer, path)
        await asyncio.sleep(LATENCY)
        self._alive()
        return answer

    def _alive(self) -> None:
        if self.cut:
            raise asyncio.CancelledError


DEFENDER, REMEDY, MACHINE = PROGRAMS = ("defender", "remedy", "machine")
Life = AbstractContextManager[tuple[Line, list[Part], list[Part]]]
"""What a program is made of while it lives: its line, its parts, and their ground."""


class MemoryFile(KnownFile):
    """A file of a simulated program, which outlives each of its lives."""

    def __init__(self) -> None:
        super().__init__(None)
        self._known: KnownLineage | None = None

    def read(self) -> KnownLineage | None:
        return self._known

    def write(self, known: KnownLineage) -> None:
        self._known = known


class Programs:
    """What makes a life of each program: its parts, and its ground.

    line      makes a client's way to the API server
    clocks    of each program, by its name
    lineages  what each program keeps outside etcd of the lineage of the cluster's data
    """

    def __init__(
        self,
        line: Callable[[], Line],
        clocks: Mapping[str, Clock],
        settings: DefenderSettings,
        providers: Providers,
    ) -> None:
        self._line, self._clocks, self._settings = line, clocks, settings
        self._providers = providers
        self._lineages = {name: MemoryFile() for name in PROGRAMS}
        self.permits = OverTheWire()

    @contextmanager
    def defender(self) -> Iterator[tuple[Line, list[Part], list[Part]]]:
        clock = self._clocks[DEFENDER]
        line, kube = self._client(clock)
        registry = CollectorRegistry()
        watch = self._restore_watch(DEFENDER, kube, registry)
        made = Defender(
            kube,
            AlwaysLeader(),
            clock,
            registry,
            self._settings,
            restored=watch.restored_or_unverified,
        )
        self.permits.answers(made)
        try:
            yield line, made.parts, [*made.ground, watch]
        finally:
            self.permits.answers(None)

    @contextmanager
    def remedy(self) -> Iterator[tuple[Line, list[Part], list[Part]]]:
        clock = self._clocks[REMEDY]
        line, kube = self._client(clock)
        registry = CollectorRegistry()
        watch = self._restore_watch(REMEDY, kube, registry)
        made = RemedyOperator(
            kube,
            self.permits,
            Diagnoser(),
            AlwaysLeader(),
            clock,
            registry,
            RemedySettings(accept_single_engine=True),
            providers=self._providers,
            frozen=watch.frozen,
            restored=watch.restored_or_unverified,
            unverified=watch.unverified,
        )
        yield line, made.parts, [*made.ground, watch]
        made.close()

    @contextmanager
    def machine(self) -> Iterator[tuple[Line, list[Part], list[Part]]]:
        clock = self._clocks[MACHINE]
        line, kube = self._client(clock)
        registry = CollectorRegistry()
        watch = self._restore_watch(MACHINE, kube, registry)
        made = MachineOperator(
            kube,
            AlwaysLeader(),
            clock,
            registry,
            permits=self.permits,
            restored=watch.frozen,
        )
        yield line, made.parts, [*made.ground, watch]

    def _restore_watch(self, name: str, kube: Kube, registry: CollectorRegistry) -> RestoreWatch:
        return RestoreWatch(kube, self._clocks[name], registry, name, self._lineages[name])

    def _client(self, clock: Clock) -> tuple[Line, Kube]:
        line = self._line()
        return line, Kube(line, clock=clock, rate=1e5, burst=1e5)


class Lives:
    """A Part: one program, again and again.

    ends  ends this life; the next one begins once `may_start` is set
    """

    def __init__(self, name: str, make: Callable[[], Life]) -> None:
        self.name, self._make = name, make
        self.count = 0
        self._end = asyncio.Event()
        self.may_start = asyncio.Event()
        self.may_start.set()

    def end(self) -> None:
        self.may_start.clear()
        self._end.set()

    async def run(self) -> None:
        while True:
            await self.may_start.wait()
            self._end.clear()
            self.count += 1
            with self._make() as (line, parts, ground):
                await self._one(line, parts, ground)

    async def _one(self, line: Line, parts: list[Part], ground: list[Part]) -> None:
        async with asyncio.TaskGroup() as tasks:
            life = tasks.create_task(_mortal(line, serve(parts, ground)), name=self.name)
            end = tasks.create_task(self._end.wait())
            await asyncio.wait({life, end}, return_when=asyncio.FIRST_COMPLETED)
            if not end.done():
                await life  # says why it ended by itself, if it does
                raise AssertionError(f"{self.name} ended by itself")
            line.cut = True
            life.cancel()


async def _mortal(line: Line, life: Coroutine[Any, Any, None]) -> None:
    try:
        await life
    except Exception:  # whatever a process that is killed would have said
        if not line.cut:
            raise


class OverTheWire:
    """Implements defender.client.Permits: a Kube Defender that may die while it is asked."""

    def __init__(self) -> None:
        self._defender: Defender | None = None
        self._changed = asyncio.Event()

    def answers(self, defender: Defender | None) -> None:
        self._defender = defender
        self._changed.set()
        self._changed = asyncio.Event()

    async def ask(self, ask: Ask) -> Verdict:
        return await self._through(lambda defender: defender.ask(ask))

    async def check(self, permit: str, seconds_needed: float) -> Verdict:
        return await self._through(lambda defender: defender.check(permit, seconds_needed))

    async def renew(self, permit: str, seconds_needed: float = 0) -> Verdict:
        return await self._through(lambda defender: defender.renew(permit, seconds_needed))

    async def release(self, permit: str) -> None:
        await self._through(lambda defender: defender.release(permit))

    async def wakes(self) -> AsyncIterator[Holder]:
        """Ends never: a Kube Defender that is back is listened to."""
        while True:
            changed = self._changed
            if self._defender is None:
                await changed.wait()
                continue
            calls = self._defender.wakes()
            while not changed.is_set():
                call = asyncio.ensure_future(anext(calls))
                gone = asyncio.ensure_future(changed.wait())
                try:
                    await asyncio.wait({call, gone}, return_when=asyncio.FIRST_COMPLETED)
                finally:
                    gone.cancel()
                    if not call.done():
                        call.cancel()
                if call.done() and not call.cancelled():
                    yield call.result()

    async def _through(self, do: Callable[[Defender], Awaitable[T]]) -> T:
        """As over HTTP: what is under way when it dies ends without an answer."""
        await asyncio.sleep(LATENCY)
        changed, defender = self._changed, self._defender
        if defender is None:
            raise DefenderUnreachable("connection refused")
        answer = asyncio.ensure_future(do(defender))
        gone = asyncio.ensure_future(changed.wait())
        try:
            await asyncio.wait(
                {answer, gone}, timeout=ANSWER_SECONDS, return_when=asyncio.FIRST_COMPLETED
            )
        finally:
            gone.cancel()
            if not answer.done():
                answer.cancel()
        if answer.done() and not answer.cancelled() and not changed.is_set():
            return answer.result()
        raise DefenderUnreachable("no answer")
