"""How well and how fast rules heal: percentiles of each stage over time, and by rule and rung."""

from typing import Any

from sqlalchemy import Connection

from insight.analyses.repair_outcomes import summarize_sources
from insight.analyses.repair_sums import read_repair_sums
from insight.analyses.sources import find_sources
from insight.analyses.trend import measure_sources
from insight.export import STAGES
from insight.site.request import PageRequest
from insight.site.views.overview import draw_stage
from insight.store.stages import HEAL
from kubenode.runtime.site.charts import many

TITLES = {
    HEAL: "Heal: from the fault to the proof",
    "detect": "Detect: from the fault to the job",
    "permit": "Permit: from the job to the permit",
    "drain": "Drain: from the permit to the drained node",
    "act": "Act: until the steps end",
    "prove": "Prove: until the fault is gone",
}


def build_healing(connection: Connection, page: PageRequest) -> dict[str, Any]:
    sources = find_sources(connection, page.selection)
    sums = read_repair_sums(connection, sources, page.interval)
    rows = summarize_sources(connection, sources, sums)
    times = measure_sources(connection, sources, sums, page.interval)
    jobs, succeeded = sum(row.jobs for row in rows), sum(row.succeeded for row in rows)
    return {
        "sentence": f"{many(jobs, 'job')} closed, {succeeded} succeeded.",
        "plots": [draw_stage(name, title, times, page.window) for name, title in TITLES.items()],
        "rows": rows,
        "stages": STAGES,
    }
