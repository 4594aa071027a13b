"""A simulated past of the demo's fleet, as the events that its stream would have sent.

It has a story that Insight can tell. Half of the nodes ran a kernel that deadlocks. A release a
week ago gave them another one, and since then that class of faults has become rare. Three nodes
fail again and again.
"""

import math
import random
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from kubenode.runtime.stream.model import (
    EventJob,
    EventNode,
    JobClosed,
    JobDecided,
    JobOpened,
    PermitGranted,
    PermitRefused,
    PermitReleased,
    StepEnded,
    StepStarted,
    StreamData,
    StreamEvent,
    event,
)
from simulation.demo.fleet import Place

CLUSTER = "demo"
GOOD_KERNEL, BAD_KERNEL, NEW_KERNEL = "6.1.0-26-amd64", "6.1.0-28-amd64", "6.1.0-29-amd64"
IMAGE = "Debian GNU/Linux 12 (bookworm)"
RELEASE = timedelta(days=7)
"""Time since the release of NEW_KERNEL."""
PER_DAY = 12
LEMONS = 3
NAMESPACE = uuid.UUID("4b7a4a52-1d0c-4c1e-9d5b-0f6f7d1f2a10")


@dataclass(frozen=True, slots=True)
class PastRule:
    """A rule of the library in the past.

    rungs: name, step and who acts, for each rung
    works: share of jobs that each rung heals
    weight: how often its fault comes
    """

    name: str
    fault_class: str
    severity: str
    rungs: tuple[tuple[str, str, str], ...]
    works: tuple[float, ...]
    weight: float


DEADLOCK = PastRule(
    "kernel-deadlock", "kernel_deadlock", "Critical", (("isolate", "migrate", "Operator"),),
    (0.7,), 0.3,
)  # fmt: skip
RULES = (
    PastRule(
        "kubelet-problem", "kubelet_unhealthy", "Critical",
        (("restart", "agent", "Agent"), ("reboot", "reboot", "Agent")), (0.7, 0.9), 4,
    ),
    PastRule(
        "pleg-unhealthy", "pleg_unhealthy", "Critical",
        (("restart-runtime", "agent", "Agent"), ("restart-kubelet", "agent", "Agent"),
         ("reboot", "reboot", "Agent")), (0.5, 0.4, 0.9), 2,
    ),
    PastRule(
        "ntp-problem", "time_sync", "Warning", (("restart", "agent", "Agent"),), (0.95,), 3,
    ),
    PastRule(
        "readonly-filesystem", "fs_readonly", "Critical", (("isolate", "migrate", "Operator"),),
        (0.6,), 1,
    ),
)  # fmt: skip


def past_events(
    places: Sequence[Place], seed: int, now: datetime, length: timedelta
) -> Iterator[StreamEvent]:
    """Yield the events of the past before `now`, in the order of their incidents."""
    dice = random.Random(f"history {seed}")
    workers = [place for place in places if not place.control_plane]
    lemons = dice.sample(workers, min(LEMONS, len(workers)))
    begin, released = now - length, now - RELEASE
    last: dict[str, str] = {}
    for number in range(int(length / timedelta(days=1) * PER_DAY)):
        at = begin + length * dice.random() - timedelta(hours=1)
        place = dice.choice(lemons) if dice.random() < 0.1 else dice.choice(workers)
        node = _node(place, is_new=at >= released)
        incident = PastIncident(number, at, node, _rule(node, dice), dice)
        relapses = dice.random() < 0.1
        yield from incident.events(last.get(place.name, "") if relapses else "")
        last[place.name] = incident.job.name


def _node(place: Place, *, is_new: bool) -> EventNode:
    kernel = GOOD_KERNEL
    if place.index % 2:
        kernel = NEW_KERNEL if is_new else BAD_KERNEL
    return EventNode(
        name=place.name,
        uid=str(uuid.uuid5(NAMESPACE, place.name)),
        zone=place.zone,
        rack=place.rack,
        machine_type=place.labels()["node.kubernetes.io/instance-type"],
        image=IMAGE,
        kernel=kernel,
    )


def _rule(node: EventNode, dice: random.Random) -> PastRule:
    deadlock = 10.0 if node.kernel == BAD_KERNEL else DEADLOCK.weight
    weights = [*(rule.weight for rule in RULES), deadlock]
    return dice.choices([*RULES, DEADLOCK], weights)[0]


