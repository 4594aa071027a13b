"""Recordings: JSON lines of timeline entries in order of time, plain, gzip or zstandard."""

import gzip
import heapq
import io
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import ExitStack
from datetime import datetime
from pathlib import Path
from typing import BinaryIO, cast

import zstandard

from kubenode.cli.replay.moments import instant
from kubenode.cli.replay.timeline import Entry, Wrong, read_lines
from kubenode.cli.replay.world import START

STDIN = "-"
Timed = tuple[datetime, Entry]


def opened(name: str, stack: ExitStack) -> BinaryIO:
    """The lines of a recording. Raises Wrong for what is not there or cannot be unpacked."""
    if name == STDIN:
        return sys.stdin.buffer
    path = Path(name)
    try:
        file = stack.enter_context(path.open("rb"))
    except OSError as error:
        raise Wrong(f"{name}: cannot be read: {error.strerror}; check the name") from error
    if path.suffix == ".zst":
        unpacked = zstandard.ZstdDecompressor().stream_reader(file, read_across_frames=True)
        return io.BufferedReader(cast(io.RawIOBase, unpacked), buffer_size=1 << 20)
    if path.suffix == ".gz":
        return cast(BinaryIO, stack.enter_context(gzip.open(file)))
    return file


def entries(names: Sequence[str]) -> Iterator[Timed]:
    """Of all recordings together, in order of time. Raises Wrong."""
    with ExitStack() as stack:
        streams = [_ordered(read_lines(_lines(opened(n, stack), n), n), n) for n in names]
        yield from heapq.merge(*streams, key=lambda timed: timed[0])


def _lines(file: BinaryIO, name: str) -> Iterator[bytes]:
    try:
        yield from file
    except (OSError, EOFError, zstandard.ZstdError) as error:
        raise Wrong(f"{name}: cannot be unpacked: {error}; is it whole?") from error


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
