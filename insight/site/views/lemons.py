"""Nodes that fail again and again, next to how often nodes fail at all."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import Connection

from insight.analyses.lemons import MOST_NODES, count_by_faults, list_lemons, sum_nodes
from insight.site.request import PageRequest
from kubenode.runtime.site import plot
from kubenode.runtime.site.charts import many, whole
from kubenode.runtime.site.plot import BOTTOM, Plot, PlotLabel

LAST = 10
"""Number of faults from which on nodes are counted together."""


def build_lemons(connection: Connection, page: PageRequest) -> dict[str, Any]:
    nodes = sum_nodes(connection, page.selection)
    rows = list_lemons(connection, page.selection, page.least, nodes)
    noun = "node" if len(rows) == 1 else "nodes"
    return {
        "sentence": f"{len(rows) or 'No'} {noun} with {page.least} or more faults.",
        "plots": [draw_distribution(count_by_faults(nodes))],
        "lemons": rows,
        "most": MOST_NODES if len(rows) == MOST_NODES else 0,
    }


def draw_distribution(nodes: Mapping[int, int]) -> Plot:
    """Draw how many nodes had each number of faults."""
    counts = [nodes.get(number, 0) for number in range(1, LAST)]
    counts.append(sum(count for number, count in nodes.items() if number >= LAST))
    names = [*map(str, range(1, LAST)), f"{LAST} or more"]
    top = plot.scale_top(counts)
    labels = [
        PlotLabel(plot.middle(n, LAST), BOTTOM + 13, name.removesuffix(" or more"))
        for n, name in enumerate(names)
    ]
    return Plot(
        "nodes",
        "Nodes by their number of faults",
        f"{many(sum(counts), 'node')} had a fault; the last bar is {LAST} or more faults.",
        (plot.frame(), *plot.stacked_bars([("solid", counts)], top)),
        (*plot.scale_labels(top, whole), *labels),
        (("solid", "nodes"),),
        ("Faults", "Nodes"),
        tuple((name, str(count)) for name, count in zip(names, counts, strict=True)),
    )
