"""The record of who answers, where every replica reads it: an annotation of a Lease of its own.

Not the Lease that leaders are elected by: that one is renewed every other second, and a write to
it would make a renewal fail. Each write here carries the resourceVersion that was read, so that a
request of a former leader which arrives late changes nothing.
"""

from typing import Any

import msgspec

from defender.charge.step import Mode, Record
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound

NAME = "kubenode-defender-store"
ANNOTATION = "kubenode.io/store"
SECONDS = 2.0
"""For one request: what is read late is worth little."""


class _Written(msgspec.Struct, rename="camel", omit_defaults=True):
    mode: Mode
    term: int = 0
    epoch: str = ""
    replid: str = ""
    floor: int = 0


class Recorder:
    """Raises KubeError for each request that fails or whose outcome is unclear."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._kube, self._namespace = kube, namespace
        self._lease: dict[str, Any] | None = None

    async def read(self) -> Record:
        """Nothing written, or nothing that can be read, is "the holder of the lease"."""
        path = paths.lease(self._namespace, NAME)
        try:
            self._lease = await self._kube.call("GET", path, timeout=SECONDS, attempts=1)
        except NotFound:
            self._lease = None
            return Record(Mode.PERMITS)
        return _read(self._lease)

    async def write(self, record: Record) -> None:
        """Only over what was read last: Conflict or AlreadyExists if somebody wrote since."""
        text = msgspec.json.encode(
            _Written(record.mode, record.term, record.epoch, record.replid, record.floor)
        ).decode()
        lease = self._lease or _new(self._namespace)
        meta = lease["metadata"]
        meta["annotations"] = (meta.get("annotations") or {}) | {ANNOTATION: text}
        method, path = "PUT", paths.lease(self._namespace, NAME)
        if self._lease is None:
            method, path = "POST", paths.leases(self._namespace)
        self._lease = await self._kube.call(method, path, body=lease, timeout=SECONDS)

    @property
    def known(self) -> bool:
        """Whether there is a record at all."""
        return self._lease is not None


def _new(namespace: str) -> dict[str, Any]:
    return {
        "apiVersion": "coordination.k8s.io/v1",
        "kind": "Lease",
        "metadata": {"name": NAME, "namespace": namespace},
        "spec": {},
    }


def _read(lease: dict[str, Any]) -> Record:
    text = (lease["metadata"].get("annotations") or {}).get(ANNOTATION, "")
    try:
        found = msgspec.json.decode(text or "null", type=_Written)
    except ValueError:
        return Record(Mode.PERMITS)
    return Record(found.mode, found.term, found.epoch, found.replid, found.floor)
