"""One informer per kind in a process, however many parts of it read that kind.

Each part requests its own informer, with its decoder, indexes, handlers and name. The first one for
a path and its selectors follows the API server. The others are views of it: they get every object
in the same turn of the event loop, and open no request. Parts with equal decoders share one
decoding. An object that one part cannot decode is unreadable for that part alone.

Age, gaps and resourceVersion of a view are those of the informer that follows the server.
"""

import asyncio
import random
from collections.abc import Callable, Sequence, Set
from typing import Any, Protocol, TypeVar

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import RESYNC_SECONDS, WATCH_SECONDS, Informer
from kubenode.runtime.kube.objects import Object, Structs
from kubenode.runtime.kube.store import key_of
from kubenode.runtime.rate import Spread

T = TypeVar("T", bound=Object)

Decode = Callable[[bytes], Any]


class MakeInformer(Protocol):
    """Creates the informer of a kind for a part of a program: `Informer`, or an `Informers`."""

    def __call__(
        self,
        kube: Kube,
        path: str,
        decode: Callable[[bytes], Any],
        *,
        field_selector: str | None = None,
        clock: Clock | None = None,
        name: str | None = None,
        watch_seconds: float = WATCH_SECONDS,
        resync: float | None = RESYNC_SECONDS,
    ) -> Informer[Any]: ...


class Informers:
    """The informers of one process and one API server. Call it before the first of them runs."""

    def __init__(self) -> None:
        self._sources: dict[tuple[int, str, str | None], Informer[Any]] = {}
        self._decoders: list[_Once] = []

    def __call__(
        self,
        kube: Kube,
        path: str,
        decode: Callable[[bytes], Any],
        *,
        field_selector: str | None = None,
        clock: Clock | None = None,
        name: str | None = None,
        watch_seconds: float = WATCH_SECONDS,
        resync: float | None = RESYNC_SECONDS,
    ) -> Informer[Any]:
        once = self._once(decode)
        key = (id(kube), path, field_selector)
        source = self._sources.get(key)
        if source is not None:
            source.shorten(watch_seconds)
            return SharedView(source, once, name=name, resync=resync, clock=clock)
        source = self._sources[key] = Informer(
            kube,
            path,
            once,
            field_selector=field_selector,
            clock=clock,
            name=name,
            watch_seconds=watch_seconds,
            resync=resync,
        )
        return source

    def _once(self, decode: Decode) -> "_Once":
        for known in self._decoders:
            if _alike(known.decode, decode):
                return known
        self._decoders.append(_Once(decode))
        return self._decoders[-1]


class _Once:
    """A decoder that remembers its last object, as equal decoders get the same bytes in turn."""

    def __init__(self, decode: Decode) -> None:
        self.decode = decode
        self._raw: bytes | None = None
        self._obj: Any = None

    def __call__(self, raw: bytes) -> Any:
        if raw is not self._raw:
            self._obj = self.decode(raw)
            self._raw = raw
        return self._obj


def _alike(decode: Decode, other: Decode) -> bool:
    if isinstance(decode, Structs) and isinstance(other, Structs):
        return decode.kind is other.kind
    return decode == other


class SharedView(Informer[T]):
    """The objects that `source` follows, for one more part of the program."""

    def __init__(
        self,
        source: Informer[Any],
        decode: Callable[[bytes], T],
        *,
        name: str | None,
        resync: float | None,
        clock: Clock | None = None,
        spread: Spread = random.random,
    ) -> None:
        if source.stats.lists or source.cache:
            raise ValueError(f"{source.name} runs already: a view of it would miss what it read")
        super().__init__(
            source.kube,
            source.path,
            decode,
            name=name,
            resync=resync,
            clock=clock,
            spread=spread,
        )
        self._source = source
        self.synced = source.synced
        source.views.append(self)

    # -- what the source knows ----------------------------------------------------------------

    @property
    def woken(self) -> int:
        return self._source.woken

    def age(self) -> float:
        return self._source.age()

    def hearing_since(self) -> float | None:
        return self._source.hearing_since()

    def unheard(self) -> Sequence[tuple[float, float]]:
        return self._source.unheard()

    async def wait_for(
        self,
        key: str,
        resource_version: str,
        timeout: float = 5.0,  # noqa: ASYNC109  measured on our clock
    ) -> None:
        await self._source.wait_for(key, resource_version, timeout)

    # -- what the source passes on ---------------------------------------------------------------

    def listed(self, raw: bytes, *, distrust: bool) -> None:
        self._distrust = distrust
        self._read.clear()
        self._store_listed(raw)

    def listed_all(self, listed_keys: Set[str]) -> None:
        for key in self.cache.keys() - listed_keys:
            self._store.put(key, None)
        for key in self.broken.keys() - listed_keys:
            del self.broken[key]

    def changed(self, raw: bytes) -> None:
        self.stats.events += 1
        try:
            obj = self._decoded(raw)
            self._store.put(key_of(obj.metadata), obj)
        except (ValueError, RecursionError) as error:
            self._undecodable(raw, error)
        else:
            self.broken.pop(key_of(obj.metadata), None)

    def gone(self, key: str) -> None:
        self.stats.events += 1
        self._gone(key)

    def reached(self, version: str) -> None:
        self.resource_version = version

    async def _follow(self) -> None:
        """Wait for ever, as a Part must: the source follows the server."""
        await asyncio.Event().wait()