class PastIncident:
    """One incident, which begins at `began`."""

    def __init__(
        self, number: int, began: datetime, node: EventNode, rule: PastRule, dice: random.Random
    ) -> None:
        self._node, self._rule, self._dice = node, rule, dice
        self._is_healed = False
        self._at = began.replace(microsecond=0)
        self._first_true = self._at - self._time(60)
        uid = str(uuid.UUID(int=dice.getrandbits(128), version=4))
        self.job = EventJob(
            name=f"{node.name}-{number:010x}",
            uid=uid,
            fault_class=rule.fault_class,
            severity=rule.severity,
            rule=rule.name,
            rule_generation=1,
            mode="Enforce",
        )

    def events(self, previous: str) -> Iterator[StreamEvent]:
        """Yield its events. previous: the job before a relapse, "" for none."""
        created = self._at
        yield self._event("opened", self._opened(previous))
        yield from self._waits()
        granted = self._at
        yield self._event("granted", PermitGranted(**self._permit(), disruption_class="Node"))
        steps = list(self._climb())
        yield from steps
        closed = self._closed(created, granted, steps[-1])
        yield self._event("closed", closed)
        released = PermitReleased(**self._permit(), state="Released", granted_at=granted)
        yield self._event("released", released)

    def _opened(self, previous: str) -> JobOpened:
        return JobOpened(
            **self._about(),
            first_true=self._first_true,
            evidence=[f"condition {self._rule.fault_class}"],
            previous=previous,
            rungs=[name for name, _, _ in self._rule.rungs],
        )

    def _waits(self) -> Iterator[StreamEvent]:
        """Yield what holds the job back before its permit: sometimes a limit or a person."""
        self._at += self._time(5)
        if self._dice.random() < 0.15:
            scope = f"topology.kubernetes.io/zone={self._node.zone}"
            refused = PermitRefused(**self._about(), reason="ConcurrencyLimit", scope=scope)
            yield self._event("hold/1", refused)
            self._at += self._time(600)
        if self._dice.random() < 0.05:
            decided = JobDecided(**self._about(), decision="Approve", by="ann")
            yield self._event("decided/0", decided)
            self._at += self._time(3)

    def _climb(self) -> Iterator[StreamEvent]:
        """Yield the steps of each rung until a rung heals the node."""
        for rung, (_, step, by) in enumerate(self._rule.rungs):
            begun: dict[str, Any] = {
                "rung": rung,
                "index": 0,
                "step": step,
                "by": by,
                "attempts": 1,
            }
            started = self._at
            yield self._event(f"step/{rung}/started", StepStarted(**self._about(), **begun))
            self._at += self._time(30 if step == "agent" else 240)
            ended = StepEnded(**self._about(), **begun, state="Done", started_at=started)
            yield self._event(f"step/{rung}/ended", ended)
            self._is_healed = self._dice.random() < self._rule.works[rung]
            self._at += self._time(90 if self._is_healed else 400)
            if self._is_healed:
                return

    def _closed(self, created: datetime, granted: datetime, last: StreamEvent) -> JobClosed:
        """Return the end of the job, a second after the proof. last: the end of its last step."""
        step, verified = last.data, self._at if self._is_healed else None
        assert isinstance(step, StepEnded)
        self._at += timedelta(seconds=1)
        return JobClosed(
            **self._about(),
            phase="Succeeded" if self._is_healed else "Failed",
            reason="Verified" if self._is_healed else "LadderEnded",
            rung=step.rung,
            rung_name=self._rule.rungs[step.rung][0],
            first_true=self._first_true,
            job_created=created,
            permit_granted=granted,
            drained=step.started_at if step.step == "reboot" else None,
            acted=last.time,
            verified=verified,
            hold_seconds=(granted - created).total_seconds(),
            pods_unavailable_seconds=self._time(20).total_seconds(),
        )

    def _about(self) -> dict[str, Any]:
        return {"job": self.job, "node": self._node}

    def _permit(self) -> dict[str, Any]:
        return {
            "permit": f"permit-{self.job.name}",
            "permit_uid": f"permit-{self.job.uid}",
            "node": self._node,
            "operation": "Repair",
            "holder_kind": "RemedyOperationJob",
            "holder": self.job.name,
            "holder_uid": self.job.uid,
        }

    def _event(self, transition: str, data: StreamData) -> StreamEvent:
        return event(f"{self.job.uid}/{transition}", CLUSTER, self._at, self._node.name, data)

    def _time(self, typical: float) -> timedelta:
        """Return a time with this median, in whole seconds, sometimes several times as long."""
        return timedelta(seconds=round(typical * math.exp(self._dice.gauss(0, 0.5))) + 1)
