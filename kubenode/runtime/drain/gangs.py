"""Gangs: pods that leave together, and after their work was saved. What was told to whose receiver
stands in the step's record. Pure.

Only the members on this node are moved. Those on other nodes are their controller's matter, which
starts the gang again as soon as one of them goes.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from kubenode.api.v1alpha1.steps import Gang
from kubenode.runtime.kube.objects import Pod

OUTPUT = "gangs"
AT_ONCE = 6
"""Gangs whose receivers are told at a time: as many as fit into the record."""


class CheckpointAnswer(StrEnum):
    """REQUESTED  the receiver was told and has not said that it is done
    SAVED  it has
    LATE   it did not in its time; the gang moves all the same
    """

    REQUESTED = "asked"
    SAVED = "saved"
    LATE = "late"


@dataclass(frozen=True, slots=True)
class GangState:
    answer: CheckpointAnswer
    since: datetime

    @property
    def is_finished(self) -> bool:
        return self.answer is not CheckpointAnswer.REQUESTED


def gang_of(pod: Pod, gang: Gang) -> str:
    """`namespace/value` of the label that names it; "" for a pod without it, which is no member."""
    value = pod.metadata.labels.get(gang.group_by, "")
    return f"{pod.metadata.namespace}/{value}" if value else ""


def read(output: Mapping[str, str]) -> dict[str, GangState]:
    """What `write` wrote. Broken entries are passed over."""
    states = {}
    for text in filter(None, output.get(OUTPUT, "").split(";")):
        name, _, rest = text.partition("=")
        answer, _, millis = rest.partition("@")
        if answer in set(CheckpointAnswer) and millis.isdigit():
            at = datetime.fromtimestamp(int(millis) / 1000, UTC)
            states[name] = GangState(CheckpointAnswer(answer), at)
    return states


def write(output: Mapping[str, str], states: Mapping[str, GangState]) -> dict[str, str]:
    text = ";".join(
        f"{name}={state.answer}@{round(state.since.timestamp() * 1000)}"
        for name, state in sorted(states.items())
    )
    return {**{k: v for k, v in output.items() if k != OUTPUT}, **({OUTPUT: text} if text else {})}


def add_requests(
    states: Mapping[str, GangState], names: Collection[str], now: datetime
) -> dict[str, GangState]:
    """With those of `names` that can be told now; the oldest that are over make room."""
    room = dict(states)
    for name in sorted(names):
        if name in room:
            continue
        while len(room) >= AT_ONCE:
            finished = [n for n, s in room.items() if s.is_finished]
            if not finished:
                return room
            del room[min(finished, key=lambda n: room[n].since)]
        room[name] = GangState(CheckpointAnswer.REQUESTED, now)
    return room


def ended(
    states: Mapping[str, GangState], ends: Mapping[str, CheckpointAnswer], now: datetime
) -> dict[str, GangState]:
    """With what became of those that were asked."""
    return {
        name: GangState(ends[name], now) if name in ends and not state.is_finished else state
        for name, state in states.items()
    }
