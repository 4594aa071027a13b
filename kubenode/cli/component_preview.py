"""Predicts the rollout of a component set with the operator's own code. Reads only."""

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar

import msgspec

from kubenode.api.recurrence import inside
from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1 import Machine, MachineComponent, MachineComponentSet
from kubenode.api.v1alpha1.machine import MachineMode
from kubenode.api.v1alpha1.machinecomponentset import (
    ComponentSetConditionType,
    MachineComponentSetSpec,
    OnUnselect,
)
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.api.v1alpha1.machinework import AssignedComponent
from kubenode.cli.component_overlaps import claimed, shared_on
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.objects import Node, structs
from machine.bootstrap.agentready import Lifesign
from machine.componentset import departures
from machine.componentset.access import ReferencedTexts, ServerVersion
from machine.componentset.board import Assignments
from machine.componentset.controller import view_of
from machine.componentset.disturbance import Disturbance, disturbance
from machine.componentset.forecast import Forecast, forecast
from machine.componentset.observer import Looker, MembershipSnapshot, rivals_of
from machine.componentset.revisions import AssignableRevision
from machine.componentset.rollout import ConditionMessage, RolloutObservation
from machine.componentset.status import remembered
from machine.componentset.targets import Aim, Aimer
from machine.ground import RepairJob

T = TypeVar("T")


class _FetchedNodes(msgspec.Struct):
    items: list[Node]


class _Jobs(msgspec.Struct):
    items: list[RepairJob]


@dataclass(frozen=True, slots=True)
class Cache(Generic[T]):
    cache: Mapping[str, T]

    def get(self, key: str, /) -> T | None:
        return self.cache.get(key)


@dataclass(frozen=True, slots=True)
class AssumedLifesigns:
    """Liveness of agents as the condition AgentReady says, since reading a Lease once does not show
    it.
    """

    machines: Mapping[str, Machine]

    def now(self) -> Callable[[str], Lifesign]:
        return self._of

    def _of(self, name: str) -> Lifesign:
        ready = self.machines[name].status.condition(MachineConditionType.AGENT_READY)
        return Lifesign.FRESH if ready is not None and ready.status == "True" else Lifesign.STALE


@dataclass(frozen=True, slots=True)
class ClusterSnapshot:
    """The objects of the cluster, read once.

    jobs: node name to the name of the open job that holds the node.
    """

    machines: Cache[Machine]
    component_sets: Cache[MachineComponentSet]
    components: Cache[MachineComponent]
    nodes: Cache[Node]
    jobs: Mapping[str, str]

    @property
    def lifesigns(self) -> AssumedLifesigns:
        return AssumedLifesigns(self.machines.cache)

    def find_open_job(self, node: str, /) -> str:
        return self.jobs.get(node, "")


@dataclass(frozen=True, slots=True)
class PlannedSet:
    """The set after the requested edit, and what its rollout would do.

    changes: machine name to the disturbance of its change.
    shared: machine name to why the change would be Blocked there: another component has the same
        file or key.
    excluded: machines that the selector matches and that are no members, with the reason.
    leaving: machines that have the component from this set and are no longer selected.
    """

    set_: MachineComponentSet
    aim: Aim
    membership: MembershipSnapshot
    forecast: Forecast
    changes: Mapping[str, Disturbance]
    shared: Mapping[str, str]
    excluded: Mapping[str, str]
    leaving: Sequence[str]


async def snapshot(kube: Kube) -> ClusterSnapshot:
    jobs = await kube.get(paths.custom("remedyoperationjobs"), structs(_Jobs))
    nodes = await kube.get(paths.nodes(), structs(_FetchedNodes))
    return ClusterSnapshot(
        Cache(await _all(kube, Machine)),
        Cache(await _all(kube, MachineComponentSet)),
        Cache(await _all(kube, MachineComponent)),
        Cache({node.metadata.name: node for node in nodes.items}),
        {job.spec.node_name: job.metadata.name for job in jobs.items if job.holds},
    )


async def _all(kube: Kube, kind: Any) -> dict[str, Any]:
    answer = await kube.get(paths.custom(kind.resource.plural))
    objects = (kind.model_validate(item, extra="ignore") for item in answer["items"])
    return {each.metadata.name: each for each in objects}


def edit_set(
    set_: MachineComponentSet, component: str, values: Mapping[str, str]
) -> MachineComponentSet:
    """Return the set with another component or other values.

    component: "" keeps the component of the set.

    Raises ValidationError for values that a set cannot have.
    """
    changed = {
        **set_.spec.to_dict(),
        "component": component or set_.spec.component,
        "values": {**set_.spec.values, **values},
    }
    return set_.model_copy(update={"spec": MachineComponentSetSpec.model_validate(changed)})


