"""What an image is said to hold."""

import json
from datetime import UTC, datetime

from images.closure import lists, needs
from images.sbom import bom

SOME_TIME = datetime(2026, 11, 1, tzinfo=UTC)


def test_it_names_what_the_image_holds_with_licence_and_needs_and_nothing_else() -> None:
    made = json.loads(bom("agent", needs()["agent"], SOME_TIME))
    held = {path.stem: text.split() for path, text in lists().items()}["agent"]
    assert [part["name"] for part in made["components"]] == held
    assert all(part["licenses"] and part["purl"] for part in made["components"])
    below = {
        each["ref"].partition("==")[0]: each.get("dependsOn", []) for each in made["dependencies"]
    }
    assert any(name.startswith("yarl==") for name in below["aiohttp"])
    assert {name.partition("==")[0] for name in below["kubenode"]} == set(needs()["agent"])


def test_the_same_lock_gives_the_same_bytes_and_other_contents_another_number() -> None:
    first = bom("agent", needs()["agent"], SOME_TIME)
    assert bom("agent", needs()["agent"], SOME_TIME) == first
    less = json.loads(bom("agent", needs()["agent"][1:], SOME_TIME))
    assert less["serialNumber"] != json.loads(first)["serialNumber"]
