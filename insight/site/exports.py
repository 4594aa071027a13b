"""The tables of pages as CSV files."""

import io
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import msgspec
from sqlalchemy import Connection

from insight.analyses.faults import count_faults, sum_faults
from insight.analyses.incidents import list_incidents
from insight.analyses.lemons import count_by_faults, list_lemons, sum_nodes
from insight.analyses.repair_outcomes import summarize_healing
from insight.analyses.trend import count_outcomes, measure_stages
from insight.export import Flatten, flat_healing, flat_lemon, without_formulas, write_csv
from insight.site.request import PageRequest

Rows = Sequence[Any]


class NodeCount(msgspec.Struct, frozen=True):
    """Nodes that had this number of faults."""

    faults: int
    nodes: int


@dataclass(frozen=True, slots=True)
class TableExport:
    """rows: reads the rows; flat: returns the cells of one"""

    rows: Callable[[Connection, PageRequest], Rows]
    flat: Flatten = dict

    def text(self, connection: Connection, page: PageRequest) -> str:
        rows = msgspec.to_builtins(self.rows(connection, page))
        file = io.StringIO()
        write_csv([without_formulas(self.flat(row)) for row in rows], file)
        return file.getvalue()


def _node_counts(connection: Connection, page: PageRequest) -> Rows:
    counts = sorted(count_by_faults(sum_nodes(connection, page.selection)).items())
    return [NodeCount(*each) for each in counts]


EXPORTS = {
    "faults": TableExport(lambda c, p: count_faults(c, p.selection, p.by, p.interval)),
    "fault-sums": TableExport(lambda c, p: sum_faults(c, p.selection, p.by)),
    "healing": TableExport(lambda c, p: summarize_healing(c, p.selection), flat_healing),
    "outcomes": TableExport(lambda c, p: count_outcomes(c, p.selection, p.interval)),
    "stages": TableExport(lambda c, p: measure_stages(c, p.selection, p.interval)),
    "lemons": TableExport(lambda c, p: list_lemons(c, p.selection, p.least), flat_lemon),
    "node-counts": TableExport(_node_counts),
    "incidents": TableExport(lambda c, p: list_incidents(c, p.selection)),
}
"""Tables by the name of their file."""
