"""A graph as a Mermaid flowchart, which code hosts and many editors draw."""

from collections.abc import Iterator

from kubenode.cli.graph.model import Graph, GraphKind, GraphNode, Role

MOST_EDGES = 500
"""Edges that Mermaid draws by default (`maxEdges`)."""
SHAPES = {
    GraphKind.SIGNAL: ('(["', '"])'),
    GraphKind.BUILTIN: ('("', '")'),
    GraphKind.PROBE: ('[/"', '"/]'),
    GraphKind.RULE: ('["', '"]'),
    GraphKind.DERIVED: ('{{"', '"}}'),
}
ARROWS = {Role.EVIDENCE: "-->", Role.GUARD: "-.->", Role.INFERS: "==>"}


def mermaid(graph: Graph) -> str:
    return "\n".join(["flowchart LR", *_lines(graph)]) + "\n"


def _lines(graph: Graph) -> Iterator[str]:
    ids = {node.id: f"n{number}" for number, node in enumerate(graph.nodes)}
    for node in graph.nodes:
        yield f"  {ids[node.id]}{_shape(node)}:::{node.kind}"
    for edge in graph.edges:
        yield f"  {ids[edge.source]} {ARROWS[edge.role]} {ids[edge.target]}"
    yield "  classDef rule fill:#fff4d6,stroke:#8a6100,color:#1f1f1f"
    yield "  classDef derived fill:#e3ecff,stroke:#2b4a8b,color:#1f1f1f"
    yield "  classDef probe fill:#e5f6e9,stroke:#256b3a,color:#1f1f1f"


def _shape(node: GraphNode) -> str:
    begin, end = SHAPES[node.kind]
    return f"{begin}{_text(node.label)}{end}"


def _text(label: str) -> str:
    """Escape what would end the text or begin Markdown by Mermaid's own entities."""
    special = {"&": "#amp;", '"': "#quot;", "<": "#lt;", ">": "#gt;", "`": "#96;", "#": "#35;"}
    return "".join(special.get(char, char) for char in label)
