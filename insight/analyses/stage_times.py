"""How long each stage of a repair took, as exact percentiles by the nearest rank, from events.

Jobs in phase Shadowed are left out, because they did nothing. A job without the two instants of a
stage, or with a later one first, does not count in it.
"""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    CTE,
    ColumnElement,
    Label,
    Select,
    and_,
    case,
    func,
    literal,
    select,
    union_all,
)

from insight.analyses.repair_sums import PERCENTILES
from insight.analyses.sources import PeriodSources
from insight.store.schema import repairs
from insight.store.stages import SHADOWED, Stages


def is_counted(sources: PeriodSources) -> ColumnElement[bool]:
    return and_(sources.covers_events(repairs), repairs.c.phase != SHADOWED)


def stage_query(
    sources: PeriodSources, keys: Sequence[Label[Any]], stages: Stages
) -> Select[*tuple[Any, ...]]:
    """Select keys, stage, number of jobs and percentiles in milliseconds, grouped by keys and
    stage.
    """
    ranked = _rank(sources, keys, stages)
    group = [ranked.c[name] for name in (*(key.name for key in keys), "stage")]
    return (
        select(
            *group, func.max(ranked.c.jobs), *(_percentile(ranked, each) for each in PERCENTILES)
        )
        .group_by(*group)
        .order_by(*group)
    )


def _rank(sources: PeriodSources, keys: Sequence[Label[Any]], stages: Stages) -> CTE:
    """Rank the time of each stage of each job within its group."""
    times = union_all(
        *(
            select(*keys, literal(stage).label("stage"), (end - begin).label("time")).where(
                is_counted(sources), end >= begin
            )
            for stage, (begin, end) in stages.items()
        )
    ).cte("times")
    group = [times.c[name] for name in (*(key.name for key in keys), "stage")]
    rank = func.row_number().over(partition_by=group, order_by=times.c.time)
    jobs = func.count().over(partition_by=group)
    return select(*group, times.c.time, rank.label("rank"), jobs.label("jobs")).cte("ranked")


def _percentile(ranked: CTE, percent: int) -> ColumnElement[int]:
    rank = (ranked.c.jobs * percent + 99) // 100
    return func.max(case((ranked.c.rank == rank, ranked.c.time)))
