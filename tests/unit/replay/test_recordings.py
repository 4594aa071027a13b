"""Reading recordings: order, packing, and what is cut off."""

from io import BytesIO

import pytest
import zstandard
from hypothesis import given
from hypothesis import strategies as st

from simulation.replay.recordings import unpacked

LINES = [b'{"at":"%ds","node":"n%d","cordon":true}' % (n, n) for n in range(5000)]
TEXT = b"\n".join(LINES)


@pytest.mark.parametrize("frames", [1, 2, 7])
@pytest.mark.parametrize("ending", [b"", b"\n"])
def test_lines_of_any_number_of_frames(frames: int, ending: bytes) -> None:
    text = TEXT + ending
    size = len(text) // frames + 1
    parts = [text[n : n + size] for n in range(0, len(text), size)]
    packed = b"".join(zstandard.compress(part) for part in parts)
    assert list(unpacked(BytesIO(packed))) == LINES


@given(st.integers(min_value=1, max_value=len(zstandard.compress(TEXT)) - 1))
def test_what_is_cut_off_is_never_taken_for_whole(length: int) -> None:
    packed = zstandard.compress(TEXT)[:length]
    with pytest.raises((EOFError, zstandard.ZstdError)):
        list(unpacked(BytesIO(packed)))


def test_nothing_is_nothing() -> None:
    assert list(unpacked(BytesIO(b""))) == []
