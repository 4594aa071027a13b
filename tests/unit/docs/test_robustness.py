"""The page on robustness names for each fault the tests that show what becomes of it."""

from support.documented import ROOT
from support.named_tests import NAMED, missing, rows

PAGE = (ROOT / "docs/robustness.md").read_text()
FAULTS = rows(PAGE, "fault")
FINDINGS = rows(PAGE, "finding")


def test_every_test_that_is_named_is_there() -> None:
    assert missing(PAGE, ROOT) == []


def test_every_finding_of_the_review_names_a_test() -> None:
    ids = [row.split("|")[1].strip() for row in FINDINGS]
    wanted = {*(f"F{n}" for n in range(1, 19)), *(f"S-{n}" for n in range(1, 16))}
    assert wanted <= set(ids) and sum(name.startswith("C: ") for name in ids) >= 6
    assert [row for row in FINDINGS if not NAMED.search(row)] == []


def test_every_fault_names_a_test() -> None:
    assert len(FAULTS) > 20
    assert [fault for fault in FAULTS if not NAMED.search(fault)] == []
