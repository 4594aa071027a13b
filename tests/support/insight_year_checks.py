"""Figures of a year computed from its events in plain Python, apart from the queries."""

import math
from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from sqlalchemy import Engine
from support.insight_checks import PROPERTIES, nearest, start_of

from insight.analyses.faults import FaultProperty, count_faults, count_values, sum_faults
from insight.analyses.interval import Interval
from insight.analyses.lemons import list_lemons, sum_nodes
from insight.analyses.repair_outcomes import summarize_healing
from insight.analyses.selection import HistorySelection
from insight.analyses.trend import count_outcomes, measure_stages
from insight.store.histogram import ERROR
from insight.store.schema import milliseconds
from kubenode.runtime.stream.model import JobClosed, JobOpened, StreamEvent, source_of

CHECKED = (FaultProperty.CLASS, FaultProperty.CLUSTER, FaultProperty.KERNEL, FaultProperty.RACK)
Node = tuple[str, str, str]


@dataclass(slots=True)
class ValueFigures:
    faults: int = 0
    early: int = 0
    nodes: set[Node] = field(default_factory=set)


@dataclass(slots=True)
class YearFigures:
    """What the events of a period amount to.

    values: by property, begin of the interval (None for the period) and value
    faults: instants of the faults of each node; relapses, classes: counts of them
    outcomes: phases by the week in which jobs closed; rungs: those by rule and last rung
    heal: seconds to heal by week
    """

    period: HistorySelection
    values: dict[tuple[FaultProperty, datetime | None, str], ValueFigures] = field(
        default_factory=lambda: defaultdict(ValueFigures)
    )
    faults: dict[Node, list[int]] = field(default_factory=lambda: defaultdict(list))
    relapses: Counter[Node] = field(default_factory=Counter)
    outcomes: dict[datetime, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    rungs: dict[tuple[str, str], Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    heal: dict[datetime, list[float]] = field(default_factory=lambda: defaultdict(list))

    def add(self, event: StreamEvent) -> None:
        data, cluster = event.data, event.source.removeprefix(source_of(""))
        if not self.period.since <= event.time < self.period.until:
            return
        if self.period.cluster not in ("", cluster):
            return
        if isinstance(data, JobOpened | JobClosed) and self.period.rule in ("", data.job.rule):
            if isinstance(data, JobOpened):
                self._open(event.time, cluster, data)
            elif data.phase != "Shadowed":
                self._close(event.time, data)

    def _open(self, at: datetime, cluster: str, data: JobOpened) -> None:
        node = cluster, data.node.name, data.node.uid
        self.faults[node].append(milliseconds(at))
        self.relapses[node] += data.previous != ""
        for by in CHECKED:
            value = cluster if by is FaultProperty.CLUSTER else PROPERTIES[by](data)
            for start in (None, start_of(at, Interval.WEEK)):
                entry = self.values[by, start, value]
                entry.faults += 1
                entry.early += at < self.period.middle
                entry.nodes.add(node)

    def _close(self, at: datetime, data: JobClosed) -> None:
        week = start_of(at, Interval.WEEK)
        self.outcomes[week][data.phase] += 1
        self.rungs[data.job.rule, data.rung_name][data.phase] += 1
        if data.verified is not None:
            self.heal[week].append((data.verified - data.first_true).total_seconds())


def check_years(
    engine: Engine, events: Iterable[StreamEvent], periods: Sequence[HistorySelection]
) -> None:
    """Every analysis of each period gives what the events amount to."""
    expected = [YearFigures(period) for period in periods]
    for event in events:
        for figures in expected:
            figures.add(event)
    for figures in expected:
        assert figures.faults and figures.heal
        _check_faults(engine, figures)
        _check_nodes(engine, figures)
        _check_repairs(engine, figures)


def year_periods(until: datetime, cluster: str) -> list[HistorySelection]:
    """Return a year, a quarter, and the year of one cluster and of one rule."""
    since = until - timedelta(days=365)
    return [
        HistorySelection(since, until),
        HistorySelection(until - timedelta(days=90), until),
        HistorySelection(since, until, cluster=cluster),
        HistorySelection(since, until, rule="disk-slow"),
    ]


def _check_faults(engine: Engine, expected: YearFigures) -> None:
    with engine.connect() as connection:
        for by in CHECKED:
            rows = count_faults(connection, expected.period, by, Interval.WEEK)
            assert {(by, row.start, row.value): (row.faults, row.nodes) for row in rows} == {
                key: (entry.faults, len(entry.nodes))
                for key, entry in expected.values.items()
                if key[0] is by and key[1] is not None
            }
            sums = sum_faults(connection, expected.period, by)
            assert {row.value: (row.faults, row.nodes, row.first_half) for row in sums} == {
                value: (entry.faults, len(entry.nodes), entry.early)
                for (name, start, value), entry in expected.values.items()
                if name is by and start is None
            }
            named = [row.value for row in sums[:2]]
            counts = count_values(connection, expected.period, by, Interval.WEEK, named)
            assert {(row.start, row.value): row.faults for row in counts if row.value} == {
                (start, value): entry.faults
                for (name, start, value), entry in expected.values.items()
                if name is by and start is not None and value in named
            }


def _check_nodes(engine: Engine, expected: YearFigures) -> None:
    with engine.connect() as connection:
        nodes = sum_nodes(connection, expected.period)
        lemons = list_lemons(connection, expected.period, 1)
    assert {n.identity: (n.faults, n.relapses, n.first, n.last) for n in nodes} == {
        node: (len(times), expected.relapses[node], min(times), max(times))
        for node, times in expected.faults.items()
    }
    assert [row.faults for row in lemons] == sorted(map(len, expected.faults.values()))[
        : -len(lemons) - 1 : -1
    ]
    assert all(sum(row.classes.values()) == row.faults for row in lemons)


def _check_repairs(engine: Engine, expected: YearFigures) -> None:
    with engine.connect() as connection:
        outcomes = count_outcomes(connection, expected.period, Interval.WEEK)
        rows = summarize_healing(connection, expected.period)
        stages = measure_stages(connection, expected.period, Interval.WEEK)
    assert {row.start: (row.jobs, row.succeeded, row.failed) for row in outcomes} == {
        week: _outcome(phases) for week, phases in expected.outcomes.items()
    }
    assert {(row.rule, row.rung): (row.jobs, row.succeeded, row.failed) for row in rows} == {
        key: _outcome(phases) for key, phases in expected.rungs.items()
    }
    measured = {row.start: row for row in stages if row.stage == "heal"}
    assert set(measured) == set(expected.heal)
    for week, times in expected.heal.items():
        for percent, value in ((0.5, measured[week].p50), (0.95, measured[week].p95)):
            exact = nearest(sorted(times), percent)
            assert math.isclose(value, exact, rel_tol=ERROR * 1.001), (week, percent)


def _outcome(phases: Counter[str]) -> tuple[int, int, int]:
    return phases.total(), phases["Succeeded"], phases["Failed"]
