"""The files of a bundle while they are collected, bounded in size, each with an optional note.

The manifest names every file that is truncated or missing, with the reason, so that a reader does
not take missing data for absent objects.
"""

import io
import json
import tarfile
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

LARGEST_FILE = 8 * 2**20
"""Bytes of one file before compression."""
LARGEST = 96 * 2**20
"""Bytes of all files before compression."""
MANIFEST = "manifest.json"


@dataclass(slots=True)
class BundleContents:
    """The files of a bundle and what its manifest says of them.

    about: facts about the whole bundle, such as versions and times.
    files: file name to content.
    notes: file name to a note, such as how much of a truncated file is there.
    missing: what the bundle lacks, to the reason.
    """

    about: dict[str, Any]
    files: dict[str, bytes] = field(default_factory=dict)
    notes: dict[str, str] = field(default_factory=dict)
    missing: dict[str, str] = field(default_factory=dict)

    @property
    def size(self) -> int:
        return sum(map(len, self.files.values()))

    def add(self, name: str, text: str, note: str = "") -> None:
        """Add a file. If the text is too long, keep its end, which has the latest entries."""
        raw = text.encode(errors="replace")
        room = min(LARGEST_FILE, LARGEST - self.size)
        if room <= 0:
            self.missing[name] = f"the bundle has its {LARGEST:,} bytes already"
            return
        if len(raw) > room:
            note = f"the last {room:,} of {len(raw):,} bytes"
            raw = raw[-room:]
        self.files[name] = raw
        if note:
            self.notes[name] = note

    def add_json(self, name: str, value: Any, note: str = "") -> None:
        self.add(name, json.dumps(value, indent=1, sort_keys=True) + "\n", note)

    def lacks(self, name: str, why: str) -> None:
        self.missing[name] = why

    def manifest(self) -> dict[str, Any]:
        files = [
            {"file": name, "bytes": len(raw)}
            | ({"note": self.notes[name]} if name in self.notes else {})
            for name, raw in sorted(self.files.items())
        ]
        missing = [{"what": name, "why": why} for name, why in sorted(self.missing.items())]
        return {**self.about, "files": files, "missing": missing}

    def write(self, out: Path, at: float) -> int:
        """Write all files and the manifest as a .tar.gz, and return its size in bytes.

        The archive gets its name only once it is complete.

        at: modification time of its files, in seconds since 1970.

        Raises OSError.
        """
        top = out.name.removesuffix(".tar.gz")
        manifest = (json.dumps(self.manifest(), indent=1) + "\n").encode()
        unfinished = out.with_name(f".{out.name}.new")
        try:
            with tarfile.open(unfinished, "w:gz") as archive:
                for name, raw in {MANIFEST: manifest, **self.files}.items():
                    info = tarfile.TarInfo(f"{top}/{name}")
                    info.size, info.mtime, info.mode = len(raw), int(at), 0o600
                    archive.addfile(info, io.BytesIO(raw))
            unfinished.chmod(0o600)
            unfinished.replace(out)
        finally:
            unfinished.unlink(missing_ok=True)
        return out.stat().st_size


def fitting(
    objects: Iterable[dict[str, Any]], weight: Callable[[dict[str, Any]], Any], room: int
) -> list[dict[str, Any]]:
    """Return the objects with the greatest weight that fit into `room` bytes, heaviest first."""
    selected: list[dict[str, Any]] = []
    for obj in sorted(objects, key=weight, reverse=True):
        room -= len(json.dumps(obj)) + 64
        if room < 0:
            break
        selected.append(obj)
    return selected
