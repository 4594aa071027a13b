"""Reads recordings: JSON lines of timeline entries in order of time, plain, gzip or zstandard."""

import gzip
import heapq
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from simulation.replay.moments import instant
from simulation.replay.timeline import Entry, Wrong, read_lines
from simulation.replay.world import START

STDIN = "-"
CHUNK = 1 << 18
Timed = tuple[datetime, Entry]


def opened(name: str, stack: ExitStack) -> Iterable[bytes]:
    """Open a recording and return its lines. Raises Wrong if it cannot be opened."""
    if name == STDIN:
        return sys.stdin.buffer
    path = Path(name)
    try:
        file = stack.enter_context(path.open("rb"))
    except OSError as error:
        raise Wrong(f"{name}: cannot be read: {error.strerror}; check the name") from error
    if path.suffix == ".zst":
        return unpacked(file)
    if path.suffix == ".gz":
        return cast(BinaryIO, stack.enter_context(gzip.open(file)))
    return file


def unpacked(file: BinaryIO) -> Iterator[bytes]:
    """Yield the lines of a zstandard file with any number of frames.

    Raises EOFError if the file is truncated.
    """
    rest, frame = b"", zstandard.ZstdDecompressor().decompressobj()
    begun = False
    while chunk := file.read(CHUNK):
        while chunk:
            begun = True
            rest += frame.decompress(chunk)
            chunk = frame.unused_data
            if frame.eof:
                frame, begun = zstandard.ZstdDecompressor().decompressobj(), False
        *lines, rest = rest.split(b"\n")
        yield from lines
    if begun:
        raise EOFError("is cut off")
    if rest:
        yield rest


def entries(names: Sequence[str]) -> Iterator[Timed]:
    """Yield the entries of all recordings in order of time. Raises Wrong."""
    with ExitStack() as stack:
        streams = [_ordered(read_lines(_lines(opened(n, stack), n), n), n) for n in names]
        yield from heapq.merge(*streams, key=lambda timed: timed[0])


def _lines(file: Iterable[bytes], name: str) -> Iterator[bytes]:
    try:
        yield from file
    except EOFError as error:
        raise Wrong(f"{name}: is cut off: was it still being written? Record again") from error
    except (OSError, zstandard.ZstdError) as error:
        raise Wrong(f"{name}: cannot be unpacked: {error}; is it what its name says?") from error


def _ordered(read: Iterable[Entry], name: str) -> Iterator[Timed]:
    last = None
    for number, entry in enumerate(read, start=1):
        at = instant(entry.at, START)
        if last is not None and at < last:
            raise Wrong(
                f"{name}: entry {number} is earlier than the one before it: sort the lines by `at`"
            )
        last = at
        yield at, entry
