"""Gangs: pods that leave a node together, after a checkpoint of their work. Pure.

The step's record says which receivers of checkpoints were notified, and with what result. Only
members on this node are moved. Members on other nodes are left to their controller, which restarts
the gang as soon as one of them ends.
"""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum

from kubenode.api.v1alpha1.steps import Gang
from kubenode.runtime.kube.objects import Pod

OUTPUT = "gangs"
AT_ONCE = 6
"""Gangs whose checkpoints may be in progress at a time: as many as fit into the record."""


class CheckpointAnswer(StrEnum):
    """Answer of a gang's receiver.

    REQUESTED: notified, and not finished yet
    SAVED: finished
    LATE: not finished in time; the gang moves all the same
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
    """Return `namespace/value` of the label that names the gang; "" for a pod in no gang."""
    value = pod.metadata.labels.get(gang.group_by, "")
    return f"{pod.metadata.namespace}/{value}" if value else ""


def read(output: Mapping[str, str]) -> dict[str, GangState]:
    """Parse what `write` wrote. Malformed entries are skipped."""
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
    """Add requests for those of `names` that fit. The oldest finished ones make room."""
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
    """Set the answers of gangs whose checkpoint was in progress."""
    return {
        name: GangState(ends[name], now) if name in ends and not state.is_finished else state
        for name, state in states.items()
    }
