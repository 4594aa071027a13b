"""How lists and reports are printed: the same formats for every command."""

import json
from typing import Any

import pytest
from ruamel.yaml import YAML

from kubenode.cli.options import Listing, ReportFormat
from kubenode.cli.tables import show, show_report

ITEMS: list[dict[str, Any]] = [
    {"name": "a", "size": 3, "more": "x"},
    {"name": "", "size": None, "more": "y"},
]
COLUMNS, WIDE = {"NAME": "name", "SIZE": "size"}, {"MORE": "more"}


def printed(output: Listing, capsys: pytest.CaptureFixture[str], kind: str = "Machine") -> str:
    show(ITEMS, COLUMNS, WIDE, output, kind)
    return capsys.readouterr().out


def test_a_table_has_aligned_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(Listing.TABLE, capsys) == "NAME  SIZE\na     3\n-     -\n"


def test_wide_has_further_columns(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(Listing.WIDE, capsys).splitlines()[:2] == ["NAME  SIZE  MORE", "a     3     x"]


def test_json_and_yaml_carry_the_same_data(capsys: pytest.CaptureFixture[str]) -> None:
    assert json.loads(printed(Listing.JSON, capsys)) == ITEMS
    assert YAML(typ="safe").load(printed(Listing.YAML, capsys)) == ITEMS


def test_names_are_those_of_kubectl(capsys: pytest.CaptureFixture[str]) -> None:
    assert printed(Listing.NAME, capsys) == "machine.kubenode.io/a\n"
    assert printed(Listing.NAME, capsys, kind="") == "a\n"


@pytest.mark.parametrize(
    ("output", "text"),
    [
        (ReportFormat.TABLE, "for people\n"),
        (ReportFormat.WIDE, "for people\n"),
        (ReportFormat.JSON, '{\n  "a": 1\n}\n'),
        (ReportFormat.YAML, "a: 1\n"),
    ],
)
def test_a_report_is_text_or_data(
    output: ReportFormat, text: str, capsys: pytest.CaptureFixture[str]
) -> None:
    show_report({"a": 1}, output, lambda: ["for people"])
    assert capsys.readouterr().out == text
