"""Rows as CSV: texts of nodes cannot become formulas of a spreadsheet."""

import io

import pytest

from insight.export import without_formulas, write_csv


@pytest.mark.parametrize("text", ["=HYPERLINK(1)", "+1", "-1", "@a", "\t=1"])
def test_text_that_a_spreadsheet_evaluates_gets_an_apostrophe(text: str) -> None:
    assert without_formulas({"image": text, "faults": -1}) == {"image": f"'{text}", "faults": -1}


def test_other_cells_stay() -> None:
    row = {"image": "Debian 12", "faults": 3, "heal": None}
    assert without_formulas(row) == row


def test_no_rows_write_nothing() -> None:
    file = io.StringIO()
    write_csv([], file)
    assert file.getvalue() == ""
