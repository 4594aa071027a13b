"""Incidents: jobs with everything that the store knows of them.

An incident is identified by the UID of its job. The IDs of its events begin with that UID.
"""

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any, TypeVar

import msgspec
from sqlalchemy import ColumnElement, Connection, Select, and_, func, literal, select

from insight.analyses.moments import Moment, moments_of
from insight.analyses.repair_outcomes import count_if
from insight.analyses.selection import HistorySelection
from insight.analyses.sources import PeriodSources, find_sources
from insight.analyses.stage_times import is_counted
from insight.store.rollup_schema import repair_days, repair_groups
from insight.store.schema import events, faults, instant, repairs
from insight.store.stages import SHADOWED
from kubenode.runtime.stream.model import (
    TYPES,
    EventJob,
    JobClosed,
    JobOpened,
    JobTransition,
    StreamData,
)

MOST_INCIDENTS = 100
EVERYTHING = HistorySelection(instant(0), datetime(9000, 1, 1, tzinfo=UTC))
MOST_SIMILAR = 10
MOST_EVENTS = 2000
OPENED, CLOSED = "/opened", "/closed"
T = TypeVar("T")


class IncidentRow(msgspec.Struct, rename="camel", frozen=True):
    """An incident in a list. phase, rung, closed: "" and None while the job is open.

    heal_seconds: from the fault to the proof that it is gone, None without one
    """

    uid: str
    cluster: str
    job: str
    node: str
    rule: str
    fault_class: str
    opened: datetime
    closed: datetime | None
    phase: str
    rung: str
    heal_seconds: float | None


class RungRow(msgspec.Struct, rename="camel", frozen=True):
    """What the last rung of similar incidents achieved."""

    rung: str
    jobs: int
    succeeded: int


class JobReference(msgspec.Struct, frozen=True):
    """Another job of the store, "" for an UID that is not stored."""

    job: str
    uid: str = ""


class Incident(msgspec.Struct, rename="camel", frozen=True):
    """One incident.

    opened, closed: data of these events, None if the event is not stored
    previous, following: the job before a relapse, and the jobs that name this one as such
    similar: others of the same rule and class, the latest first
    rungs: outcomes of those by their last rung, without jobs in phase Shadowed
    """

    uid: str
    cluster: str
    node: str
    opened: JobOpened | None
    closed: JobClosed | None
    moments: list[Moment]
    previous: JobReference | None = None
    following: list[JobReference] = []
    similar: list[IncidentRow] = []
    rungs: list[RungRow] = []

    @property
    def job(self) -> str:
        """Return the name of the job, its UID if no event names it."""
        known = self.closed or self.opened
        return known.job.name if known is not None else self.uid


def list_incidents(
    connection: Connection, selection: HistorySelection, most: int = MOST_INCIDENTS
) -> list[IncidentRow]:
    """Return the incidents that opened in the period, the latest first."""
    query = incident_query(selection.covers(faults)).limit(most)
    return [_incident_row(row) for row in connection.execute(query)]


def find_incidents(connection: Connection, name: str) -> list[str]:
    """Return the UIDs of the jobs with this UID or name. Clusters can share a name."""
    if not name or not name.isprintable():  # PostgreSQL refuses a null character
        return []
    known = select(events.c.job_uid).where(events.c.job_uid == name).limit(1)
    if connection.execute(known).first() is not None:
        return [name]
    named = select(faults.c.id).where(faults.c.job == name).order_by(faults.c.id)
    return [_uid(event) for (event,) in connection.execute(named.limit(MOST_INCIDENTS))]


def read_incident(connection: Connection, uid: str) -> Incident | None:
    """Return the incident, None if the store has no event of it."""
    query = select(events).where(events.c.job_uid == uid).order_by(events.c.time, events.c.id)
    rows = connection.execute(query.limit(MOST_EVENTS)).all()
    if not rows:
        return None
    times = [(instant(row.time), _read(row.type, row.data)) for row in rows]
    transitions = [data for _, data in times]
    opened, closed = _first(transitions, JobOpened), _first(transitions, JobClosed)
    cluster = rows[0].cluster
    incident = Incident(uid, cluster, rows[0].node, opened, closed, moments_of(times))
    return _with_others(connection, incident, _first(transitions, JobTransition))


