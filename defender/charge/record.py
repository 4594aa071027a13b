"""The record of who answers, where every replica reads it."""

import msgspec

from defender.charge.note import Note
from defender.charge.step import Mode, Record
from kubenode.runtime.kube.client import Kube

NAME = "kubenode-defender-store"
ANNOTATION = "kubenode.io/store"


class _Written(msgspec.Struct, rename="camel", omit_defaults=True):
    mode: Mode
    term: int = 0
    epoch: str = ""
    replid: str = ""
    floor: int = 0


class Recorder:
    """Raises KubeError for each request that fails or whose outcome is unclear."""

    def __init__(self, kube: Kube, namespace: str) -> None:
        self._note = Note(kube, namespace, NAME, ANNOTATION)

    async def read(self) -> Record:
        """Nothing written, or nothing that can be read, is "the holder of the lease"."""
        text = await self._note.read()
        try:
            found = msgspec.json.decode(text or "null", type=_Written)
        except ValueError:
            return Record(Mode.PERMITS)
        return Record(found.mode, found.term, found.epoch, found.replid, found.floor)

    async def write(self, record: Record) -> None:
        """Only over what was read last: Conflict or AlreadyExists if somebody wrote since."""
        written = _Written(record.mode, record.term, record.epoch, record.replid, record.floor)
        await self._note.write(msgspec.json.encode(written).decode())
