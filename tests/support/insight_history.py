"""Simulated histories of a fleet as events, and stores to load them into."""

import random
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime, timedelta

from sqlalchemy import Engine
from support.clock import T0

from insight.store.database import database_url, migrate, open_database
from insight.store.rows import ReceivedEvent, read_batch
from kubenode.runtime.stream.model import (
    EventJob,
    EventNode,
    JobClosed,
    JobOpened,
    StepEnded,
    StreamEvent,
    encode_batch,
    event,
)

RUNGS = ("restart", "reboot", "replace")
CLASSES = ("kernel_deadlock", "disk_slow", "gpu_lost")


def received(events: Iterable[StreamEvent]) -> list[ReceivedEvent]:
    """The events as the server reads them."""
    return read_batch(encode_batch(list(events)))


def fleet(nodes: int, dice: random.Random) -> list[EventNode]:
    return [
        EventNode(
            name=f"n{n}",
            uid=f"node-{n}",
            zone=f"zone-{n % 3}",
            rack=f"rack-{n % 5}",
            machine_type=dice.choice(("m1", "m2")),
            image=dice.choice(("Debian 12", "Debian 13")),
            kernel=dice.choice(("6.1", "6.12")),
        )
        for n in range(nodes)
    ]


def history(
    incidents: int, seed: int, nodes: int = 20, start: datetime = T0, days: float = 30
) -> Iterator[StreamEvent]:
    """Yield the events of so many jobs within so many days, in the order of their beginning."""
    dice = random.Random(seed)
    machines = fleet(nodes, dice)
    for n in range(incidents):
        began = start + timedelta(days=days * n / incidents, seconds=dice.randrange(60))
        yield from incident(n, began, dice.choice(machines), dice)


def incident(
    n: int, began: datetime, node: EventNode, dice: random.Random, cluster: str = "prod"
) -> Iterator[StreamEvent]:
    number = dice.randrange(len(CLASSES))
    job = EventJob(
        name=f"job-{n}",
        uid=f"uid-{n}",
        fault_class=CLASSES[number],
        severity="Warning",
        rule=f"rule-{number}",
        mode="Enforce",
    )

    def made(at: datetime, transition: str, data: JobOpened | StepEnded | JobClosed) -> StreamEvent:
        return event(f"{job.uid}/{transition}", cluster, at, node.name, data)

    def later(seconds: int) -> timedelta:
        return timedelta(milliseconds=dice.randrange(1000 * seconds))

    first_true = began - later(120)
    previous = f"job-{dice.randrange(n)}" if n and dice.random() < 0.2 else ""
    yield made(
        began,
        "opened",
        JobOpened(job=job, node=node, first_true=first_true, previous=previous, rungs=list(RUNGS)),
    )
    granted = began + later(60)
    drained = granted + later(300)
    acted = drained + later(200)
    rung = dice.randrange(len(RUNGS))
    step = StepEnded(
        job=job, node=node, rung=rung, index=0, step="reboot", by="Agent", state="Done"
    )
    yield made(acted, "step", step)
    if dice.random() < 0.05:
        return  # still open
    phase = dice.choice(("Succeeded",) * 6 + ("Failed", "Cancelled", "Shadowed"))
    verified = acted + later(400) if phase == "Succeeded" else None
    closed = JobClosed(
        job=job,
        node=node,
        phase=phase,
        rung=rung,
        rung_name=RUNGS[rung],
        first_true=first_true,
        job_created=began,
        permit_granted=granted,
        drained=drained if rung else None,
        acted=acted,
        verified=verified,
    )
    yield made((verified or acted) + timedelta(seconds=1), "closed", closed)


@contextmanager
def disposing(engine: Engine) -> Iterator[Engine]:
    """Close the engine's connections at the end of the block."""
    try:
        yield engine
    finally:
        engine.dispose()


def opened_store(url: str) -> Engine:
    engine = open_database(database_url(url))
    migrate(engine)
    return engine
