"""The graph of a set of rules: signals, rules and derived facts, and who reads whom. Pure."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kubenode.api.v1alpha1 import Expression, NodeRemedier
from kubenode.api.v1alpha1.leaves import (
    AlertLeaf,
    AnnotationLeaf,
    ConditionLeaf,
    EventLeaf,
    FactLeaf,
    HostEventLeaf,
    LabelLeaf,
    Leaf,
    ProbeLeaf,
    TaintLeaf,
)


class GraphKind(StrEnum):
    SIGNAL = "signal"
    """A signal that detectors, hosts or people report."""
    BUILTIN = "fact"
    """A built-in fact."""
    PROBE = "probe"
    RULE = "rule"
    DERIVED = "derived"
    """A fact that a rule infers."""


class Role(StrEnum):
    EVIDENCE = "evidence"
    GUARD = "guard"
    INFERS = "infers"


@dataclass(frozen=True, slots=True)
class GraphNode:
    """A node of the graph.

    id: `KIND NAME`.
    note: the text that appears when a person points at the node.
    """

    id: str
    kind: GraphKind
    label: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Edge:
    source: str
    target: str
    role: Role


@dataclass(frozen=True, slots=True)
class Graph:
    nodes: tuple[GraphNode, ...]
    edges: tuple[Edge, ...]


def graph_of(rules: Sequence[NodeRemedier]) -> Graph:
    """Return the graph of the rules. Nodes are in the order in which rules name them, each once."""
    derived = {rule.spec.infer.fact for rule in rules if rule.spec.infer is not None}
    nodes: dict[str, GraphNode] = {}
    edges: dict[Edge, None] = {}
    for rule in rules:
        me = _rule(rule)
        nodes[me.id] = me
        for role, root in ((Role.EVIDENCE, rule.spec.when), (Role.GUARD, rule.spec.unless)):
            for source in _sources(root, derived):
                nodes.setdefault(source.id, source)
                edges[Edge(source.id, me.id, role)] = None
        if rule.spec.infer is not None:
            fact = _derived(rule.spec.infer.fact)
            nodes.setdefault(fact.id, fact)
            edges[Edge(me.id, fact.id, Role.INFERS)] = None
    return Graph(tuple(nodes.values()), tuple(edges))


def without_guards(graph: Graph) -> Graph:
    """Return the graph without guards: they feed nearly every rule and hide the evidence."""
    edges = tuple(edge for edge in graph.edges if edge.role is not Role.GUARD)
    return _only(graph, edges)


def around(graph: Graph, names: Iterable[str]) -> Graph:
    """Return what leads to these rules and what follows from them."""
    wanted = {f"{GraphKind.RULE} {name}" for name in names}
    before, after = set(wanted), set(wanted)
    for _ in graph.nodes:  # no path is longer
        sizes = len(before), len(after)
        before |= {edge.source for edge in graph.edges if edge.target in before}
        after |= {edge.target for edge in graph.edges if edge.source in after}
        if (len(before), len(after)) == sizes:
            break
    reachable = before | after
    edges = tuple(
        edge
        for edge in graph.edges
        if {edge.source, edge.target} <= before or {edge.source, edge.target} <= after
    )
    return Graph(tuple(node for node in graph.nodes if node.id in reachable), edges)


def _only(graph: Graph, edges: tuple[Edge, ...]) -> Graph:
    ends = {end for edge in edges for end in (edge.source, edge.target)}
    nodes = tuple(n for n in graph.nodes if n.id in ends or n.kind is GraphKind.RULE)
    return Graph(nodes, edges)


def _rule(rule: NodeRemedier) -> GraphNode:
    spec, name = rule.spec, rule.metadata.name
    does = f"infers {spec.infer.fact}" if spec.infer is not None else ""
    rungs = " > ".join(rung.name for rung in spec.ladder or ())
    parts = (
        f"mode {spec.mode.value}",
        f"priority {spec.priority}",
        "" if does else f"class {spec.disruption_class.value}",
        does or f"ladder {rungs}",
    )
    return GraphNode(
        f"{GraphKind.RULE} {name}", GraphKind.RULE, name, ", ".join(filter(None, parts))
    )


def _derived(fact: str) -> GraphNode:
    return GraphNode(
        f"{GraphKind.DERIVED} {fact}", GraphKind.DERIVED, fact, "a fact that rules infer"
    )


def _sources(root: Expression | None, derived: set[str]) -> Iterator[GraphNode]:
    for leaf in root.unwrap_leaves() if root is not None else ():
        yield _source(leaf, derived)


def _source(leaf: Leaf, derived: set[str]) -> GraphNode:
    match leaf:
        case FactLeaf() if leaf.name in derived:
            return _derived(leaf.name)
        case FactLeaf():
            return GraphNode(
                f"{GraphKind.BUILTIN} {leaf.name}", GraphKind.BUILTIN, leaf.name, "a built-in fact"
            )
        case ProbeLeaf():
            return GraphNode(
                f"{GraphKind.PROBE} {leaf.name}", GraphKind.PROBE, leaf.name, "asked of the host"
            )
        case ConditionLeaf():
            text = f"condition {leaf.type}"
        case EventLeaf():
            text = f"event {leaf.reason or f'~{leaf.message}'}"
        case HostEventLeaf():
            text = f"hostEvent {leaf.class_ or leaf.source or 'any'}"
        case AlertLeaf():
            text = f"alert {leaf.name}"
        case LabelLeaf():
            text = f"label {leaf.key}"
        case AnnotationLeaf():
            text = f"annotation {leaf.key}"
        case TaintLeaf():
            text = f"taint {leaf.key}"
    return GraphNode(f"{GraphKind.SIGNAL} {text}", GraphKind.SIGNAL, text)
