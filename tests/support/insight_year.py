"""A simulated year of a large fleet, as the events that its clusters send.

Clusters have racks of 20 nodes and three zones. Kernels are released cluster by cluster, a tenth
of the nodes is replaced during the year, and one node in a hundred fails ten times as often. A job
has two events: it opens and it closes.
"""

import random
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta
from itertools import accumulate

from support.clock import T0

from kubenode.runtime.stream.model import (
    EventJob,
    EventNode,
    JobClosed,
    JobOpened,
    StreamData,
    StreamEvent,
    event,
)

RULES = {
    "kubelet-problem": ("kubelet_unhealthy", "Critical", ("restart", "reboot")),
    "pleg-unhealthy": ("pleg_unhealthy", "Critical", ("restart-runtime", "reboot", "replace")),
    "ntp-problem": ("time_sync", "Warning", ("restart",)),
    "readonly-filesystem": ("fs_readonly", "Critical", ("isolate", "replace")),
    "kernel-deadlock": ("kernel_deadlock", "Critical", ("isolate", "reboot")),
    "disk-slow": ("disk_slow", "Warning", ("isolate", "replace")),
    "disk-full": ("disk_full", "Warning", ("clean", "isolate")),
    "gpu-lost": ("gpu_lost", "Critical", ("reset", "reboot", "replace")),
    "nic-flapping": ("nic_flapping", "Warning", ("restart", "replace")),
    "memory-errors": ("memory_errors", "Critical", ("isolate", "replace")),
    "oom-loop": ("oom_loop", "Warning", ("restart", "reboot")),
    "host-hung": ("host_hung", "Critical", ("reboot", "replace")),
}
"""Class, severity and rungs by rule."""
RULE_WEIGHTS = tuple(accumulate((20, 12, 15, 5, 10, 6, 9, 4, 6, 3, 6, 4)))
PHASES = ("Succeeded",) * 16 + ("Failed", "Failed", "Cancelled", "Shadowed")
RACK_NODES = 20
RELEASE_DAYS = 60
LEMON_WEIGHT = 10
OPEN_SHARE = 0.01
"""Share of jobs that never close."""
RELAPSE_SHARE = 0.1


@dataclass(frozen=True, slots=True)
class FleetNode:
    """A node and its replacement. replaced: the day of the year from which on it has a new UID."""

    cluster: int
    name: str
    uids: tuple[str, str]
    zone: str
    rack: str
    machine_type: str
    image: str
    replaced: float

    def at_day(self, day: float) -> EventNode:
        """Return the node as it is on a day of the year."""
        release = int((day + 3 * self.cluster) / RELEASE_DAYS)
        return EventNode(
            name=self.name,
            uid=self.uids[day >= self.replaced],
            zone=self.zone,
            rack=self.rack,
            machine_type=self.machine_type,
            image=self.image,
            kernel=f"6.12.{release}-amd64",
        )


@dataclass(frozen=True, slots=True)
class SimulatedYear:
    """The same events for the same values, in the order of the begin of their incidents."""

    incidents: int
    nodes: int = 10_000
    clusters: int = 20
    days: float = 365
    seed: int = 5
    start: datetime = T0

    def events(self) -> Iterator[StreamEvent]:
        dice = random.Random(self.seed)
        fleet = [self._node(number, dice) for number in range(self.nodes)]
        weights = list(accumulate(dice.choices((1, LEMON_WEIGHT), (99, 1), k=self.nodes)))
        last: dict[str, str] = {}
        for number in range(self.incidents):
            day = self.days * number / self.incidents
            began = self.start + timedelta(days=day, milliseconds=dice.randrange(60_000))
            node = dice.choices(fleet, cum_weights=weights)[0]
            job = _job(number, node, dice)
            previous = last.get(node.name, "") if dice.random() < RELAPSE_SHARE else ""
            last[node.name] = job.name
            yield from _incident(job, node, node.at_day(day), (began, previous), dice)

    def _node(self, number: int, dice: random.Random) -> FleetNode:
        cluster = number % self.clusters
        position = number // self.clusters
        name = f"c{cluster:02}-n{position:04}"
        return FleetNode(
            cluster,
            name,
            (_uid(dice), _uid(dice)),
            f"region-{cluster % 5}{'abc'[position % 3]}",
            f"c{cluster:02}-r{position // RACK_NODES:02}",
            dice.choice(("m1", "m2", "m3", "c1", "g1", "g2")),
            dice.choice(("Debian GNU/Linux 12 (bookworm)", "Debian GNU/Linux 13 (trixie)")),
            self.days * dice.uniform(0, 10),
        )


def cluster_name(number: int) -> str:
    return f"cluster-{number:02}"


def _job(number: int, node: FleetNode, dice: random.Random) -> EventJob:
    rule = dice.choices(tuple(RULES), cum_weights=RULE_WEIGHTS)[0]
    fault_class, severity, _ = RULES[rule]
    return EventJob(
        name=f"{node.name}-{number:08x}",
        uid=_uid(dice),
        fault_class=fault_class,
        severity=severity,
        rule=rule,
        rule_generation=1,
        mode="Enforce",
    )


def _incident(
    job: EventJob,
    place: FleetNode,
    node: EventNode,
    begin: tuple[datetime, str],
    dice: random.Random,
) -> Iterator[StreamEvent]:
    """Yield the events of a job. begin: its creation, and the job that it is a relapse of"""
    began, previous = begin
    rungs = RULES[job.rule][2]
    first_true = began - _time(dice, 30)

    def made(transition: str, at: datetime, data: StreamData) -> StreamEvent:
        name = cluster_name(place.cluster)
        return event(f"{job.uid}/{transition}", name, at, node.name, data)

    opened = JobOpened(
        job=job, node=node, first_true=first_true, previous=previous, rungs=list(rungs)
    )
    yield made("opened", began, opened)
    rung = dice.randrange(len(rungs))
    granted = began + _time(dice, 10)
    drained = granted + _time(dice, 120) if rung else None
    acted = (drained or granted) + _time(dice, 60)
    if dice.random() < OPEN_SHARE:
        return
    phase = dice.choice(PHASES)
    verified = acted + _time(dice, 90) if phase == "Succeeded" else None
    closed = JobClosed(
        job=job,
        node=node,
        phase=phase,
        rung=rung,
        rung_name=rungs[rung],
        first_true=first_true,
        job_created=began,
        permit_granted=granted,
        drained=drained,
        acted=acted,
        verified=verified,
    )
    yield made("closed", (verified or acted) + timedelta(seconds=1), closed)


def _uid(dice: random.Random) -> str:
    return str(uuid.UUID(int=dice.getrandbits(128), version=4))


def _time(dice: random.Random, typical: float) -> timedelta:
    """Return a time in whole milliseconds, sometimes several times as long as the typical one."""
    return timedelta(milliseconds=int(typical * 1000 * dice.lognormvariate(0, 0.7)) + 1)
