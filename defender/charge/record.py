"""The record of who answers, where every replica reads it."""

import msgspec

from defender.charge.note import NoteStore
from defender.charge.step import CoordinationMode, CoordinationRecord
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
    """Raises KubeError for each request that fails or whose outcome is unclear."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._note = NoteStore(kube, namespace, NAME, ANNOTATION)

    async def read(self) -> CoordinationRecord:
        """Nothing written, or nothing that can be read, is "the holder of the lease"."""
        text = await self._note.read()
        try:
            found = msgspec.json.decode(text or "null", type=_StoredRecord)
        except ValueError:
            return CoordinationRecord(CoordinationMode.PERMITS)
        return CoordinationRecord(found.mode, found.term, found.epoch, found.replid, found.floor)

    async def write(self, record: CoordinationRecord) -> None:
        """Only over what was read last: Conflict or AlreadyExists if somebody wrote since."""
        written = _StoredRecord(record.mode, record.term, record.epoch, record.replid, record.floor)
        await self._note.write(msgspec.json.encode(written).decode())
