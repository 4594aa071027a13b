"""Renders a graph as an SVG that needs no other program and no font."""

from collections.abc import Iterator
from xml.sax.saxutils import escape

from kubenode.cli.graph.layout import HEIGHT, MARGIN, Box, layout
from kubenode.cli.graph.model import Edge, Graph, GraphKind, Role

TOP = 40
STYLE = """
  .sheet { fill: #ffffff; }
  text { font: 11px ui-monospace, "DejaVu Sans Mono", Menlo, Consolas, monospace; fill: #1f1f1f; }
  .legend { font-size: 12px; fill: #444444; }
  rect { stroke-width: 1; }
  .signal rect, .fact rect { fill: #f2f2f2; stroke: #6b6b6b; }
  .probe rect { fill: #e5f6e9; stroke: #256b3a; }
  .rule rect { fill: #fff4d6; stroke: #8a6100; }
  .derived rect { fill: #e3ecff; stroke: #2b4a8b; }
  path { fill: none; stroke: #7d8597; stroke-width: 1; stroke-opacity: 0.65; }
  path.guard { stroke-dasharray: 4 3; stroke-opacity: 0.4; }
  path.infers { stroke: #2b4a8b; stroke-width: 1.6; }
  path:hover { stroke: #b00020; stroke-opacity: 1; stroke-width: 2; }
"""
ROUND = {
    GraphKind.SIGNAL: 10,
    GraphKind.BUILTIN: 10,
    GraphKind.PROBE: 4,
    GraphKind.RULE: 2,
    GraphKind.DERIVED: 10,
}


def svg(graph: Graph) -> str:
    """Render the graph with a title and a description; pointing at a part shows its note."""
    placed = layout(graph, TOP)
    width, height = max(placed.width, 420), placed.height
    rules = sum(node.kind is GraphKind.RULE for node in graph.nodes)
    title = f"{rules} rule{'' if rules == 1 else 's'} and what feeds them"
    guards = any(edge.role is Role.GUARD for edge in graph.edges)
    legend = "grey: signals and facts, green: probes, yellow: rules, blue: derived facts"
    legend += "; dashed: guards" if guards else ""
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {height:.0f}"'
        f' width="{width:.0f}" height="{height:.0f}" role="img" aria-labelledby="title desc">',
        f'<title id="title">{escape(title)}</title>',
        f'<desc id="desc">{escape(_description(graph))}</desc>',
        f"<style>{STYLE}</style>",
        f'<rect class="sheet" width="{width:.0f}" height="{height:.0f}"/>',
        f'<text class="legend" x="{MARGIN}" y="{TOP - 14}">{escape(f"{title} ({legend})")}</text>',
        *(
            _line(edge, placed.boxes[edge.source], placed.boxes[edge.target])
            for edge in graph.edges
        ),
        *(_box(box) for box in placed.boxes.values()),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def _description(graph: Graph) -> str:
    """Describe each rule and what it reads in words, for readers who do not see the drawing."""
    return " ".join(_sentences(graph)) or "No rules."


def _sentences(graph: Graph) -> Iterator[str]:
    names = {node.id: node.label for node in graph.nodes}
    for node in graph.nodes:
        if node.kind is not GraphKind.RULE:
            continue
        read = [names[e.source] for e in graph.edges if e.target == node.id]
        makes = [names[e.target] for e in graph.edges if e.source == node.id]
        infers = f" and infers {', '.join(makes)}" if makes else ""
        yield f"Rule {node.label} reads {', '.join(dict.fromkeys(read)) or 'nothing'}{infers}."


def _line(edge: Edge, source: Box, target: Box) -> str:
    x1, y1, x2, y2 = source.x + source.width, source.middle, target.x, target.middle
    bend = max((x2 - x1) / 2, 30)
    path_data = (
        f"M{x1:.1f},{y1:.1f} C{x1 + bend:.1f},{y1:.1f} {x2 - bend:.1f},{y2:.1f} {x2:.1f},{y2:.1f}"
    )
    text = escape(f"{source.node.label} -> {target.node.label} ({edge.role})")
    return f'<path class="{edge.role}" d="{path_data}"><title>{text}</title></path>'


def _box(box: Box) -> str:
    node = box.node
    note = f"{node.label}: {node.note}" if node.note else node.label
    return (
        f'<g class="{node.kind}"><title>{escape(note)}</title>'
        f'<rect x="{box.x:.1f}" y="{box.y:.1f}" width="{box.width:.1f}" height="{HEIGHT}"'
        f' rx="{ROUND[node.kind]}"/>'
        f'<text x="{box.x + 8:.1f}" y="{box.y + 14:.1f}">{escape(box.text)}</text></g>'
    )
