"""Sequential reader of tar archives, one member at a time. No memory is allocated by a header's
values.

Formats: POSIX ustar and pax, GNU with long names. Source: pax in IEEE Std 1003.1; tar/src/tar.h.
"""

import bz2
import gzip
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from typing import BinaryIO, cast

from agent.host import Contraindicated

BLOCK = 512
MOST_HEADER_BYTES = 64 * 1024
"""Maximum bytes of an extended header, which holds a path or similar data."""
MOST_HEADERS = 16
"""Maximum extended headers before one member."""
PART_BYTES = 256 * 1024
COMPRESSED = {
    b"\x1f\x8b": "gzip",
    b"BZh": "bzip2",
    b"\xfd7zXZ\x00": "xz",
    b"\x28\xb5\x2f\xfd": "zstd",
}


class MemberKind(Enum):
    FILE = "file"
    FOLDER = "folder"
    LINK = "link"
    HARD_LINK = "hard link"
    SPECIAL = "special"


_KINDS = {
    b"0": MemberKind.FILE,
    b"\0": MemberKind.FILE,
    b"7": MemberKind.FILE,
    b"5": MemberKind.FOLDER,
}
_KINDS |= {b"1": MemberKind.HARD_LINK, b"2": MemberKind.LINK}


@dataclass(frozen=True, slots=True)
class ArchiveMember:
    """A member of an archive.

    size: bytes of content
    mtime: seconds since the epoch
    target: target of a link, as written in the archive
    """

    name: str
    kind: MemberKind
    mode: int = 0
    size: int = 0
    mtime: int = 0
    target: str = ""


def compression(path: Path) -> str:
    """Return gzip, bzip2, xz or zstd, by the file's first bytes; "" for another format or none."""
    with path.open("rb") as file:
        begin = file.read(8)
    return next((name for magic, name in COMPRESSED.items() if begin.startswith(magic)), "")


def opened(path: Path) -> BinaryIO:
    """Open the plain archive. Only gzip and bzip2 are decompressed: they need little memory."""
    match compression(path):
        case "gzip":
            return cast(BinaryIO, gzip.open(path))
        case "bzip2":
            return cast(BinaryIO, bz2.open(path))
        case _:
            return path.open("rb")


class Archive:
    """A plain archive. Iteration yields the members.

    Raises Contraindicated for a file that is no archive, and above `most` bytes in all.

    most: maximum bytes of all archives together
    bytes_before: bytes of earlier archives
    """

    def __init__(self, file: BinaryIO, most: int, bytes_before: int = 0) -> None:
        self._file, self._most, self._bytes_read = file, most, bytes_before
        self._remaining = self._padding = 0

    def __iter__(self) -> Iterator[ArchiveMember]:
        given: dict[str, bytes] = {}
        headers = 0
        while (header := self._header()) is not None:
            kind, size = header[156:157], _number(header[124:136])
            if kind in (b"x", b"g", b"L", b"K"):
                headers += 1
                if headers > MOST_HEADERS or size > MOST_HEADER_BYTES:
                    raise Contraindicated("the archive has a header that is too large")
                text = self._read(size)
                self._read(-size % BLOCK)
                if kind == b"x":
                    given |= _records(text)
                elif kind != b"g":
                    given["path" if kind == b"L" else "linkpath"] = text.rstrip(b"\0")
                continue
            member = _member(header, given)
            self._remaining, self._padding = member.size, -member.size % BLOCK
            yield member
            for _ in self.content():
                pass
            self._read(self._padding)
            given, headers = {}, 0

    def content(self) -> Iterator[bytes]:
        """Yield the remaining content of the last member."""
        while self._remaining:
            part = self._read(min(self._remaining, PART_BYTES))
            self._remaining -= len(part)
            yield part

    def _header(self) -> bytes | None:
        """Read a header; None at the end."""
        header = self._read(BLOCK)
        if header == bytes(BLOCK):
            return None
        wanted = _number(header[148:156])
        if wanted != sum(header[:148]) + 8 * 32 + sum(header[156:]):
            raise Contraindicated("the archive is no tar, or is damaged: a header's sum is wrong")
        return header

    def _read(self, size: int) -> bytes:
        self._bytes_read += size
        if self._bytes_read > self._most:
            raise Contraindicated(f"the archive unpacks to more than {self._most} bytes")
        try:
            data = self._file.read(size)
        except (EOFError, ValueError, zlib.error) as error:
            raise Contraindicated(f"the archive is damaged: {error}") from error
        except OSError as error:
            if error.errno is not None:
                raise
            raise Contraindicated(f"the archive is damaged: {error}") from error
        if len(data) != size:
            raise Contraindicated("the archive ends in the middle, or is no tar")
        return data


def _member(header: bytes, given: dict[str, bytes]) -> ArchiveMember:
    if any(key.startswith("GNU.sparse") for key in given):
        raise Contraindicated("the archive has a sparse file; make it with tar without --sparse")
    name, target = _text(header[0:100]), _text(header[157:257])
    if header[257:263] == b"ustar\0" and (prefix := _text(header[345:500])):
        name = prefix + b"/" + name
    name, target = given.get("path", name), given.get("linkpath", target)
    kind = _KINDS.get(header[156:157], MemberKind.SPECIAL)
    if kind is MemberKind.FILE and name.endswith(b"/"):
        kind = MemberKind.FOLDER
    size = _decimal(given["size"]) if "size" in given else _number(header[124:136])
    mtime = given.get("mtime", b"").partition(b".")[0]
    return ArchiveMember(
        name.decode(errors="surrogateescape"),
        kind,
        _number(header[100:108]) & 0o7777,
        size if kind in (MemberKind.FILE, MemberKind.SPECIAL) else 0,
        min(_decimal(mtime) if mtime.isdigit() else _number(header[136:148]), 1 << 33),
        target.decode(errors="surrogateescape"),
    )


def _text(field: bytes) -> bytes:
    return field.partition(b"\0")[0]


def _number(field: bytes) -> int:
    """Parse octal digits, or GNU's form of large numbers; a number below 0 gives 0."""
    if field[0] & 0x80:
        negative = field[0] == 0xFF
        return 0 if negative else int.from_bytes(bytes([field[0] & 0x7F]) + field[1:], "big")
    digits = field.strip(b" \0")
    if not all(byte in b"01234567" for byte in digits):
        raise Contraindicated("the archive is no tar: a header holds no number where one belongs")
    return int(digits, 8) if digits else 0


def _decimal(digits: bytes) -> int:
    if not digits.isdigit() or len(digits) > 18:
        raise Contraindicated("the archive is damaged: a pax header holds no number")
    return int(digits)


def _records(text: bytes) -> dict[str, bytes]:
    """Parse the records `LENGTH KEY=VALUE\\n` of a pax header."""
    entries: dict[str, bytes] = {}
    while text.strip(b"\0"):
        length, _, _ = text.partition(b" ")
        end = _decimal(length)
        record = text[len(length) + 1 : end]
        key, equals, value = record.partition(b"=")
        if end <= len(length) + 1 or not equals or not record.endswith(b"\n"):
            raise Contraindicated("the archive is damaged: a pax header is no list of records")
        entries[key.decode(errors="replace")] = value[:-1]
        text = text[end:]
    return entries
