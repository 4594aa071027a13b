"""Faults over time, one plot for each value of a property, all on the same scale."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from insight.analyses.faults import FaultProperty, FaultRow, FaultSum, count_faults, sum_faults
from insight.site.request import PageRequest
from kubenode.runtime.site.charts import bar_chart, many
from kubenode.runtime.site.plot import Plot, scale_top
from kubenode.runtime.site.window import PlotWindow

MOST_PLOTS = 8
MOST_VALUES = 200
UNKNOWN = "unknown"


def build_faults(connection: Connection, page: PageRequest) -> dict[str, Any]:
    rows = count_faults(connection, page.selection, page.by, page.interval)
    sums = sum_faults(connection, page.selection, page.by)
    total = sum(each.faults for each in sums)
    return {
        "sentence": f"{many(total, 'fault')} by {page.by.replace('-', ' ')}.",
        "plots": draw_values(rows, sums, page.window),
        "sums": sums[:MOST_VALUES],
        "more": max(0, len(sums) - MOST_VALUES),
        "properties": list(FaultProperty),
        "unknown": UNKNOWN,
    }


def draw_values(
    rows: Sequence[FaultRow], sums: Sequence[FaultSum], window: PlotWindow
) -> list[Plot]:
    """Draw the most frequent values, and the sum of all others as one more plot."""
    named = {each.value: each.value or UNKNOWN for each in sums[:MOST_PLOTS]}
    counts: Mapping[str, list[int]] = defaultdict(lambda: [0] * window.intervals)
    for row in rows:
        name = named.get(row.value, "")
        counts[name][(row.start - window.begin) // window.interval] += row.faults
    top = scale_top([most for each in counts.values() for most in each])
    plots = [_draw(n, name, counts[name], window, top) for n, name in enumerate(named.values())]
    if "" in counts:
        title = f"{len(sums) - len(named)} other values"
        plots.append(_draw(len(named), title, counts[""], window, top))
    return plots


def _draw(number: int, title: str, counts: Sequence[int], window: PlotWindow, top: float) -> Plot:
    heading = (f"value-{number}", title, f"{many(sum(counts), 'fault')}.")
    return bar_chart(heading, window, {("solid", "faults"): counts}, top)
