"""Component records on disk: one small file each, replaced atomically, also across a power cut.

Records may hold secrets of a component's files, so only root can read the folder. Each file has a
checksum. A corrupt record is ignored, and the component is then judged by the state of the host.
"""

import logging
import zlib
from pathlib import Path
from typing import Protocol

import msgspec

from agent.components.model import ComponentRecord
from agent.disk import Disk, RealDisk, replace

log = logging.getLogger(__name__)

SUFFIX = ".json"


class Records(Protocol):
    """Stores component records. All methods raise OSError."""

    def load(self) -> dict[str, ComponentRecord]: ...

    def save(self, record: ComponentRecord) -> None:
        """Store the record; it survives a power cut on return."""
        ...

    def drop(self, name: str) -> None: ...


class MemoryRecords:
    """Records in memory, for simulated agents."""

    def __init__(self) -> None:
        self.records: dict[str, ComponentRecord] = {}

    def load(self) -> dict[str, ComponentRecord]:
        return dict(self.records)

    def save(self, record: ComponentRecord) -> None:
        self.records[record.name] = record

    def drop(self, name: str) -> None:
        self.records.pop(name, None)


_encode = msgspec.json.Encoder().encode
_decode = msgspec.json.Decoder(ComponentRecord).decode


class FileRecords:
    """Records in `folder`, which is created. Raises OSError if the folder cannot be used."""

    def __init__(self, folder: Path, disk: Disk | None = None) -> None:
        self._folder, self._disk = folder, disk or RealDisk()
        self._disk.make_folder(folder)

    def load(self) -> dict[str, ComponentRecord]:
        records = {}
        for name in self._disk.names(self._folder):
            if name.startswith("."):
                self._disk.remove(self._folder / name)  # an unfinished write
            elif name.endswith(SUFFIX) and (record := self._read(self._folder / name)):
                records[record.name] = record
        return records

    def save(self, record: ComponentRecord) -> None:
        text: bytes = _encode(record)
        replace(self._disk, self._path(record.name), b"%08x " % zlib.crc32(text) + text)

    def drop(self, name: str) -> None:
        self._disk.remove(self._path(name))
        self._disk.flush(self._folder)

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}{SUFFIX}"

    def _read(self, path: Path) -> ComponentRecord | None:
        sum_, _, text = self._disk.read(path).partition(b" ")
        try:
            if sum_ == b"%08x" % zlib.crc32(text):
                return _decode(text)
            why = "its checksum is wrong"
        except msgspec.MsgspecError as error:
            why = str(error)
        log.error("a component's record is not believed", extra={"file": str(path), "error": why})
        return None