def incident_query(condition: ColumnElement[bool]) -> Select[*tuple[Any, ...]]:
    return (
        select(
            faults.c.id,
            *(faults.c[name] for name in ("cluster", "job", "node", "rule", "fault_class", "time")),
            repairs.c.time.label("closed"),
            repairs.c.phase,
            repairs.c.rung_name,
            (repairs.c.verified - repairs.c.first_true).label("heal"),
        )
        .outerjoin_from(faults, repairs, repairs.c.id == func.replace(faults.c.id, OPENED, CLOSED))
        .where(condition)
        .order_by(faults.c.time.desc(), faults.c.id)
    )


def _with_others(
    connection: Connection, incident: Incident, transition: JobTransition | None
) -> Incident:
    """Return the incident with its relapses and with similar ones."""
    if transition is None:
        return incident
    job, cluster = transition.job, incident.cluster
    same = and_(faults.c.rule == job.rule, faults.c.fault_class == job.fault_class)
    others = and_(same, faults.c.id != incident.uid + OPENED)
    similar = connection.execute(incident_query(others).limit(MOST_SIMILAR))
    before = incident.opened.previous if incident.opened is not None else ""
    return msgspec.structs.replace(
        incident,
        previous=_named(connection, cluster, before) if before else None,
        following=_following(connection, cluster, job.name),
        similar=[_incident_row(row) for row in similar],
        rungs=_rungs(connection, incident, job),
    )


def _named(connection: Connection, cluster: str, job: str) -> JobReference:
    query = select(faults.c.id).where(faults.c.job == job, faults.c.cluster == cluster)
    row = connection.execute(query.limit(1)).first()
    return JobReference(job, _uid(row.id) if row is not None else "")


def _following(connection: Connection, cluster: str, job: str) -> list[JobReference]:
    query = select(faults.c.job, faults.c.id).where(
        faults.c.cluster == cluster, faults.c.previous == job
    )
    rows = connection.execute(query.order_by(faults.c.time).limit(MOST_SIMILAR))
    return [JobReference(name, _uid(event)) for name, event in rows]


def _rungs(connection: Connection, incident: Incident, job: EventJob) -> list[RungRow]:
    """Return the outcomes of all jobs of the same rule and class except this one."""
    sources = find_sources(connection, EVERYTHING)
    jobs: Counter[str] = Counter()
    succeeded: Counter[str] = Counter()
    for query in (_rungs_of_events(sources, job), _rungs_of_rollups(sources, job)):
        for rung, count, healed in connection.execute(query):
            jobs[rung] += int(count)
            succeeded[rung] += int(healed)
    if (closed := incident.closed) is not None and closed.phase != SHADOWED:
        jobs[closed.rung_name] -= 1
        succeeded[closed.rung_name] -= closed.phase == "Succeeded"
    ordered = sorted((+jobs).items(), key=lambda entry: (-entry[1], entry[0]))
    return [RungRow(rung, count, succeeded[rung]) for rung, count in ordered]


def _rungs_of_events(sources: PeriodSources, job: EventJob) -> Select[*tuple[Any, ...]]:
    return (
        select(repairs.c.rung_name, func.count(), count_if(repairs.c.phase == "Succeeded"))
        .where(
            repairs.c.rule == literal(job.rule),
            repairs.c.fault_class == literal(job.fault_class),
            is_counted(sources),
        )
        .group_by(repairs.c.rung_name)
    )


def _rungs_of_rollups(sources: PeriodSources, job: EventJob) -> Select[*tuple[Any, ...]]:
    groups = repair_groups.c
    return (
        select(groups.rung_name, func.sum(repair_days.c.jobs), func.sum(repair_days.c.succeeded))
        .join_from(repair_groups, repair_days, repair_days.c.group_id == groups.id)
        .where(
            groups.cluster.is_(None),
            groups.rule == literal(job.rule),
            groups.fault_class == literal(job.fault_class),
            sources.covers_days(repair_days),
        )
        .group_by(groups.rung_name)
    )


def _incident_row(row: Any) -> IncidentRow:
    return IncidentRow(
        _uid(row.id),
        row.cluster,
        row.job,
        row.node,
        row.rule,
        row.fault_class,
        instant(row.time),
        instant(row.closed) if row.closed is not None else None,
        row.phase or "",
        row.rung_name or "",
        row.heal / 1000 if row.heal is not None else None,
    )


def _read(kind: str, data: str) -> StreamData:
    """Return the data of a stored event, whose type and data were checked when it was stored."""
    read: StreamData = msgspec.json.decode(data, type=TYPES[kind])
    return read


def _first(transitions: Sequence[StreamData], kind: type[T]) -> T | None:
    return next((each for each in transitions if isinstance(each, kind)), None)


def _uid(event: str) -> str:
    return event.removesuffix(OPENED)
