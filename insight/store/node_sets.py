"""The nodes of one day by the value that their faults had. Pure.

A node is 64 bits of a digest, so that sets of nodes of many days unite fast.
"""

from array import array
from collections import defaultdict
from collections.abc import Iterable
from typing import Any

import msgspec

from insight.store.day_sums import VALUE_COLUMNS, group_id

NodeSets = dict[str, tuple[int, bytes]]
"""Number of faults, and the nodes, by value."""
IDENTITY = ("cluster", "node", "node_uid")


def node_id(cluster: str, node: str, uid: str) -> int:
    return group_id((cluster, node, uid))


def sum_node_sets(day: int, faults: Iterable[Any]) -> list[dict[str, Any]]:
    """Return the rows of `value_nodes`. faults: rows of faults of this day"""
    counts: dict[tuple[str, str], dict[str, int]] = defaultdict(lambda: defaultdict(int))
    nodes: dict[tuple[str, str, str], set[int]] = defaultdict(set)
    for row in faults:
        node = node_id(*(getattr(row, name) for name in IDENTITY))
        for name in VALUE_COLUMNS:
            value = getattr(row, name)
            counts[name, row.cluster][value] += 1
            nodes[name, row.cluster, value].add(node)
    return [
        {
            "property": name,
            "day": day,
            "cluster": cluster,
            "nodes": _pack({v: (n, nodes[name, cluster, v]) for v, n in values.items()}),
        }
        for (name, cluster), values in counts.items()
    ]


def unpack_sets(packed: bytes) -> NodeSets:
    return msgspec.msgpack.decode(packed, type=NodeSets)


def nodes_of(packed: bytes) -> "array[int]":
    """Return the nodes of one value."""
    nodes = array("q")
    nodes.frombytes(packed)
    return nodes


def _pack(values: dict[str, tuple[int, set[int]]]) -> bytes:
    sets = {value: (count, array("q", nodes).tobytes()) for value, (count, nodes) in values.items()}
    return msgspec.msgpack.encode(sets)
