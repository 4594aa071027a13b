"""The page on robustness names for each fault the tests that show what becomes of it."""

from support.documented import ROOT
from support.named_tests import NAMED, missing, rows

PAGE = (ROOT / "docs/robustness.md").read_text()
FAULTS = rows(PAGE, "fault")


def test_every_test_that_is_named_is_there() -> None:
    assert missing(PAGE, ROOT) == []


def test_every_fault_names_a_test() -> None:
    assert len(FAULTS) > 20
    assert [fault for fault in FAULTS if not NAMED.search(fault)] == []
