"""Which pods leave a node next, and what the others wait for. Pure.

Pods leave in three turns (ordinary, protected, ours). A turn begins when no pod of the earlier one
remains. Within a turn, pods without state are evicted first, then pods with state, then pods that
no controller recreates. A refused pod delays no other. Pods of one StatefulSet leave one by one; a
gang leaves together.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta

from kubenode.api.names import list_first
from kubenode.api.v1alpha1.steps import MigrateStep, PodPolicy, PodPolicyMode
from kubenode.runtime.drain.gangs import GangState, gang_of
from kubenode.runtime.drain.observation import NO_SURGES, Blocked, Going, Pods, Surges
from kubenode.runtime.drain.policy import (
    STATEFUL_SET,
    Protection,
    mode_of,
    movable,
    ordinal,
    owner,
    owner_kind,
    policy_of,
    rank,
    ready,
    turn,
)
from kubenode.runtime.kube.objects import Pod

NAMED = 3
"""Pods that a message names; the rest is counted."""


@dataclass(frozen=True, slots=True)
class DrainState:
    """What the plan depends on besides the list of pods.

    began: start of the step
    pending: UIDs of pods with a recent request or refusal, and when they may be tried again
    blocked: the refused eviction that is due first
    sets: UID of a StatefulSet to the reason why its next pod waits; absent if it need not wait
    surging: UID of a ReplicaSet to how many of its pods may go, as their replacements run
    gangs: answers of the receivers that were notified
    asking: gangs whose receiver may be asked now
    local: keys of pods with a local PersistentVolume
    cordoning: number of other jobs that may act and have not cordoned their nodes yet
    calm: nothing is evicted before this time, because the API server is overloaded
    """

    now: datetime
    began: datetime
    pending: Mapping[str, datetime] = field(default_factory=dict)
    blocked: Blocked | None = None
    sets: Mapping[str, str] = field(default_factory=dict)
    surges: Surges = NO_SURGES
    surging: Mapping[str, int] = field(default_factory=dict)
    gangs: Mapping[str, GangState] = field(default_factory=dict)
    asking: frozenset[str] = frozenset()
    local: frozenset[str] = frozenset()
    cordoning: int = 0
    calm: datetime | None = None


@dataclass(slots=True)
class _Sorted:
    """The pods of one node, by what is to become of them."""

    leaving: list[tuple[Pod, PodPolicy | None]] = field(default_factory=list)
    going: list[Going] = field(default_factory=list)
    turns: list[int] = field(default_factory=list)
    delete: list[Pod] = field(default_factory=list)
    stay: list[str] = field(default_factory=list)
    patient: list[str] = field(default_factory=list)
    checkpoint: set[str] = field(default_factory=set)
    overdue: set[str] = field(default_factory=set)
    times: list[datetime] = field(default_factory=list)
    waits: set[str] = field(default_factory=set)


def plan(pods: Iterable[Pod], step: MigrateStep, protection: Protection, known: DrainState) -> Pods:
    """Compute which pods have to leave, and what to do next."""
    groups = _Sorted()
    for pod in pods:
        if movable(pod):
            _sort(pod, step, protection, known, groups)
    first = min(
        [*groups.turns, *(turn(pod, protection) for pod, _ in groups.leaving)],
        default=0,
    )
    now = [(pod, policy) for pod, policy in groups.leaving if turn(pod, protection) == first]
    due = [] if known.calm is not None else _due(now, known, groups)
    every = [
        *(pod.metadata.key for pod, _ in groups.leaving),
        *(pod.metadata.key for pod in groups.delete),
        *(going.pod for going in groups.going),
        *groups.patient,
    ]
    return Pods(
        remaining=len(every),
        every=tuple(sorted(every)),
        due=tuple(pod.metadata.key for pod in due),
        delete=tuple(sorted(pod.metadata.key for pod in groups.delete)),
        going=tuple(sorted(groups.going, key=lambda g: (g.ends, g.pod))),
        patient=len(groups.patient),
        stay=tuple(sorted(groups.stay)),
        local=tuple(sorted(known.local.intersection(every))),
        checkpoint=tuple(sorted(groups.checkpoint)),
        overdue=tuple(sorted(groups.overdue)),
        surges=known.surges,
        blocked=known.blocked,
        waiting=_sentence(groups, known),
        cordoning=known.cordoning,
        at=min([*groups.times, *([known.calm] if known.calm else [])], default=None),
    )


def _sort(
    pod: Pod, step: MigrateStep, protection: Protection, known: DrainState, groups: _Sorted
) -> None:
    if pod.metadata.deletion_timestamp is not None:
        groups.going.append(Going(pod.metadata.key, pod.metadata.deletion_timestamp))
        groups.turns.append(turn(pod, protection))
        return
    policy = policy_of(pod, step, protection, known.local)
    match mode_of(pod, policy):
        case PodPolicyMode.NEVER:
            groups.stay.append(pod.metadata.key)
        case PodPolicyMode.WAIT_FOR_COMPLETION:
            groups.patient.append(pod.metadata.key)
            groups.waits.add("pods run to completion")
        case PodPolicyMode.DELETE_AFTER:
            until = known.began + ((policy.after if policy else None) or timedelta(0))
            if known.now >= until and pod.metadata.uid not in known.pending:
                groups.delete.append(pod)
            else:
                groups.patient.append(pod.metadata.key)
                groups.times.append(until)
                groups.waits.add("pods may end by themselves before they are deleted")
        case PodPolicyMode.GANG if policy is not None and policy.gang is not None:
            _sort_member(pod, policy, known, groups)
        case _:
            groups.leaving.append((pod, policy))


def _sort_member(pod: Pod, policy: PodPolicy, known: DrainState, groups: _Sorted) -> None:
    gang = policy.gang
    assert gang is not None
    name = gang_of(pod, gang)
    if gang.after_gang_ends:
        groups.patient.append(pod.metadata.key)
        groups.waits.add("pods run until their gang has ended")
        return
    state = known.gangs.get(name)
    if not name or gang.checkpoint is None or (state is not None and state.is_finished):
        groups.leaving.append((pod, policy))
        return
    groups.patient.append(pod.metadata.key)
    groups.waits.add("pods wait for the checkpoint of their gang")
    if state is not None and known.now >= state.since + gang.checkpoint.timeout:
        groups.overdue.add(name)
    elif state is None or name in known.asking:
        groups.checkpoint.add(name)


def _due(
    leaving: Sequence[tuple[Pod, PodPolicy | None]], known: DrainState, groups: _Sorted
) -> list[Pod]:
    groups.times += [
        known.pending[p.metadata.uid] for p, _ in leaving if p.metadata.uid in known.pending
    ]
    free = [(pod, policy) for pod, policy in leaving if pod.metadata.uid not in known.pending]
    lowest = min((rank(pod) for pod, _ in free), default=0)
    free = [(pod, policy) for pod, policy in free if rank(pod) == lowest]
    free.sort(key=lambda item: (item[0].metadata.namespace, item[0].metadata.name))
    due: list[Pod] = []
    sets: dict[str, Pod] = {}
    places = dict(known.surging)
    for pod, policy in free:
        uid = _owner_uid(pod)
        if owner_kind(pod) == STATEFUL_SET and policy is None:
            if why := known.sets.get(uid):
                groups.waits.add(why)
            elif uid not in sets or _before(pod, sets[uid]):
                sets[uid] = pod
        elif uid in places:
            if places[uid] > 0:
                places[uid] -= 1
                due.append(pod)
            else:
                groups.waits.add("pods wait for replacements that are started first")
        else:
            due.append(pod)
    return due + sorted(sets.values(), key=lambda pod: pod.metadata.key)


def _before(pod: Pod, other: Pod) -> bool:
    """Return whether `pod` goes first: unready before ready, then the highest ordinal."""
    return (not ready(pod), ordinal(pod)) > (not ready(other), ordinal(other))


def _owner_uid(pod: Pod) -> str:
    ref = owner(pod)
    return ref.uid if ref is not None else ""


def _sentence(groups: _Sorted, known: DrainState) -> str:
    """Return why pods wait; "" if they only need time to end."""
    if known.calm is not None:
        return "the API server asks for patience"
    return "; ".join(sorted(groups.waits))


def some(keys: Collection[str]) -> str:
    """Return the first NAMED of `keys`, and how many more there are."""
    return list_first(sorted(keys), NAMED)
