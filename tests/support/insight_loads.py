"""Deliveries of a history as networks make them: late, repeated, reordered, failed half-way."""

import random
from collections.abc import Sequence
from datetime import timedelta

from hypothesis import strategies as st
from msgspec import structs
from sqlalchemy import Engine, delete, func, select
from support.clock import T0
from support.insight_history import history, received

from insight.store.event_store import EventStore, LoadResult
from insight.store.rows import LONGEST_TEXT
from insight.store.schema import day_of, events, faults, instant, metadata, milliseconds, repairs
from kubenode.runtime.stream.model import JobClosed, JobOpened, StreamEvent

HISTORY = list(history(incidents=40, seed=3, nodes=6, days=20))
NOW = T0 + timedelta(days=20)
Deliveries = list[list[int]]


@st.composite
def deliveries(draw: st.DrawFn) -> Deliveries:
    """Batches of indices into HISTORY: each at least once, in any order."""
    order = draw(st.permutations(range(len(HISTORY))))
    repeated = draw(st.lists(st.sampled_from(range(len(HISTORY))), max_size=40))
    every = [*order, *repeated]
    random.Random(draw(st.integers(0, 1000))).shuffle(every)
    size = draw(st.integers(1, 50))
    return [every[n : n + size] for n in range(0, len(every), size)]


def emptied(engine: Engine) -> None:
    with engine.begin() as connection:
        for table in metadata.tables.values():
            connection.execute(delete(table))


def check_any_delivery_stores_each_event_once(engine: Engine, batches: Deliveries) -> None:
    emptied(engine)
    store = EventStore(engine, timedelta(days=365))
    results = [store.load(received(HISTORY[n] for n in batch), NOW) for batch in batches]
    assert sum(result.stored for result in results) == len(HISTORY)
    assert sum(result.known for result in results) == sum(map(len, batches)) - len(HISTORY)
    check_content(engine, HISTORY)


def check_content(engine: Engine, expected: Sequence[StreamEvent]) -> None:
    """The tables hold exactly the rows of these events."""
    with engine.connect() as connection:
        stored = connection.execute(select(events.c.id, events.c.time, events.c.type)).all()
        opened = connection.execute(select(faults.c.id, faults.c.kernel, faults.c.previous)).all()
        closed = connection.execute(select(repairs.c.id, repairs.c.verified)).all()
    assert sorted(map(tuple, stored)) == sorted(
        (event.id, milliseconds(event.time), event.type) for event in expected
    )
    assert sorted(map(tuple, opened)) == sorted(
        (event.id, event.data.node.kernel, event.data.previous)
        for event in expected
        if isinstance(event.data, JobOpened)
    )
    assert dict(map(tuple, closed)) == {
        event.id: milliseconds(event.data.verified) if event.data.verified else None
        for event in expected
        if isinstance(event.data, JobClosed)
    }


def check_long_texts(engine: Engine) -> None:
    """Texts too long for an index are cut, and the event stays as it came."""
    emptied(engine)
    dice = random.Random(1)
    long = "".join(chr(dice.randrange(0x10000, 0x20000)) for _ in range(2500))
    opened = HISTORY[0]
    assert isinstance(opened.data, JobOpened)
    node = structs.replace(opened.data.node, name=long, kernel=long, rack=long)
    job = structs.replace(opened.data.job, name=long, uid=long, rule=long, fault_class=long)
    data = structs.replace(opened.data, node=node, job=job, previous=long)
    store = EventStore(engine, timedelta(days=365))
    result = store.load(received([structs.replace(opened, data=data), *HISTORY[-4:]]), NOW)
    assert (result.stored, result.shortened) == (5, 1)
    with engine.connect() as connection:
        row = connection.execute(select(faults).where(faults.c.id == opened.id)).one()
        body = connection.execute(
            select(events.c.data).where(events.c.id == opened.id)
        ).scalar_one()
    assert {row.node, row.kernel, row.rule, row.previous} == {long[:LONGEST_TEXT]}
    assert long in body
    store.rollups.roll_up(day_of(row.time))


def check_retention(engine: Engine) -> None:
    """What expired is gone, and does not come back with a late delivery."""
    emptied(engine)
    store = EventStore(engine, timedelta(days=7))
    everything = received(HISTORY)
    start = instant(day_of(milliseconds(NOW - timedelta(days=7))))
    young = [event for event in HISTORY if event.time >= start]
    assert 0 < len(young) < len(HISTORY)
    EventStore(engine, timedelta(days=365)).load(everything, NOW)
    assert store.delete_expired(NOW) == len(HISTORY) - len(young)
    assert store.delete_expired(NOW) == 0
    check_content(engine, young)
    again = store.load(everything, NOW)
    assert again == LoadResult(known=len(young), expired=len(HISTORY) - len(young))
    check_content(engine, young)


def count_events(engine: Engine) -> int:
    with engine.connect() as connection:
        return connection.execute(select(func.count()).select_from(events)).scalar_one()
