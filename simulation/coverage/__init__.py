"""`kubenode rules coverage`: shows which rule of the library serves which row of the vendor tables.

The tables are not part of this repository. Without their folder nothing is computed, and an error
says so; the page in the repository stays as it is. A folder that exists or was named and lacks a
table is a failure.
"""

import json
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Literal

import typer

import rules
from kubenode.cli.documents import UnreadableDocument, read
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.library import library
from simulation.coverage.matches import Served, serve
from simulation.coverage.page import page
from simulation.coverage.rows import NoData, Row, rows

ANSWERS = Path(rules.__file__).parent / "not-by-a-rule.yaml"
VARIABLE = "KUBENODE_SHARED_DATA"
BESIDE = Path(__file__).parents[3] / "shared" / "data"


def command(*, data: Path | None, output: Literal["table", "json", "markdown"]) -> Exit:
    """Print the rows with their rules. Return FINDING if a row is open or an answer is outdated.

    Raises Refusal if the tables cannot be read.
    """
    folder = folder_of(data)
    try:
        given = rows(folder)
        answers = answered(given)
    except (NoData, UnreadableDocument) as error:
        raise Refusal(str(error), Exit.USAGE) from error
    results = served(given, answers)
    if output == "json":
        typer.echo(json.dumps([_item(s) for s in results], indent=2))
    elif output == "markdown":
        typer.echo(page(results), nl=False)
    else:
        for s in results:
            names = ", ".join((*s.rules, *(f"({name})" for name in s.confirmed)))
            typer.echo(f"{s.row.table}\t{s.row.name}\t{names or s.because or 'OPEN'}")
    problems = wrong(results, answers)
    for line in problems:
        typer.echo(line, err=True)
    return Exit.FINDING if problems else Exit.FINE


def folder_of(data: Path | None) -> Path:
    """Return the folder of the tables: the given one, that of the environment, or one beside the
    repository.
    """
    return data or Path(os.environ.get(VARIABLE) or BESIDE)


def answered(given: Sequence[Row]) -> dict[tuple[str, str], str]:
    """Return (table, row) to the reason why no rule serves it.

    Raises UnreadableDocument if an answer names no row.
    """
    known = {(row.table, row.name) for row in given}
    reasons: dict[tuple[str, str], str] = {}
    for document in read(ANSWERS):
        for number, entry in enumerate(document.data):
            for name in entry["rows"]:
                key = entry["table"], str(name)
                if key not in known:
                    place = document.where((number, "rows"))
                    raise UnreadableDocument(
                        f"{place}: no row {name!r} in table {entry['table']!r}"
                    )
                reasons[key] = " ".join(str(entry["because"]).split())
    return reasons


def served(given: Sequence[Row], answers: Mapping[tuple[str, str], str]) -> list[Served]:
    chosen = sorted(library(), key=lambda rule: (-rule.spec.priority, rule.metadata.name))
    return [serve(row, chosen, answers.get((row.table, row.name), "")) for row in given]


def wrong(results: Sequence[Served], answers: Mapping[tuple[str, str], str]) -> list[str]:
    """List rows that no rule serves, on workers or on a control plane, and outdated answers."""
    lines = [
        f"{s.row.table}: {s.row.name}: no rule serves it: write one, or say why not in"
        f" {ANSWERS.name}"
        for s in results
        if s.open
    ]
    lines += [
        f"{s.row.table}: {s.row.name}: {', '.join(s.rules or s.confirmed)} leaves control plane"
        " nodes alone and nobody is told: add its evidence to the rule *-control-plane of its pack"
        for s in results
        if s.untold
    ]
    lines += [
        f"{s.row.table}: {s.row.name}: {', '.join(s.rules or s.confirmed)} serves it: take it out"
        f" of {ANSWERS.name}"
        for s in results
        if (s.rules or s.confirmed) and (s.row.table, s.row.name) in answers
    ]
    return lines


def _item(s: Served) -> dict[str, object]:
    return {
        "table": s.row.table,
        "row": s.row.name,
        "rules": list(s.rules),
        "confirmed": list(s.confirmed),
        "controlPlane": list(s.control_plane),
        "because": s.because,
    }
