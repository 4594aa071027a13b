"""A Secret and a webhook configuration in memory, as the certificate keepers of replicas see them.

Writes carry resourceVersions as on an API server; the n-th write may kill the caller, before or
after it took effect.
"""

import base64
from collections.abc import Callable
from typing import Any

from support.clock import FakeClock

from kubenode.runtime.kube.client import MERGE_PATCH, Kube, as_dict
from kubenode.runtime.kube.errors import AlreadyExists, Conflict, NotFound
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.keeper import CertificateKeeper
from kubenode.runtime.tls.rotation import CertificateLifetimes

NOWHERE: Any = None


class Died(Exception):
    """The process died here."""


class TlsWorld(Kube):
    def __init__(self, clock: FakeClock, die_at: int = 0, applied: bool = False) -> None:
        super().__init__(NOWHERE, clock=clock)
        self.secret: dict[str, Any] | None = None
        self.bundle: bytes | None = b""
        self.writes = 0
        self.die_at, self.applied = die_at, applied
        self.on_write: Callable[[], None] = lambda: None

    def _write(self, apply: Callable[[], None]) -> None:
        self.writes += 1
        dies = self.writes == self.die_at
        if self.applied or not dies:
            apply()
        if dies:
            raise Died
        self.on_write()

    async def get(
        self, path: str, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        if "/secrets/" in path:
            if self.secret is None:
                raise NotFound(404, "NotFound", path)
            return self.secret
        if self.bundle is None:
            raise NotFound(404, "NotFound", path)
        return {"webhooks": [{"name": "one", "clientConfig": {"caBundle": _text(self.bundle)}}]}

    async def create(
        self, path: str, body: Any, decode: Callable[[bytes], Any] = as_dict, query: Any = None
    ) -> Any:
        if self.secret is not None:
            raise AlreadyExists(409, "AlreadyExists", path)
        self._write(lambda: self._store(body["data"], 1))

    async def patch(
        self,
        path: str,
        body: Any,
        content_type: str = MERGE_PATCH,
        decode: Callable[[bytes], Any] = as_dict,
        query: Any = None,
    ) -> Any:
        if "/secrets/" in path:
            assert self.secret is not None
            version = self.secret["metadata"]["resourceVersion"]
            if body["metadata"]["resourceVersion"] != version:
                raise Conflict(409, "Conflict", path)
            self._write(lambda: self._store(body["data"], int(version) + 1))
            return
        assert body[0] == {"op": "test", "path": "/webhooks/0/name", "value": "one"}
        raw = base64.b64decode(body[1]["value"])
        self._write(lambda: setattr(self, "bundle", raw))

    def _store(self, data: dict[str, str], version: int) -> None:
        self.secret = {"data": data, "metadata": {"resourceVersion": str(version)}}


def a_keeper(
    world: TlsWorld, lives: CertificateLifetimes, names: tuple[str, ...] = ("hook",)
) -> "Replica":
    return Replica(world, lives, names)


class Replica:
    """One process with its keeper; `context.pair` is what it serves with."""

    def __init__(
        self, world: TlsWorld, lives: CertificateLifetimes, names: tuple[str, ...]
    ) -> None:
        self.context = LiveContext()
        self.keeper = CertificateKeeper(
            world,
            world.clock,
            self.context,
            namespace="kubenode-system",
            secret="kubenode-remedy-webhook",
            hook="kubenode-remedy",
            names=names,
            lives=lives,
        )


def _text(raw: bytes) -> str:
    return base64.b64encode(raw).decode()
