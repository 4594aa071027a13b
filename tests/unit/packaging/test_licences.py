"""Every library that an image holds may be shipped, and each that we chose has its reason."""

import re
from email.message import Message
from pathlib import Path

import pytest
from packaging.requirements import Requirement

from images.audit import allowed, audited, licence
from images.closure import PROJECT

REASONS = (Path(__file__).parents[3] / "docs/decisions/0002-dependencies.md").read_text()


def test_every_library_of_an_image_has_a_licence_that_was_agreed_to() -> None:
    assert not [f"{name}: {words}" for name, _, words in audited() if not allowed(words)]


@pytest.mark.parametrize(
    ("words", "fine"),
    [
        ("Apache-2.0", True),
        ("Apache-2.0 AND MIT", True),
        ("EPL-2.0 OR GPL-2.0-or-later", True),
        ("GPL-3.0-only OR AGPL-3.0-only", False),
        ("MIT AND GPL-3.0-only", False),
        ("", False),
        ("as you like", False),
    ],
)
def test_one_licence_that_we_may_choose_is_enough_and_silence_is_none(
    words: str, fine: bool
) -> None:
    assert allowed(words) == fine


def test_what_a_library_says_is_read_from_where_it_says_it() -> None:
    def told(**headers: str) -> str:
        message = Message()
        for name, value in headers.items():
            message[name.replace("_", "-")] = value
        return licence(message)  # type: ignore[arg-type]  # importlib's is a Message too

    assert told(License_Expression="MIT", License="something") == "MIT"
    assert told(License="Apache License 2.0") == "Apache-2.0"
    assert (
        told(License="Copyright (c) 2021 ...", Classifier="License :: BSD License")
        == "BSD-3-Clause"
    )
    assert told(License="Proprietary") == "Proprietary"
    assert told() == ""


def test_every_library_that_we_chose_has_its_reason() -> None:
    extras: dict[str, list[str]] = PROJECT["optional-dependencies"]
    chosen = [*PROJECT["dependencies"], *(each for some in extras.values() for each in some)]
    written = set(re.findall(r"[a-z0-9][a-z0-9.-]*", REASONS.lower()))
    names = {Requirement(line).name for line in chosen}
    assert not names - written
    assert not [extra for extra in extras if f"| {extra} |" not in REASONS]
