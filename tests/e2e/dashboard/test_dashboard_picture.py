"""`make picture` takes the picture that README.md shows, small enough for a page."""

import struct
from pathlib import Path

import pytest
from support.components import require
from support.dashboard_picture import PICTURE, SIZE, take_picture

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
MOST_BYTES = 150_000


def size_of(png: bytes) -> tuple[int, int]:
    """Width and height in pixels, from the header chunk of a PNG file (RFC 2083, section 4.1.1)."""
    assert png[:8] == b"\x89PNG\r\n\x1a\n"
    return struct.unpack(">II", png[16:24])


async def test_picture_is_taken_anew_as_it_stands_in_the_repository(tmp_path: Path) -> None:
    require("chromium")
    taken = tmp_path / "dashboard.png"
    await take_picture(taken)
    for file in (taken, PICTURE):
        assert size_of(file.read_bytes()) == SIZE, file
        assert file.stat().st_size < MOST_BYTES, file
