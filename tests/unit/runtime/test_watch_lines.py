"""Lines of a watch, however its bytes arrive."""

import asyncio
from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.runtime.kube.listwatch import LONGEST_LINE, LineReader


class Chunks:
    """A response whose bytes arrive in these chunks."""

    def __init__(self, chunks: Iterable[bytes]) -> None:
        self._chunks = iter(chunks)

    async def read(self, n: int, /) -> bytes:
        return next(self._chunks, b"")


def read_all(chunks: Iterable[bytes]) -> list[bytes]:
    async def read() -> list[bytes]:
        reader, lines = LineReader(Chunks(chunks)), []
        while line := await reader.read():
            lines.append(line)
        return lines

    return asyncio.run(read())


@given(st.lists(st.text("ab\n").map(str.encode)))
def test_lines_are_the_same_however_their_bytes_arrive(chunks: list[bytes]) -> None:
    chunks = [chunk for chunk in chunks if chunk]
    assert read_all(chunks) == [line for line in b"".join(chunks).split(b"\n") if line]


def test_a_line_of_six_mebibytes_is_read_whole() -> None:
    """An object of 1 MiB whose characters JSON escapes."""
    line = b"x" * 6 * 2**20
    chunks = [line[at : at + 2**16] for at in range(0, len(line), 2**16)]
    assert read_all([*chunks, b"\nnext\n"]) == [line, b"next"]


def test_a_line_without_an_end_is_refused() -> None:
    chunk = b"x" * 2**20
    with pytest.raises(ValueError, match=f"more than {LONGEST_LINE} bytes"):
        read_all(chunk for _ in range(100))
