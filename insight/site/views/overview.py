"""The first page: faults, their repair and the time to heal, worst nodes, latest incidents."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection

from insight.analyses.faults import FaultProperty, ValueCount, count_values
from insight.analyses.incidents import list_incidents
from insight.analyses.lemons import list_lemons, sum_nodes
from insight.analyses.trend import OutcomeRow, StageRow, count_outcomes, measure_stages
from insight.site.request import PageRequest
from insight.store.stages import HEAL
from kubenode.runtime.site.charts import bar_chart, many, time_chart
from kubenode.runtime.site.plot import Plot
from kubenode.runtime.site.text import seconds
from kubenode.runtime.site.window import PlotWindow

MOST_NODES = 5
MOST_LATEST = 10
PERCENT = 95


def build_overview(connection: Connection, page: PageRequest) -> dict[str, Any]:
    selection, interval, window = page.selection, page.interval, page.window
    faults = count_values(connection, selection, FaultProperty.CLASS, interval, ())
    outcomes = count_outcomes(connection, selection, interval)
    times = measure_stages(connection, selection, interval)
    total = sum(row.faults for row in faults)
    nodes = sum_nodes(connection, selection)
    return {
        "sentence": f"{many(total, 'fault')} on {many(len(nodes), 'node').lower()}.",
        "plots": [
            draw_faults(faults, window),
            draw_outcomes(outcomes, window),
            draw_stage(HEAL, "Time to heal", times, window),
        ],
        "lemons": list_lemons(connection, selection, page.least, nodes, MOST_NODES),
        "incidents": list_incidents(connection, selection, MOST_LATEST),
    }


def draw_faults(rows: Sequence[ValueCount], window: PlotWindow) -> Plot:
    counts = [0] * window.intervals
    for row in rows:
        counts[_index(window, row)] += row.faults
    heading = ("faults", "Faults", f"{many(sum(counts), 'job')} opened for a fault.")
    return bar_chart(heading, window, {("solid", "faults"): counts})


def draw_outcomes(rows: Sequence[OutcomeRow], window: PlotWindow) -> Plot:
    succeeded, failed, others = ([0] * window.intervals for _ in range(3))
    for row in rows:
        index = _index(window, row)
        succeeded[index], failed[index] = row.succeeded, row.failed
        others[index] = row.jobs - row.succeeded - row.failed
    sentence = (
        f"{many(sum(succeeded), 'job')} succeeded, {sum(failed)} failed,"
        f" {sum(others)} ended otherwise."
    )
    series = {("solid", "succeeded"): succeeded, ("outline", "failed"): failed}
    return bar_chart(("outcomes", "Outcomes", sentence), window, series)


def draw_stage(stage: str, title: str, rows: Sequence[StageRow], window: PlotWindow) -> Plot:
    """Draw the percentiles of one stage."""
    typical: list[float | None] = [None] * window.intervals
    slow: list[float | None] = [None] * window.intervals
    jobs = 0
    for row in rows:
        if row.stage == stage:
            typical[_index(window, row)], slow[_index(window, row)] = row.p50, row.p95
            jobs += row.jobs
    sentence = "No closed job has both ends of this time."
    if jobs:
        slowest = max(each for each in slow if each is not None)
        sentence = f"{many(jobs, 'job')}; the slowest interval has a p95 of {seconds(slowest)}."
    return time_chart((stage, title, sentence), window, typical, slow, PERCENT)


def _index(window: PlotWindow, row: ValueCount | OutcomeRow | StageRow) -> int:
    return (row.start - window.begin) // window.interval
