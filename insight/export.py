"""Rows of analyses as cells of a table. Pure; it needs none of the packages of the extra.

A row is the JSON form of a row of an analysis.
"""

import csv
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TextIO

STAGES = ("detect", "permit", "drain", "act", "prove")
FORMULA = ("=", "+", "-", "@", "\t", "\r")

JsonRow = Mapping[str, Any]
Flatten = Callable[[JsonRow], dict[str, Any]]


def flat_healing(row: JsonRow) -> dict[str, Any]:
    cells = {name: value for name, value in row.items() if name != "stages"}
    for stage in STAGES:
        times = row["stages"].get(stage, {})
        cells |= {f"{stage}_{name}": times.get(name, "") for name in ("jobs", "p50", "p95")}
    return cells


def flat_lemon(row: JsonRow) -> dict[str, Any]:
    return {**row, "classes": class_counts(row)}


def class_counts(row: JsonRow) -> str:
    return " ".join(f"{name}={count}" for name, count in sorted(row["classes"].items()))


def write_csv(rows: Sequence[JsonRow], file: TextIO) -> None:
    """Write the rows with a line of headings, nothing without rows."""
    if not rows:
        return
    writer = csv.DictWriter(file, list(rows[0]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)


def without_formulas(row: JsonRow) -> dict[str, Any]:
    """Return the row with an apostrophe before texts that spreadsheets would evaluate.

    Nodes report some of the texts, such as their image.
    """
    return {
        name: f"'{value}" if isinstance(value, str) and value.startswith(FORMULA) else value
        for name, value in row.items()
    }
