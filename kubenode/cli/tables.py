"""Prints lists and reports: tables for people; JSON, YAML and names for programs."""

import io
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import typer
from ruamel.yaml import YAML
from ruamel.yaml.nodes import ScalarNode
from ruamel.yaml.representer import SafeRepresenter

from kubenode.cli.jsonpath import OUTPUT_TEMPLATE, render
from kubenode.cli.options import Listing, ReportFormat
from kubenode.runtime.kube.paths import GROUP


def table(head: Sequence[str], rows: Sequence[Sequence[object]]) -> list[str]:
    """Render rows in aligned columns with two spaces between them; empty cells are `-`."""
    lines = [head, *rows]
    widths = column_widths(lines)
    return [table_line(line, widths) for line in lines]


def column_widths(lines: Sequence[Sequence[object]]) -> list[int]:
    """Return the width of each column; there is at least one line."""
    return [max(len(_cell(line[n])) for line in lines) for n in range(len(lines[0]))]


def table_line(cells: Sequence[object], widths: Sequence[int]) -> str:
    pairs = zip(cells, widths, strict=True)
    return "  ".join(_cell(cell).ljust(width) for cell, width in pairs).rstrip()


def _cell(value: object) -> str:
    return str(value) if value not in ("", None) else "-"


class TextRepresenter(SafeRepresenter):
    """Writes a text of several lines as a block, as a person writes a file within an object."""

    def represent_text(self, text: str) -> ScalarNode:
        style = "|" if "\n" in text else None
        node: ScalarNode = self.represent_scalar("tag:yaml.org,2002:str", text, style=style)
        return node


TextRepresenter.add_representer(str, TextRepresenter.represent_text)


def as_yaml(data: Any) -> str:
    """Return YAML with the same content as the JSON of `data`."""
    yaml = YAML(typ="safe", pure=True)
    yaml.Representer = TextRepresenter
    yaml.default_flow_style = False
    yaml.sort_base_mapping_type_on_output = False  # type: ignore[assignment]  # untyped
    text = io.StringIO()
    yaml.dump(json.loads(json.dumps(data)), text)  # enumerations and tuples become plain
    return text.getvalue()


def show(
    items: Sequence[Mapping[str, Any]],
    columns: Mapping[str, str],
    wide: Mapping[str, str],
    output: Listing,
    kind: str = "",
    key: str = "name",
) -> None:
    """Print `items`.

    columns: heading to key of an item.
    wide: further columns of `-o wide`, likewise.
    kind: kind of the items in our API group, for `-o name`; "" for items that are no objects.
    key: which key of an item is its name.
    """
    match output:
        case Listing.JSON | Listing.YAML:
            echo_data([dict(item) for item in items], as_json=output is Listing.JSON)
        case Listing.NAME:
            for item in items:
                if item[key]:
                    typer.echo(object_name(kind, item[key]))
        case Listing.TABLE | Listing.WIDE:
            shown = {**columns, **(wide if output is Listing.WIDE else {})}
            rows = [[item[column] for column in shown.values()] for item in items]
            for line in table(list(shown), rows):
                typer.echo(line)


def object_name(kind: str, name: str) -> str:
    """Return a name as `kubectl -o name` prints it."""
    return f"{kind.lower()}.{GROUP}/{name}" if kind else name


def show_report(
    data: Any, output: ReportFormat | Listing, text: Callable[[], Iterable[str]]
) -> None:
    """Print a report: `data` as JSON or YAML, else the lines of `text`."""
    if output in ("json", "yaml"):
        echo_data(data, as_json=output == "json")
        return
    for line in text():
        typer.echo(line)


def echo_data(data: Any, *, as_json: bool) -> None:
    template = OUTPUT_TEMPLATE.get()
    if template is not None:
        typer.echo(render(template, json.loads(json.dumps(data))))
    elif as_json:
        typer.echo(json.dumps(data, indent=2, ensure_ascii=False))
    else:
        typer.echo(as_yaml(data), nl=False)
