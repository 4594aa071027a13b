"""Records Kubernetes Events about what we did and why, for users of `kubectl describe`.

Events are best effort: `emit` only puts one into a bounded queue and never fails its caller. A
repeated event about one object becomes a count on one Event. The Event's name derives from its
content, so that a restarted process continues the count instead of creating a second Event.
"""

import asyncio
import hashlib
import logging
from collections import OrderedDict
from collections.abc import Mapping
from typing import Any

from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, KubeError, NotFound
from kubenode.runtime.rate import TokenBucket

log = logging.getLogger(__name__)

PENDING = 1000
RATE, BURST = 20.0, 200.0
SAME_RATE, SAME_BURST = 1 / 60, 10.0
REMEMBERED = 4096
MESSAGE_LIMIT = 1024  # core/v1 validation: "can have at most 1024 bytes"

Regarding = Mapping[str, str]
"""Keys: kind, api_version, name, uid, and namespace if the object has one."""


class EventRecorder:
    """A Part, of the ground ring: it goes on writing while controllers end.

    Limits: PENDING events wait; RATE per second are written, BURST at once; for one object
    SAME_BURST at once and SAME_RATE per second. Events beyond are dropped and counted.
    """

    name = "event recorder"

    def __init__(self, kube: Kube, component: str, clock: Clock | None = None) -> None:
        self.component = component
        self.written = 0
        self.dropped = 0
        self._kube = kube
        self._clock = clock or SystemClock()
        self._bucket = TokenBucket(RATE, BURST, self._clock)
        self._per_object: OrderedDict[str, TokenBucket] = OrderedDict()
        self._counts: OrderedDict[str, int] = OrderedDict()
        self._pending: asyncio.Queue[dict[str, Any]] = asyncio.Queue(PENDING)
        self._trouble = ""

    async def emit(self, regarding: Regarding, type: str, reason: str, message: str) -> None:
        """Queue an event and return at once. `type`: Normal or Warning; `reason`: in CamelCase."""
        if not self._allowed(regarding):
            self.dropped += 1
            return
        try:
            self._pending.put_nowait(self._event(regarding, type, reason, message))
        except asyncio.QueueFull:
            self.dropped += 1

    def _allowed(self, regarding: Regarding) -> bool:
        key = regarding.get("uid") or regarding["name"]
        bucket = self._per_object.get(key)
        if bucket is None:
            bucket = self._per_object[key] = TokenBucket(SAME_RATE, SAME_BURST, self._clock)
            if len(self._per_object) > REMEMBERED:
                self._per_object.popitem(last=False)
        return bucket.allow()

    def _event(self, regarding: Regarding, type: str, reason: str, message: str) -> dict[str, Any]:
        now = self._clock.now().strftime("%Y-%m-%dT%H:%M:%SZ")
        # Validation of core/v1 requires namespace "default" for cluster-scoped objects.
        namespace = regarding.get("namespace") or "default"
        name = _name(self.component, regarding, type, reason, message)
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": name, "namespace": namespace},
            "involvedObject": {
                "kind": regarding["kind"],
                "apiVersion": regarding["api_version"],
                "name": regarding["name"],
                "uid": regarding.get("uid", ""),
                **({"namespace": namespace} if regarding.get("namespace") else {}),
            },
            "type": type,
            "reason": reason,
            "message": _cut(message),
            "source": {"component": self.component},
            "reportingComponent": self.component,
            "reportingInstance": self.component,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }

    async def run(self) -> None:
        """Write queued events until cancelled; then the remaining ones, for a second."""
        try:
            while True:
                event = await self._pending.get()
                await self._bucket.take()
                await self._write(event)
        except asyncio.CancelledError:
            await self._flush_pending()
            raise

    async def _flush_pending(self) -> None:
        try:
            async with asyncio.timeout(1.0):
                while not self._pending.empty():
                    await self._write(self._pending.get_nowait())
        except TimeoutError:
            self.dropped += self._pending.qsize()

    async def _write(self, event: dict[str, Any]) -> None:
        try:
            await self._create_or_count(event)
        except KubeError as error:
            self.dropped += 1
            self._note(str(error))
        else:
            self.written += 1
            self._note("")

    async def _create_or_count(self, event: dict[str, Any]) -> None:
        namespace, name = event["metadata"]["namespace"], event["metadata"]["name"]
        path = paths.event(namespace, name)
        if (count := self._counts.get(name)) is None:
            try:
                await self._kube.create(paths.events(namespace), event)
                self._remember(name, 1)
                return
            except AlreadyExists:  # written by us before a restart
                count = int((await self._kube.get(path)).get("count") or 1)
        change = {"count": count + 1, "lastTimestamp": event["lastTimestamp"]}
        try:
            await self._kube.patch(path, change)
            self._remember(name, count + 1)
        except NotFound:  # an hour old: the server deletes Events
            await self._kube.create(paths.events(namespace), event)
            self._remember(name, 1)

    def _remember(self, name: str, count: int) -> None:
        self._counts[name] = count
        self._counts.move_to_end(name)
        if len(self._counts) > REMEMBERED:
            self._counts.popitem(last=False)

    def _note(self, trouble: str) -> None:
        if trouble and trouble != self._trouble:
            log.warning("events cannot be written", extra={"why": trouble})
        self._trouble = trouble


def _name(component: str, regarding: Regarding, *content: str) -> str:
    """Derive an object name of at most 253 characters from the content of the Event."""
    parts = (component, regarding["kind"], regarding.get("uid", ""), regarding["name"], *content)
    digest = hashlib.sha256("\0".join(parts).encode()).hexdigest()[:16]
    return f"{regarding['name'][:230].rstrip('.-')}.{digest}"


def _cut(message: str) -> str:
    raw = message.encode()
    if len(raw) <= MESSAGE_LIMIT:
        return message
    return raw[: MESSAGE_LIMIT - 3].decode(errors="ignore") + "…"
