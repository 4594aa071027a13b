"""How well rules heal: outcomes and times of closed jobs, by rule and by the last rung reached.

Jobs in phase Shadowed are left out, because they did nothing. A job has relapsed if a later job
names it as its previous one. A job has escalated if it ended above its first rung.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, case, func, select

from insight.analyses.repair_sums import GroupDay, StageTime, read_repair_sums, stage_times
from insight.analyses.selection import HistorySelection
from insight.analyses.sources import PeriodSources, find_sources
from insight.analyses.stage_times import is_counted, stage_query
from insight.store.schema import repairs
from insight.store.stages import STAGES, has_relapsed

OUTCOMES = ("jobs", "succeeded", "failed", "relapsed", "escalated")


class HealingRow(msgspec.Struct, rename="camel", frozen=True):
    rule: str
    rung: str
    jobs: int
    succeeded: int
    failed: int
    relapsed: int
    escalated: int
    stages: dict[str, StageTime] = {}


def summarize_healing(connection: Connection, selection: HistorySelection) -> list[HealingRow]:
    """Return the rows by rule and rung, in the order of their names."""
    sources = find_sources(connection, selection)
    return summarize_sources(connection, sources, read_repair_sums(connection, sources))


def summarize_sources(
    connection: Connection, sources: PeriodSources, sums: Sequence[GroupDay] | None
) -> list[HealingRow]:
    """Return the rows. sums: of `read_repair_sums`"""
    if sums is not None:
        return _summarize(sums)
    stages: dict[tuple[str, str], dict[str, StageTime]] = defaultdict(dict)
    keys = [repairs.c.rule.label("rule"), repairs.c.rung_name.label("rung")]
    for rule, rung, stage, jobs, p50, p95 in connection.execute(stage_query(sources, keys, STAGES)):
        stages[rule, rung][stage] = StageTime(jobs, p50 / 1000, p95 / 1000)
    rows = connection.execute(outcome_query(sources))
    counts = {(rule, rung): figures for rule, rung, *figures in rows}
    return _healing_rows(counts, stages)


def _summarize(sums: Sequence[GroupDay]) -> list[HealingRow]:
    counts: dict[tuple[str, str], list[int]] = defaultdict(lambda: [0] * len(OUTCOMES))
    for each in sums:
        entry = counts[each.rule, each.rung]
        for n, name in enumerate(OUTCOMES):
            entry[n] += getattr(each, name)
    return _healing_rows(counts, stage_times(sums, lambda each: (each.rule, each.rung)))


def _healing_rows(
    counts: Mapping[tuple[str, str], Sequence[int]],
    times: Mapping[tuple[str, str], Mapping[str, StageTime]],
) -> list[HealingRow]:
    rows = []
    for (rule, rung), (jobs, succeeded, failed, relapsed, escalated) in sorted(counts.items()):
        known = times.get((rule, rung), {})
        stages = {stage: known[stage] for stage in STAGES if stage in known}
        rows.append(HealingRow(rule, rung, jobs, succeeded, failed, relapsed, escalated, stages))
    return rows


def outcome_query(sources: PeriodSources) -> Select[str, str, int, int, int, int, int]:
    return (
        select(
            repairs.c.rule,
            repairs.c.rung_name,
            func.count(),
            count_if(repairs.c.phase == "Succeeded"),
            count_if(repairs.c.phase == "Failed"),
            count_if(has_relapsed()),
            count_if(repairs.c.rung > repairs.c.start_rung),
        )
        .where(is_counted(sources))
        .group_by(repairs.c.rule, repairs.c.rung_name)
    )


def count_if(condition: ColumnElement[bool]) -> ColumnElement[int]:
    return func.sum(case((condition, 1), else_=0))
