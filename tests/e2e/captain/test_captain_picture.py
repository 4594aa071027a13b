"""`make picture` takes the pictures that docs/releases.md shows, small enough for a page."""

from pathlib import Path

import pytest
from support.captain_picture import FOLDER, PAGES, SIZE, take_pictures
from support.components import require
from support.png import size_of

pytestmark = [pytest.mark.e2e, pytest.mark.timeout(180)]
MOST_BYTES = 150_000


async def test_pictures_are_taken_anew_as_they_stand_in_the_repository(tmp_path: Path) -> None:
    require("chromium")
    await take_pictures(tmp_path)
    for name in PAGES:
        for file in (tmp_path / name, FOLDER / name):
            assert size_of(file.read_bytes()) == SIZE, file
            assert file.stat().st_size < MOST_BYTES, file
