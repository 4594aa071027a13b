"""Storage of the coordination record, which says who answers, on the API server."""

import msgspec

from defender.replicas.charge.note import NoteStore
from defender.replicas.charge.step import CoordinationMode, CoordinationRecord
from kubenode.runtime.kube.client import Kube

NAME = "kubenode-defender-store"
ANNOTATION = "kubenode.io/store"


class _StoredRecord(msgspec.Struct, rename="camel", omit_defaults=True):
    mode: CoordinationMode
    term: int = 0
    epoch: str = ""
    replid: str = ""
    floor: int = 0


class RecordStore:
    """Storage of the record. Raises KubeError if a request fails or its outcome is unclear."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._note = NoteStore(kube, namespace, NAME, ANNOTATION)

    async def read(self) -> CoordinationRecord:
        """Return the record. A missing or unreadable one means that the holder of the lease
        answers.
        """
        text = await self._note.read()
        try:
            stored = msgspec.json.decode(text or "null", type=_StoredRecord)
        except ValueError:
            return CoordinationRecord(CoordinationMode.PERMITS)
        return CoordinationRecord(
            stored.mode, stored.term, stored.epoch, stored.replid, stored.floor
        )

    async def write(self, record: CoordinationRecord) -> None:
        """Replace the record that was read last. Raises Conflict or AlreadyExists if it has changed
        since.
        """
        written = _StoredRecord(record.mode, record.term, record.epoch, record.replid, record.floor)
        await self._note.write(msgspec.json.encode(written).decode())
