"""Prints lists as tables for people, and as JSON and YAML for programs."""

import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

import typer
from ruamel.yaml import YAML

from kubenode.cli.options import Listing


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Render rows in aligned columns with two spaces between them; empty cells are `-`."""
    cells = [[str(cell) if cell not in ("", None) else "-" for cell in row] for row in rows]
    widths = [max(len(row[n]) for row in [list(head), *cells]) for n in range(len(head))]
    return [
        "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in [list(head), *cells]
    ]


def as_yaml(data: Any) -> str:
    yaml = YAML(typ="safe", pure=True)
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped
    text = io.StringIO()
    yaml.dump(data, text)
    return text.getvalue()


def show(
    items: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    wide: Mapping[str, str],
    output: Listing,
) -> None:
    """Print `items`.

    columns: heading to key of an item.
    wide: further columns of `-o wide`, likewise.
    """
    match output:
        case Listing.JSON:
            typer.echo(json.dumps(items, indent=2, ensure_ascii=False))
        case Listing.YAML:
            typer.echo(as_yaml([dict(item) for item in items]), nl=False)
        case Listing.TABLE | Listing.WIDE:
            shown = {**columns, **(wide if output is Listing.WIDE else {})}
            rows = [[item[key] for key in shown.values()] for item in items]
            for line in table(list(shown), rows):
                typer.echo(line)
