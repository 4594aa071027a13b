"""Computes the positions of a graph's nodes, in columns from reports to conclusions. Pure.

A node stands one column right of the last node that it reads, so every line runs to the right.
Within a column, nodes are sorted by the middle of their neighbours in several passes, which leaves
few crossings. Then each node moves towards that middle as far as there is room.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from graphlib import CycleError, TopologicalSorter

from kubenode.cli.graph.model import Graph, GraphNode

SWEEPS = 6
ROW = 26
HEIGHT = 20
GAP = 150
MARGIN = 24
LETTER = 6.7
"""Width in pixels of a wide letter of the 11 px font that the drawing uses."""
LONGEST = 46
"""Characters after which a label is cut; the title of the node has the whole text."""


@dataclass(frozen=True, slots=True)
class Box:
    node: GraphNode
    x: float
    y: float
    width: float
    text: str

    @property
    def middle(self) -> float:
        return self.y + HEIGHT / 2


@dataclass(frozen=True, slots=True)
class Layout:
    boxes: Mapping[str, Box]
    width: float
    height: float


def layout(graph: Graph, top: float = 0) -> Layout:
    """Compute the layout.

    top: room above the graph for a heading, in pixels.
    """
    columns = _ordered(graph, _columns(graph))
    boxes: dict[str, Box] = {}
    x = float(MARGIN)
    deepest = max((len(column) for column in columns), default=0)
    for column in columns:
        texts = [_cut(node.label) for node in column]
        width = max((len(text) * LETTER + 16 for text in texts), default=0)
        begin = top + MARGIN + (deepest - len(column)) * ROW / 2
        for number, (node, text) in enumerate(zip(column, texts, strict=True)):
            boxes[node.id] = Box(node, x, begin + number * ROW, width, text)
        x += width + GAP
    height = top + 2 * MARGIN + deepest * ROW
    return Layout(boxes, max(x - GAP + MARGIN, 2 * MARGIN), height)


def _cut(label: str) -> str:
    return label if len(label) <= LONGEST else f"{label[: LONGEST - 1]}…"


def _columns(graph: Graph) -> list[list[GraphNode]]:
    reads: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        reads[edge.target].append(edge.source)
    try:
        order = list(TopologicalSorter(reads).static_order())
    except CycleError:
        order = [node.id for node in graph.nodes]  # such rules do not compile; draw them anyhow
    column: dict[str, int] = {}
    for id_ in order:
        column[id_] = max((column.get(source, 0) + 1 for source in reads[id_]), default=0)
    depth = max(column.values(), default=-1) + 1
    return [[n for n in graph.nodes if column[n.id] == number] for number in range(depth)]


def _ordered(graph: Graph, columns: list[list[GraphNode]]) -> list[list[GraphNode]]:
    beside: dict[str, list[str]] = {node.id: [] for node in graph.nodes}
    for edge in graph.edges:
        beside[edge.source].append(edge.target)
        beside[edge.target].append(edge.source)
    for sweep in range(SWEEPS):
        place = _places(columns)
        numbers = range(len(columns))
        for number in numbers if sweep % 2 == 0 else reversed(numbers):
            columns[number].sort(key=lambda node: _middle(place, node, beside[node.id]))
            place |= _places([columns[number]])
    return columns


def _places(columns: Sequence[Sequence[GraphNode]]) -> dict[str, float]:
    """Return the place of each node in its column, from 0 to 1, since columns differ in length."""
    return {
        node.id: (number + 0.5) / len(column)
        for column in columns
        for number, node in enumerate(column)
    }


def _middle(place: Mapping[str, float], node: GraphNode, beside: Sequence[str]) -> float:
    if not beside:
        return place[node.id]
    return sum(place[other] for other in beside) / len(beside)
