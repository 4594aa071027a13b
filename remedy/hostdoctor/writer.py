"""Writes HostEvents to the API server: each one serially, many at once, from any replica.

No leader is needed: a write is decided from the current object (by resourceVersion), and `change`
is deterministic. Of two concurrent writes the API server rejects the later one, which reads the
result of the other and decides again. A new object takes two requests, the second one for its
status; a replica that crashes in between has answered nobody, so the event is reported again, and
the sweep completes the object meanwhile.
"""

import asyncio
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from typing import Any

import msgspec

from kubenode.api.v1alpha1.hostevent import HostEvent, HostEventStatus
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, NotFound
from kubenode.runtime.kube.informer import Informer

PLURAL = HostEvent.resource.plural
AT_ONCE = 48
"""Concurrent requests of all deliveries together."""
TRIES = 6
MOST_REMEMBERED = 4096
"""Own writes that are remembered until the informer shows them."""

Change = Callable[[HostEvent | None], HostEvent | None]
"""Maps the current object, None for none, to the desired one. Returning the same object changes
nothing.
"""


class HostEventWriter:
    """Writes HostEvents."""

    def __init__(self, kube: Kube, events: Informer[HostEvent]) -> None:
        self._kube, self._events = kube, events
        self._slots = asyncio.Semaphore(AT_ONCE)
        self._locks: dict[str, tuple[asyncio.Lock, int]] = {}
        self._written: OrderedDict[str, HostEvent] = OrderedDict()
        events.add_handler(self._shown)

    def known(self, name: str) -> HostEvent | None:
        """Return the newest known version; None for none."""
        return self._written.get(name) or self._events.get(name)

    async def change(self, name: str, change: Change) -> HostEvent | None:
        """Make the object as `change` says. Raises KubeError, and what `change` raises."""
        have = self.known(name)
        if (wanted := change(have)) is have:
            return have
        async with self._alone(name), self._slots:
            if (newer := self.known(name)) is not have:
                have, wanted = newer, change(newer)
            for _ in range(TRIES):
                if wanted is have or wanted is None:
                    return have
                try:
                    return await self._write(have, wanted)
                except (Conflict, NotFound):
                    have = await self._read(name)
                    wanted = change(have)
            raise Conflict(409, "Conflict", f"HostEvent {name} changed {TRIES} times meanwhile")

    async def delete(self, event: HostEvent) -> None:
        """Delete the event unless it has changed since. Raises KubeError."""
        meta = event.metadata
        path = paths.custom(PLURAL, meta.name)
        with suppress(NotFound):
            await self._kube.delete(path, uid=meta.uid, resource_version=meta.resource_version)
        self._written.pop(meta.name, None)

    async def _write(self, have: HostEvent | None, wanted: HostEvent) -> HostEvent:
        name = wanted.metadata.name
        if have is None:
            body = wanted.to_dict()
            del body["status"]
            head = await self._kube.create(paths.custom(PLURAL), body, _head)
        elif body := _patch_of(have, wanted):
            head = await self._kube.patch(paths.custom(PLURAL, name), body, decode=_head)
        else:
            head = _EventHead(
                _EventMeta(have.metadata.resource_version or "", have.metadata.generation)
            )
        meta = {"resourceVersion": head.metadata.resource_version}
        before = HostEventStatus() if have is None else have.status
        status = {**wanted.status.to_dict(), "observedGeneration": head.metadata.generation}
        if patch := difference(before.to_dict(), status):
            path = paths.custom(PLURAL, name, "status")
            body = {"metadata": meta, "status": patch}
            after = await self._kube.patch(path, body, decode=HostEvent.from_server)
        else:
            after = wanted.model_copy(
                update={"metadata": wanted.metadata.model_copy(update=head.metadata.fields())}
            )
        self._remember(after)
        return after

    async def _read(self, name: str) -> HostEvent | None:
        self._written.pop(name, None)
        try:
            event = await self._kube.get(paths.custom(PLURAL, name), HostEvent.from_server)
        except NotFound:
            return None
        self._remember(event)
        return event

    def _remember(self, event: HostEvent) -> None:
        have = self._events.get(event.metadata.name)
        if have is not None and _version(have) >= _version(event):
            return
        self._written[event.metadata.name] = event
        self._written.move_to_end(event.metadata.name)
        if len(self._written) > MOST_REMEMBERED:
            self._written.popitem(last=False)

    def _shown(self, name: str, old: HostEvent | None, new: HostEvent | None) -> None:
        ours = self._written.get(name)
        if ours is not None and (new is None or _version(new) >= _version(ours)):
            del self._written[name]

    @asynccontextmanager
    async def _alone(self, name: str) -> AsyncIterator[None]:
        lock, waiting = self._locks.get(name, (asyncio.Lock(), 0))
        self._locks[name] = (lock, waiting + 1)
        try:
            async with lock:
                yield
        finally:
            lock, waiting = self._locks[name]
            if waiting == 1:
                del self._locks[name]
            else:
                self._locks[name] = (lock, waiting - 1)


class _EventMeta(msgspec.Struct, rename="camel"):
    resource_version: str = ""
    generation: int = 0

    def fields(self) -> dict[str, Any]:
        return msgspec.structs.asdict(self)


class _EventHead(msgspec.Struct):
    """The part that is read of the response to the first of two requests; the second is read as a
    whole.
    """

    metadata: _EventMeta


_head = msgspec.json.Decoder(_EventHead).decode


def _patch_of(have: HostEvent, wanted: HostEvent) -> dict[str, Any]:
    """Return the patch for everything but the status; empty if nothing changed."""
    same = wanted.spec is have.spec
    spec = {} if same else difference(have.spec.to_dict(), wanted.spec.to_dict())
    notes = difference(have.metadata.annotations, wanted.metadata.annotations)
    if not spec and not notes:
        return {}
    meta: dict[str, Any] = {"resourceVersion": have.metadata.resource_version}
    body: dict[str, Any] = {"metadata": {**meta, "annotations": notes} if notes else meta}
    return {**body, "spec": spec} if spec else body


def difference(before: Mapping[str, Any], after: Mapping[str, Any]) -> dict[str, Any]:
    """Return the merge patch from `before` to `after`."""
    patch: dict[str, Any] = {key: None for key in before.keys() - after.keys()}
    for key, value in after.items():
        old = before.get(key)
        if isinstance(value, Mapping) and isinstance(old, Mapping):
            if inner := difference(old, value):
                patch[key] = inner
        elif value != old:
            patch[key] = value
    return patch


def _version(event: HostEvent) -> int:
    return int(event.metadata.resource_version or 0)
