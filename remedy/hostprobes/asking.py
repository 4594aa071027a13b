"""Which questions to ask about a node now, and why others have to wait. Pure.

A question has a name made of node, probe and minute: asked twice, by two runs of us or two
replicas, it is one. Who does not answer is asked less often: the host may be dead, or nobody there
may know how to answer.
"""

import hashlib
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Any

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import API_VERSION
from kubenode.api.v1alpha1.hostprobe import HostProbe
from rules.probes import NOT_ANSWERED, PROBES

UNANSWERED = timedelta(seconds=30)
"""A question without an answer for this long leaves its fields unknown."""
KEPT = timedelta(minutes=10)
MINUTE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(minutes=4)
MOST_OF_NODE = 4
MOST_IN_ALL = 256
"""Open questions: each is an object at the API server and work on a host that may be ill."""
POWER = frozenset(name for name in PROBES if name.startswith("power."))
NAME_LENGTH, DIGEST_LENGTH = 253, 10


class Wait(StrEnum):
    """Why a probe that a rule needs is not asked now."""

    OPEN = "Open"
    LATELY = "AskedLately"
    NODE_LIMIT = "NodeLimit"
    LIMIT = "Limit"


SENTENCES = {
    Wait.OPEN: "the question is open",
    Wait.LATELY: "it was asked lately and is not due again",
    Wait.NODE_LIMIT: f"{MOST_OF_NODE} questions about this node are open",
    Wait.LIMIT: f"{MOST_IN_ALL} questions are open in all",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """ask    kinds of probes to ask now, such as `disk`
    waits  kinds that must wait, and why
    at     when the next of them can change; None: nothing to wait for
    """

    ask: tuple[str, ...] = ()
    waits: tuple[tuple[str, Wait], ...] = ()
    at: datetime | None = None


def unanswered(*, providers: bool) -> frozenset[str]:
    """Fields that nobody is there to answer: no guard waits for them.

    They are asked for all the same, since others may answer.
    """
    return NOT_ANSWERED if providers else NOT_ANSWERED | POWER


def kinds(names: Iterable[str]) -> list[str]:
    """The probes of which these are fields; every probe answers all of its fields."""
    return sorted({name.partition(".")[0] for name in names})


def plan(names: Iterable[str], asked: Collection[HostProbe], in_all: int, now: datetime) -> Plan:
    """names  `probe.field` of what the rules need
    asked  the questions about the node that still exist
    in_all  open questions about all nodes
    """
    open_here = sum(is_open(probe, now) for probe in asked)
    ask: list[str] = []
    waits: list[tuple[str, Wait]] = []
    times: list[datetime] = []
    for kind in kinds(names):
        mine = [probe for probe in asked if str(probe.spec.name) == kind]
        if (pending := [p.spec.expires_at for p in mine if is_open(p, now)]) != []:
            waits.append((kind, Wait.OPEN))
            times.append(max(pending))
        elif (due := due_at(mine)) is not None and now < due:
            waits.append((kind, Wait.LATELY))
            times.append(due)
        elif open_here + len(ask) >= MOST_OF_NODE:
            waits.append((kind, Wait.NODE_LIMIT))
            times.append(now + UNANSWERED)
        elif in_all + len(ask) >= MOST_IN_ALL:
            waits.append((kind, Wait.LIMIT))
            times.append(now + UNANSWERED)
        else:
            ask.append(kind)
            times.append(now + UNANSWERED)
    return Plan(tuple(ask), tuple(waits), min(times, default=None))


def is_open(probe: HostProbe, now: datetime) -> bool:
    return probe.status.answered_at is None and now < probe.spec.expires_at


def due_at(asked: Sequence[HostProbe]) -> datetime | None:
    """When a probe may be asked again: in the next minute, later the longer nobody answers."""
    if not asked:
        return None
    by_time = sorted(asked, key=lambda probe: probe.spec.expires_at, reverse=True)
    silent = 0
    for probe in by_time:
        if probe.status.answered_at is not None:
            break
        silent += 1
    pause = min(MINUTE * (1 << max(silent - 1, 0)), LONGEST_PAUSE)
    return minute_of(by_time[0].spec.expires_at - UNANSWERED) + pause


def minute_of(at: datetime) -> datetime:
    return at.astimezone(UTC).replace(second=0, microsecond=0)


def probe_name(node: str, kind: str, at: datetime) -> str:
    """The same within one minute."""
    minute = f"{minute_of(at):%m%d%H%M}"
    tail = f"{kind}-{minute}"
    if len(node) + 1 + len(tail) <= NAME_LENGTH:
        return f"{node}-{tail}"
    digest = hashlib.sha256(node.encode()).hexdigest()[:DIGEST_LENGTH]
    room = NAME_LENGTH - DIGEST_LENGTH - len(tail) - 2
    return f"{node[:room].rstrip('.-')}-{digest}-{tail}"


def body(node: str, agent: str, kind: str, now: datetime) -> dict[str, Any]:
    """Of the create request."""
    return {
        "apiVersion": API_VERSION,
        "kind": "HostProbe",
        "metadata": {"name": probe_name(node, kind, now)},
        "spec": {
            "agent": agent,
            "nodeName": node,
            "name": kind,
            "expiresAt": format_time(now + UNANSWERED),
        },
    }
