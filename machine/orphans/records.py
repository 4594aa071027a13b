"""Storage of orphan records in a ConfigMap, so that a restart loses none."""

from collections.abc import Sequence

import msgspec

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.configmaps import ConfigMapStore, StoredTexts
from machine.orphans.model import OrphanRecord

NAME, KEY = "kubenode-machine-orphans", "orphans.json"
MOST = 500
"""Greatest number of records, the oldest instances first. Each has about 500 bytes; a ConfigMap
holds 1 MiB.
"""


_decode = msgspec.json.Decoder(tuple[OrphanRecord, ...]).decode


def read_records(stored: StoredTexts) -> tuple[OrphanRecord, ...]:
    """Return the records in the ConfigMap. Unreadable ones are dropped, so their time starts
    anew.
    """
    try:
        return _decode(stored.data.get(KEY, "[]"))
    except msgspec.MsgspecError:
        return ()


class OrphanStore:
    """Storage of the records. Its methods raise KubeError."""

    def __init__(self, kube: Kube) -> None:
        self._store = ConfigMapStore(kube, NAME)

    async def read(self) -> tuple[StoredTexts, tuple[OrphanRecord, ...]]:
        stored = await self._store.read()
        return stored, read_records(stored)

    async def write(self, stored: StoredTexts, records: Sequence[OrphanRecord]) -> StoredTexts:
        """Write the records if they differ."""
        text = msgspec.json.encode(records).decode()
        if stored_text(stored) == text:
            return stored
        return await self._store.write({KEY: text}, stored)


def stored_text(stored: StoredTexts) -> str:
    return stored.data.get(KEY, "[]")
