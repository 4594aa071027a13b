"""The sums of one day, from the rows of its events. Pure."""

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from hashlib import blake2b
from typing import Any

from sqlalchemy import Table

from insight.store.histogram import HISTOGRAM_STAGES, histogram_of, lane_of, pack
from insight.store.rollup_schema import (
    failure_days,
    failure_groups,
    fault_days,
    fault_groups,
    repair_days,
    repair_groups,
    value_days,
    value_groups,
)

VALUE_COLUMNS = (
    *("fault_class", "rule", "severity", "cluster", "zone", "rack"),
    *("machine_type", "image", "kernel"),
)
"""Columns of faults that are counted by value."""
Texts = tuple[str | None, ...]
Facts = Mapping[Texts, dict[str, Any]]
"""The columns of facts by the texts of their group."""
TableRows = dict[Table, list[dict[str, Any]]]


@dataclass(slots=True)
class RepairSum:
    """Closed jobs of a group. lanes: their times, see `insight.store.histogram`."""

    jobs: int = 0
    succeeded: int = 0
    failed: int = 0
    relapsed: int = 0
    escalated: int = 0
    lanes: Counter[int] = field(default_factory=Counter)

    def add(self, job: Any) -> None:
        """Add a row of `repair_query`."""
        self.jobs += 1
        self.succeeded += job.phase == "Succeeded"
        self.failed += job.phase == "Failed"
        self.relapsed += job.relapsed
        self.escalated += bool(job.escalated)
        for number, stage in enumerate(HISTOGRAM_STAGES):
            time = getattr(job, stage)
            if time is not None and time >= 0:
                self.lanes[lane_of(number, time)] += 1

    def columns(self) -> dict[str, Any]:
        counts = ("jobs", "succeeded", "failed", "relapsed", "escalated")
        times = pack(histogram_of(self.lanes))
        return {name: getattr(self, name) for name in counts} | {"times": times}


def sum_day(day: int, faults: Iterable[Any], repairs: Iterable[Any]) -> TableRows:
    """Return the rows of all tables of roll-ups for a day.

    faults: rows of faults of this day
    repairs: rows of `repair_query` of this day
    """
    opened, closed = list(faults), list(repairs)
    rows: TableRows = {}
    for groups, facts, sums in (
        (fault_groups, fault_days, sum_faults(opened)),
        (value_groups, value_days, sum_values(opened)),
        (failure_groups, failure_days, sum_failures(closed)),
        (repair_groups, repair_days, sum_repairs(closed)),
    ):
        names = [column.name for column in groups.c][1:]
        identities = {texts: group_id(texts) for texts in sums}
        rows[groups] = [
            {"id": identity, **dict(zip(names, texts, strict=True))}
            for texts, identity in identities.items()
        ]
        rows[facts] = [
            {"group_id": identities[texts], "day": day, **columns}
            for texts, columns in sums.items()
        ]
    return rows


def group_id(texts: Texts) -> int:
    """Return the ID of a group: 64 bits of a digest of its texts."""
    digest = blake2b(repr(texts).encode(), digest_size=8).digest()
    return int.from_bytes(digest, "big", signed=True)


def sum_faults(faults: Iterable[Any]) -> Facts:
    names = [column.name for column in fault_groups.c][1:]
    sums: dict[Texts, dict[str, Any]] = {}
    for row in faults:
        texts = tuple(getattr(row, name) for name in names)
        empty = {"faults": 0, "relapses": 0, "first": row.time, "last": row.time}
        entry = sums.setdefault(texts, empty)
        entry["faults"] += 1
        entry["relapses"] += row.previous != ""
        entry["first"], entry["last"] = min(entry["first"], row.time), max(entry["last"], row.time)
    return sums


def sum_values(faults: Iterable[Any]) -> Facts:
    counts: Counter[Texts] = Counter()
    for row in faults:
        for name in VALUE_COLUMNS:
            counts[name, getattr(row, name), row.rule, row.fault_class] += 1
    return {texts: {"faults": count} for texts, count in counts.items()}


def sum_failures(repairs: Iterable[Any]) -> Facts:
    names = [column.name for column in failure_groups.c][1:]
    counts: Counter[Texts] = Counter(
        tuple(getattr(row, name) for name in names) for row in repairs if row.phase == "Failed"
    )
    return {texts: {"failed": count} for texts, count in counts.items()}


def sum_repairs(repairs: Iterable[Any]) -> Facts:
    """Sum by group within each cluster, and over all clusters, for which the cluster is None."""
    sums: dict[Texts, RepairSum] = defaultdict(RepairSum)
    for row in repairs:
        for cluster in (None, row.cluster):
            sums[cluster, row.rule, row.fault_class, row.rung_name].add(row)
    return {texts: entry.columns() for texts, entry in sums.items()}
