"""Decides which probes to send about a node now, and why others must wait. Pure.

A probe's name consists of node, kind and minute, so two runs or two replicas create only one. A
host that does not answer is probed less often: it may be dead, or no agent there may know the
probe.
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
from remedy.hostprobes.shares import MOST_IN_ALL
from rules.probes import PROBES

UNANSWERED = timedelta(seconds=30)
"""A probe without an answer for this long leaves its fields unknown."""
RETENTION = timedelta(minutes=10)
"""Time for which a probe is kept after it was sent."""
MINUTE = timedelta(minutes=1)
LONGEST_PAUSE = timedelta(minutes=4)
"""Longest pause between probes of one kind without answers."""
MOST_OF_NODE = 4
"""Most open probes about one node."""
OF_THE_OPERATOR = frozenset({"host", "peers", "power", "ready"})
"""Kinds that are answered without the host's agent."""
OF_AGENTS = frozenset(name for name in PROBES if name.partition(".")[0] not in OF_THE_OPERATOR)
POWER = frozenset(name for name in PROBES if name.startswith("power."))
NAME_LENGTH, DIGEST_LENGTH = 253, 10


class Wait(StrEnum):
    """Why a probe that a rule needs is not sent now."""

    OPEN = "Open"
    LATELY = "AskedLately"
    NODE_LIMIT = "NodeLimit"
    LIMIT = "Limit"
    SHARE = "Share"
    SILENT = "Silent"


SENTENCES = {
    Wait.OPEN: "the question is open",
    Wait.LATELY: "it was asked lately and is not due again",
    Wait.NODE_LIMIT: f"{MOST_OF_NODE} questions about this node are open",
    Wait.LIMIT: f"{MOST_IN_ALL} questions are open in all",
    Wait.SHARE: "its zone, its rule or its mode has as many open as its share is",
    Wait.SILENT: "the host's agent is silent: nobody would answer",
}


@dataclass(frozen=True, slots=True)
class ProbePlan:
    """Probes to send.

    ask: kinds of probes to send now, such as `disk`
    waits: kinds that must wait, and why
    at: when the next of them can change; None: nothing to wait for
    """

    ask: tuple[str, ...] = ()
    waits: tuple[tuple[str, Wait], ...] = ()
    at: datetime | None = None


def unanswered(*, providers: bool) -> frozenset[str]:
    """Return fields that no source can answer: no guard waits for them.

    They are still requested, since others may answer.
    """
    return frozenset() if providers else POWER


def kinds(names: Iterable[str]) -> list[str]:
    """Return the probes with these fields; every probe answers all of its fields."""
    return sorted({name.partition(".")[0] for name in names})


def plan(
    names: Iterable[str],
    probes: Collection[HostProbe],
    in_all: int,
    now: datetime,
    *,
    silent: bool = False,
    room: int = MOST_IN_ALL,
) -> ProbePlan:
    """Plan the probes about one node.

    names: `probe.field` of what the rules need
    probes: existing probes about the node
    in_all: number of open probes about all nodes
    silent: whether the host's agent is known to be silent: only probes that others answer are sent
    room: how many more probes the node's shares allow
    """
    open_here = sum(is_open(probe, now) for probe in probes)
    ask: list[str] = []
    waits: list[tuple[str, Wait]] = []
    times: list[datetime] = []
    for kind in kinds(names):
        mine = [probe for probe in probes if str(probe.spec.name) == kind]
        if (pending := [p.spec.expires_at for p in mine if is_open(p, now)]) != []:
            waits.append((kind, Wait.OPEN))
            times.append(max(pending))
        elif (due := due_at(mine)) is not None and now < due:
            waits.append((kind, Wait.LATELY))
            times.append(due)
        elif silent and kind not in OF_THE_OPERATOR:
            waits.append((kind, Wait.SILENT))
            times.append(now + UNANSWERED)
        elif open_here + len(ask) >= MOST_OF_NODE:
            waits.append((kind, Wait.NODE_LIMIT))
            times.append(now + UNANSWERED)
        elif in_all + len(ask) >= MOST_IN_ALL:
            waits.append((kind, Wait.LIMIT))
            times.append(now + UNANSWERED)
        elif len(ask) >= room:
            waits.append((kind, Wait.SHARE))
            times.append(now + UNANSWERED)
        else:
            ask.append(kind)
            times.append(now + UNANSWERED)
    return ProbePlan(tuple(ask), tuple(waits), min(times, default=None))


def is_open(probe: HostProbe, now: datetime) -> bool:
    return probe.status.answered_at is None and now < probe.spec.expires_at


def due_at(probes: Sequence[HostProbe]) -> datetime | None:
    """Return when a probe may be sent again: in the next minute, later the longer it gets no
    answer.
    """
    if not probes:
        return None
    by_time = sorted(probes, key=lambda probe: probe.spec.expires_at, reverse=True)
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
    """Return the name of the probe; it is the same within one minute."""
    minute = f"{minute_of(at):%m%d%H%M}"
    tail = f"{kind}-{minute}"
    if len(node) + 1 + len(tail) <= NAME_LENGTH:
        return f"{node}-{tail}"
    digest = hashlib.sha256(node.encode()).hexdigest()[:DIGEST_LENGTH]
    room = NAME_LENGTH - DIGEST_LENGTH - len(tail) - 2
    return f"{node[:room].rstrip('.-')}-{digest}-{tail}"


def body(node: str, agent: str, kind: str, now: datetime) -> dict[str, Any]:
    """Return the body of the create request."""
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
