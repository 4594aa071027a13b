"""The messages that the page on trouble explains are messages of the programs."""

import re

from support.documented import ROOT

PAGE = (ROOT / "docs/troubleshooting.md").read_text()
MESSAGES = re.findall(r"^\| `([^`]+)` \|", PAGE, re.MULTILINE)
PACKAGES = ("agent", "captain", "defender", "kubenode", "machine", "remedy", "simulation")
JOINT = re.compile(r"\"\s*\n\s*f?\"|'\s*\n\s*f?'")
"""Between two parts of one text."""
VALUE = re.compile(r"\{[^{}\n]*\}")


def told() -> str:
    """All sources, with each text in one piece and … for what is put into it."""
    files = (file for package in PACKAGES for file in (ROOT / package).rglob("*.py"))
    return "\n".join(VALUE.sub("…", JOINT.sub("", file.read_text())) for file in files)


def test_every_message_is_one_that_can_be_printed() -> None:
    sources = told()
    assert len(MESSAGES) > 20
    assert [message for message in MESSAGES if message not in sources] == []
