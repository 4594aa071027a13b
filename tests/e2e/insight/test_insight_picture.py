"""`make picture` takes the picture that docs/insight.md shows, small enough for a page."""

from pathlib import Path

import pytest
from support.components import require
from support.insight_picture import PICTURE, SIZE, take_picture
from support.png import size_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
MOST_BYTES = 150_000


async def test_picture_is_taken_anew_as_it_stands_in_the_repository(tmp_path: Path) -> None:
    require("chromium")
    taken = tmp_path / "insight.png"
    await take_picture(taken)
    for file in (taken, PICTURE):
        assert size_of(file.read_bytes()) == SIZE, file
        assert file.stat().st_size < MOST_BYTES, file
