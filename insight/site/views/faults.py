"""Faults over time, one plot for each value of a property, all on the same scale."""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from sqlalchemy import Connection

from insight.analyses.faults import FaultProperty, FaultSum, ValueCount, count_values, sum_faults
from insight.site.request import PageRequest
from kubenode.runtime.site.charts import bar_chart, many
from kubenode.runtime.site.plot import Plot, scale_top
from kubenode.runtime.site.window import PlotWindow

MOST_PLOTS = 8
MOST_VALUES = 200
UNKNOWN = "unknown"


def build_faults(connection: Connection, page: PageRequest) -> dict[str, Any]:
    sums = sum_faults(connection, page.selection, page.by)
    frequent = [each.value for each in sums[:MOST_PLOTS]]
    rows = count_values(connection, page.selection, page.by, page.interval, frequent)
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
    rows: Sequence[ValueCount], sums: Sequence[FaultSum], window: PlotWindow
) -> list[Plot]:
    """Draw the most frequent values, and the sum of all others as one more plot."""
    frequent = [each.value for each in sums[:MOST_PLOTS]]
    counts: Mapping[str | None, list[int]] = defaultdict(lambda: [0] * window.intervals)
    for row in rows:
        counts[row.value][(row.start - window.begin) // window.interval] += row.faults
    top = scale_top([most for each in counts.values() for most in each])
    plots = [
        _draw(n, value or UNKNOWN, counts[value], window, top) for n, value in enumerate(frequent)
    ]
    if None in counts:
        title = f"{len(sums) - len(frequent)} other values"
        plots.append(_draw(len(frequent), title, counts[None], window, top))
    return plots


def _draw(number: int, title: str, counts: Sequence[int], window: PlotWindow, top: float) -> Plot:
    heading = (f"value-{number}", title, f"{many(sum(counts), 'fault')}.")
    return bar_chart(heading, window, {("solid", "faults"): counts}, top)
