"""The stages of a repair, and closed jobs with the time of each stage."""

from collections.abc import Mapping
from typing import Any

from sqlalchemy import ColumnElement, Select, case, exists, func, select

from insight.store.schema import faults, repairs

SHADOWED = "Shadowed"
"""Phase of jobs that did nothing. No figure of repairs counts them."""
Stages = Mapping[str, tuple[ColumnElement[int], ColumnElement[int]]]
STAGES: Stages = {
    "detect": (repairs.c.first_true, repairs.c.job_created),
    "permit": (repairs.c.job_created, repairs.c.permit_granted),
    "drain": (repairs.c.permit_granted, repairs.c.drained),
    "act": (
        func.coalesce(repairs.c.drained, repairs.c.permit_granted, repairs.c.job_created),
        repairs.c.acted,
    ),
    "prove": (repairs.c.acted, repairs.c.verified),
}
"""Begin and end of each stage of a repair."""
HEAL = "heal"
WHOLE: Stages = {HEAL: (repairs.c.first_true, repairs.c.verified)}
"""From the fault to the proof that it is gone."""


def has_relapsed() -> ColumnElement[bool]:
    """Return whether a later job names the one of a row as its previous one."""
    return exists().where(faults.c.cluster == repairs.c.cluster, faults.c.previous == repairs.c.job)


def repair_query(condition: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    """Select closed jobs with their outcome and the milliseconds of each stage."""
    names = ("time", "cluster", "node", "node_uid", "rule", "fault_class", "phase", "rung_name")
    return select(
        *(repairs.c[name] for name in names),
        (repairs.c.rung > repairs.c.start_rung).label("escalated"),
        case((has_relapsed(), 1), else_=0).label("relapsed"),
        *((end - begin).label(stage) for stage, (begin, end) in {**STAGES, **WHOLE}.items()),
    ).where(condition, repairs.c.phase != SHADOWED)
