"""Prints the graph of rules, from files or of the library."""

import difflib
import json
from collections.abc import Sequence
from pathlib import Path

import typer

from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.graph.mermaid import MOST_EDGES, mermaid
from kubenode.cli.graph.model import Graph, GraphKind, around, graph_of, without_guards
from kubenode.cli.graph.svg import svg
from kubenode.cli.library import rules_from
from kubenode.cli.options import Drawing


def command(files: Sequence[Path], *, only: Sequence[str], guards: bool, output: Drawing) -> Exit:
    """Print the graph of the rules in `files`; without files, of the library.

    only: names of rules; the graph has what they read and what reads them. Empty for all rules.
    """
    rules = rules_from(files)
    graph = graph_of(rules)
    if output is not Drawing.JSON and not guards:
        graph = without_guards(graph)
    if only:
        _require(only, graph)
        graph = around(graph, only)
    match output:
        case Drawing.MERMAID:
            typer.echo(mermaid(graph), nl=False)
            if len(graph.edges) > MOST_EDGES:
                text = f"{len(graph.edges)} lines: Mermaid draws {MOST_EDGES}; use --rule, or svg"
                typer.echo(f"kubenode: {text}", err=True)
        case Drawing.SVG:
            typer.echo(svg(graph), nl=False)
        case Drawing.JSON:
            typer.echo(as_json(graph), nl=False)
    return Exit.FINE


def as_json(graph: Graph) -> str:
    nodes = [{"id": n.id, "kind": n.kind, "label": n.label, "note": n.note} for n in graph.nodes]
    edges = [{"from": e.source, "to": e.target, "role": e.role} for e in graph.edges]
    return json.dumps({"nodes": nodes, "edges": edges}, indent=2, ensure_ascii=False) + "\n"


def _require(names: Sequence[str], graph: Graph) -> None:
    there = [node.label for node in graph.nodes if node.kind is GraphKind.RULE]
    for name in names:
        if name not in there:
            near = difflib.get_close_matches(name, there, n=1)
            hint = f"did you mean {near[0]}?" if near else "`kubenode rules list` lists those there"
            raise Refusal(f"rule {name!r} is not among them: {hint}", Exit.USAGE)
