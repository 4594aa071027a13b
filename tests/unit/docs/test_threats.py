"""The threat model names for each threat the tests that show what holds."""

import re

from support.documented import ROOT
from support.named_tests import NAMED, missing, rows

PAGE = (ROOT / "docs/security.md").read_text()
THREATS = rows(PAGE, "threat")


def test_every_test_that_is_named_is_there() -> None:
    assert missing(PAGE, ROOT) == []
    gone = "`tests/unit/docs/test_threats.py::test_gone`, `tests/unit/gone.py`"
    assert len(missing(gone, ROOT)) == 2


def test_every_finding_of_the_review_has_a_threat() -> None:
    named = set(re.findall(r"finding (\d+[ab]?)\b", "\n".join(THREATS)))
    assert named == {"1a", "1b", *map(str, range(2, 20))}


def test_every_threat_names_a_test() -> None:
    assert len(THREATS) > 40
    assert [threat for threat in THREATS if not NAMED.search(threat)] == []