async def planned(
    fleet: ClusterSnapshot,
    set_: MachineComponentSet,
    texts: ReferencedTexts,
    server: ServerVersion,
    clock: Clock,
) -> PlannedSet:
    """Predict the rollout of a set.

    set_: the set as `edit_set` returns it.
    """
    sets = {**fleet.component_sets.cache, set_.metadata.name: set_}
    aimer = Aimer(fleet.components, texts, server)
    aim = await aimer.aim(set_)
    rivals = rivals_of(set_, aim.family, [(s, aimer.family_of(s)) for s in sets.values()])
    looker = Looker(fleet, Assignments(), set_, view_of(set_, aim), aim.target, aim.current, rivals)
    membership = looker.take_snapshot()
    prediction = forecast(
        remembered(set_.status), set_.spec.update_strategy, _observe(set_, aim, membership, clock)
    )
    changes, shared = await _changes(fleet, aimer, aim, prediction)
    return PlannedSet(
        set_,
        aim,
        membership,
        prediction,
        changes,
        shared,
        _find_excluded(fleet, set_, membership),
        sorted({machine.metadata.name for machine, _ in membership.leavers}),
    )


def _observe(
    set_: MachineComponentSet, aim: Aim, membership: MembershipSnapshot, clock: Clock
) -> RolloutObservation:
    """Build the observation of a rollout from objects.

    A meltdown is read from the condition Paused. Only the operator's memory has the requests that
    wait for permits, so they are missing here.
    """
    window, now = set_.spec.update_strategy.window, clock.now()
    hole = (
        ConditionMessage(RolloutReason.MISSING_COMPONENT, membership.hole)
        if membership.hole
        else None
    )
    condition = next(
        (c for c in set_.status.conditions if c.type == ComponentSetConditionType.PAUSED), None
    )
    melts = (
        condition is not None
        and condition.status == "True"
        and condition.reason == RolloutReason.MELTDOWN
    )
    return RolloutObservation(
        members=membership.members,
        target=aim.target.name if aim.target is not None else "",
        now=now,
        returnable=aim.current is not None or not set_.status.current_revision,
        problem=aim.problem or hole,
        paused=set_.spec.paused,
        frozen=set_.spec.frozen,
        meltdown=condition.message if condition is not None and melts else "",
        window=window is None or inside(window, now)[0],
        conflicts=membership.conflicts,
        stuck=departures.stuck(membership.leavers),
    )


class _There:
    """Components that machines have now.

    Each revision is made once, to be rendered on any machine.
    """

    def __init__(self, aimer: Aimer) -> None:
        self._aimer = aimer
        self._known: dict[tuple[object, ...], AssignableRevision | None] = {}

    async def read(self, machine: Machine, families: Collection[str]) -> None:
        """Make the machine's revisions of these components, so that `known` can return them."""
        for entry in machine.spec.components:
            if entry.name in families and (key := _key(entry)) not in self._known:
                self._known[key] = await _made(self._aimer, entry)

    def known(self, entry: AssignedComponent) -> AssignableRevision | None:
        return self._known[_key(entry)]


def _key(entry: AssignedComponent) -> tuple[object, ...]:
    values = tuple(sorted(entry.values.items()))
    return entry.revision, entry.component, values, entry.desired_state


async def _changes(
    fleet: ClusterSnapshot, aimer: Aimer, aim: Aim, prediction: Forecast
) -> tuple[dict[str, Disturbance], dict[str, str]]:
    """Return the disturbance of each machine, and files or keys that another component has."""
    there, made = _There(aimer), {m.name: m for m in (aim.current, aim.target) if m is not None}
    changes, shared = {}, {}
    for stage in prediction.stages:
        target = made.get(stage.revision)
        if target is None:
            continue
        family, places = target.spec.component, claimed(target.spec)
        for name in stage.machines:
            machine = fleet.machines.cache[name]
            rivals = {
                entry.name
                for entry in machine.spec.components
                if (spec := aimer.spec_of(entry.component)) and places & claimed(spec)
            } - {family}
            await there.read(machine, {*rivals, family})
            changes[name] = disturbance(machine, target, aim.current, there.known)
            if overlap := shared_on(machine, target, rivals, there.known):
                shared[name] = overlap
    return changes, shared


async def _made(aimer: Aimer, entry: AssignedComponent) -> AssignableRevision | None:
    revision_result = await aimer.made(
        entry.revision, entry.component, entry.values, entry.desired_state
    )
    return revision_result[0] if revision_result is not None and not revision_result[1] else None


def _find_excluded(
    fleet: ClusterSnapshot, set_: MachineComponentSet, membership: MembershipSnapshot
) -> dict[str, str]:
    members = {member.name for member in membership.members}
    excluded = {}
    for name, machine in sorted(fleet.machines.cache.items()):
        if name not in members and set_.spec.selector.matches(machine.metadata.labels):
            excluded[name] = _why_not(machine, conflict=name in membership.conflicts)
    return excluded


def _why_not(machine: Machine, *, conflict: bool) -> str:
    if conflict:
        return f"{RolloutReason.CONFLICT}: another set has this component there"
    if machine.metadata.deletion_timestamp is not None:
        return "it is being deleted"
    if machine.spec.mode is not MachineMode.MANAGE:
        return f"mode {machine.spec.mode}"
    if machine.status.host is None:
        return "its agent has not spoken yet"
    return "nothing tells which component the set is of"


def leaving_how(set_: MachineComponentSet) -> str:
    """Say what happens to machines that are no longer selected."""
    orphaned = set_.spec.on_unselect is OnUnselect.ORPHAN
    return "they keep it" if orphaned else "it is removed from them"
