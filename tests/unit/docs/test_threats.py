"""The threat model names for each threat the tests that show what holds."""

from support.documented import ROOT
from support.named_tests import NAMED, missing, rows

PAGE = (ROOT / "docs/security.md").read_text()
THREATS = rows(PAGE, "threat")


def test_every_test_that_is_named_is_there() -> None:
    assert missing(PAGE, ROOT) == []
    gone = "`tests/unit/docs/test_threats.py::test_gone`, `tests/unit/gone.py`"
    assert len(missing(gone, ROOT)) == 2


def test_every_threat_names_a_test() -> None:
    assert len(THREATS) > 40
    assert [threat for threat in THREATS if not NAMED.search(threat)] == []
