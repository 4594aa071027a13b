"""The rows of an event. Pure: each table gets at most one row, made from this event alone."""

from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy import Table

from insight.store.schema import events, faults, milliseconds, repairs
from kubenode.runtime.stream.model import (
    TYPES,
    JobClosed,
    JobOpened,
    JobTransition,
    StreamData,
    source_of,
)

MOST_ID = 1024
"""Bytes of an ID, a source or a subject."""
LONGEST_TEXT = 253
"""Characters of other columns: that of a name in Kubernetes. Indexes of PostgreSQL refuse rows of
more than 2,704 bytes.
"""
UNBOUNDED = ("id", "data")


class ReceivedEvent(msgspec.Struct):
    """A CloudEvent before its data is read."""

    id: str
    source: str
    type: str
    time: datetime
    data: msgspec.Raw
    specversion: str = ""
    subject: str = ""


class MalformedEvent(ValueError):
    """An event that does not fit the schema of its type."""


TableRow = tuple[Table, dict[str, Any]]


def read_batch(body: bytes) -> list[ReceivedEvent]:
    """Read a JSON batch of CloudEvents. Raises MalformedEvent."""
    try:
        return msgspec.json.decode(body, type=list[ReceivedEvent])
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedEvent(f"body: is no batch of CloudEvents: {error}") from None


def rows_of(event: ReceivedEvent) -> list[TableRow]:
    """Return the rows of an event, none for a type of a later version. Raises MalformedEvent."""
    kind = TYPES.get(event.type)
    if kind is None:
        return []
    data = _read_data(event, kind)
    _check_envelope(event)
    cluster = event.source.removeprefix(source_of(""))
    rows = [(events, _event_row(event, cluster, data))]
    if isinstance(data, JobOpened):
        rows.append((faults, _fault_row(event, cluster, data)))
    if isinstance(data, JobClosed):
        rows.append((repairs, _repair_row(event, cluster, data)))
    for _, row in rows:
        _check_texts(event, row)
    return rows


def _read_data(event: ReceivedEvent, kind: type[StreamData]) -> StreamData:
    try:
        return msgspec.json.decode(event.data, type=kind)
    except (msgspec.DecodeError, RecursionError, UnicodeDecodeError) as error:
        raise MalformedEvent(f"event {event.id[:200]!r} of type {event.type}: {error}") from None


def _check_envelope(event: ReceivedEvent) -> None:
    if event.time.tzinfo is None:
        raise MalformedEvent(f"event {event.id[:200]!r}: time has no time zone; append Z")
    for name in ("id", "source", "subject"):
        value: str = getattr(event, name)
        if len(value.encode()) > MOST_ID:
            raise MalformedEvent(f"event {event.id[:200]!r}: {name} is longer than {MOST_ID} bytes")


def shorten(row: dict[str, Any]) -> bool:
    """Cut texts that are too long for an index, in place. Return whether there were any."""
    texts = {
        column: value[:LONGEST_TEXT]
        for column, value in row.items()
        if isinstance(value, str) and len(value) > LONGEST_TEXT and column not in UNBOUNDED
    }
    row.update(texts)
    return bool(texts)


def _check_texts(event: ReceivedEvent, row: dict[str, Any]) -> None:
    """Refuse what PostgreSQL cannot store."""
    for column, value in row.items():
        if isinstance(value, str) and "\x00" in value:
            raise MalformedEvent(f"event {event.id[:200]!r}: {column} contains a null character")


def _event_row(event: ReceivedEvent, cluster: str, data: StreamData) -> dict[str, Any]:
    return {
        "id": event.id,
        "time": milliseconds(event.time),
        "cluster": cluster,
        "type": event.type,
        "node": data.node.name,
        "job_uid": data.job.uid if isinstance(data, JobTransition) else data.holder_uid,
        "data": bytes(event.data).decode(),
    }


def _shared(event: ReceivedEvent, cluster: str, data: JobTransition) -> dict[str, Any]:
    """Return the columns that faults and repairs share."""
    return {
        "id": event.id,
        "time": milliseconds(event.time),
        "cluster": cluster,
        "job": data.job.name,
        "node": data.node.name,
        "node_uid": data.node.uid,
        "rule": data.job.rule,
        "fault_class": data.job.fault_class,
    }


def _fault_row(event: ReceivedEvent, cluster: str, data: JobOpened) -> dict[str, Any]:
    return _shared(event, cluster, data) | {
        "zone": data.node.zone,
        "rack": data.node.rack,
        "machine_type": data.node.machine_type,
        "image": data.node.image,
        "kernel": data.node.kernel,
        "severity": data.job.severity,
        "mode": data.job.mode,
        "previous": data.previous,
    }


def _repair_row(event: ReceivedEvent, cluster: str, data: JobClosed) -> dict[str, Any]:
    return _shared(event, cluster, data) | {
        "phase": data.phase,
        "reason": data.reason,
        "start_rung": data.start_rung,
        "rung": data.rung,
        "rung_name": data.rung_name,
        "first_true": milliseconds(data.first_true),
        "job_created": _maybe(data.job_created),
        "permit_granted": _maybe(data.permit_granted),
        "drained": _maybe(data.drained),
        "acted": _maybe(data.acted),
        "verified": _maybe(data.verified),
        "hold_seconds": data.hold_seconds,
        "pods_unavailable_seconds": data.pods_unavailable_seconds,
    }


def _maybe(at: datetime | None) -> int | None:
    return None if at is None else milliseconds(at)
