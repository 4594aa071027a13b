"""Faults of the nodes of a period, from events and roll-ups, as the other analyses count them."""

from collections.abc import Sequence
from typing import Any

from sqlalchemy import (
    ColumnElement,
    Select,
    Subquery,
    and_,
    case,
    func,
    literal,
    select,
    true,
    union_all,
)

from insight.analyses.interval import Interval
from insight.analyses.selection import HistorySelection
from insight.analyses.sources import PeriodSources
from insight.store.node_sets import IDENTITY
from insight.store.rollup_schema import fault_days, fault_groups
from insight.store.schema import faults, milliseconds

FILTERS = ("cluster", "rule", "fault_class")


def node_faults(
    sources: PeriodSources,
    columns: Sequence[str] = (),
    interval: Interval | None = None,
    uids: Sequence[str] = (),
) -> Subquery:
    """Select nodes with their faults, relapses, first and last fault, and faults before the middle.

    columns: properties of the fault or node by which the rows are split as well
    interval: splits the rows by time, as column `start`
    uids: only these nodes; none for all
    """
    names = (*IDENTITY, *columns)
    recent = _from_events(sources, names, interval, uids)
    past = _from_rollups(sources, names, interval, uids)
    return union_all(recent, past).subquery("node_faults")


def _from_events(
    sources: PeriodSources, names: Sequence[str], interval: Interval | None, uids: Sequence[str]
) -> Select[*tuple[Any, ...]]:
    known = faults.c.node_uid.in_(uids) if uids else true()
    keys = [faults.c[name] for name in names]
    early = faults.c.time < milliseconds(sources.selection.middle)
    start = _start(faults.c.time, interval)
    return (
        select(
            *keys,
            start.label("start"),
            func.count().label("faults"),
            func.sum(case((faults.c.previous != "", 1), else_=0)).label("relapses"),
            func.min(faults.c.time).label("first"),
            func.max(faults.c.time).label("last"),
            func.sum(case((early, 1), else_=0)).label("early"),
        )
        .where(sources.covers_events(faults), known)
        .group_by(*keys, *([start] if interval else []))
    )


def _from_rollups(
    sources: PeriodSources, names: Sequence[str], interval: Interval | None, uids: Sequence[str]
) -> Select[*tuple[Any, ...]]:
    """Sum by group first, which is the order of the rows, and name the groups then."""
    day, start = fault_days.c.day, _start(fault_days.c.day, interval)
    early = case((day < milliseconds(sources.selection.middle), fault_days.c.faults), else_=0)
    sums = (
        select(
            fault_days.c.group_id,
            start.label("start"),
            *(func.sum(fault_days.c[name]).label(name) for name in ("faults", "relapses")),
            func.min(fault_days.c.first).label("first"),
            func.max(fault_days.c.last).label("last"),
            func.sum(early).label("early"),
        )
        .where(sources.covers_days(fault_days), _in_groups(sources.selection, uids))
        .group_by(fault_days.c.group_id, *([start] if interval else []))
        .subquery("sums")
    )
    figures = [sums.c[name] for name in ("start", "faults", "relapses", "first", "last", "early")]
    return select(*(fault_groups.c[name] for name in names), *figures).join_from(
        sums, fault_groups, fault_groups.c.id == sums.c.group_id
    )


def _in_groups(selection: HistorySelection, uids: Sequence[str]) -> ColumnElement[bool]:
    """Return the condition on the groups, true without one."""
    conditions = selection.list_conditions(fault_groups, FILTERS)
    if uids:
        conditions.append(fault_groups.c.node_uid.in_(uids))
    if not conditions:
        return true()
    return fault_days.c.group_id.in_(select(fault_groups.c.id).where(and_(*conditions)))


def _start(time: ColumnElement[int], interval: Interval | None) -> ColumnElement[int]:
    return interval.start(time) if interval is not None else literal(0)
