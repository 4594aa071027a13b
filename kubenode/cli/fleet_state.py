"""Reads once what `kubenode status` and `kubenode doctor` print: objects, Leases, agents."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import TypeVar

from defender.dashboard.rollout import SetRollout
from defender.dashboard.rule import RuleView
from defender.overview.programs import EVERYTHING, MACHINE, REMEDY, ProgramSight
from defender.overview.records import RecordView
from defender.replicas.lifesigns import NAMESPACE as AGENT_NAMESPACE
from kubenode.api.v1alpha1 import Machine, MachineComponentSet, NodeRecord, NodeRemedier
from kubenode.cli.defender_objects import DefenderObjects, read_objects
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.lists import decoded
from kubenode.runtime.kube.objects import Lease, Object, structs

DEFENDER = "kubenode-defender"
LEADERS = (DEFENDER, REMEDY, MACHINE, EVERYTHING)
CLOCK_OFFSET_ANNOTATION = "kubenode.io/clock-offset"
AGENT_GONE_SECONDS = 150.0
"""Age of an agent's Lease from which on the agent counts as gone. It is renewed every 10 s."""
_lease = structs(Lease)
T = TypeVar("T", bound=Object)


@dataclass(frozen=True, slots=True)
class FleetState:
    """What was read at `now`.

    leases: age in seconds of each Lease of a leader that has a holder; None if not readable.
    agents: names of the agents that renewed their Lease lately; None if not readable.
    offsets: seconds by which the clock of a live agent's host is ahead, by the agent's name.
    gaps: what could not be read, and why.
    """

    now: datetime
    objects: DefenderObjects
    rules: Mapping[str, RuleView] = field(default_factory=dict)
    rollouts: Mapping[str, SetRollout] = field(default_factory=dict)
    records: Mapping[str, RecordView] = field(default_factory=dict)
    leases: Mapping[str, float] | None = None
    agents: frozenset[str] | None = None
    machines: bool = False
    offsets: Mapping[str, float] = field(default_factory=dict)
    gaps: Sequence[str] = ()

    @property
    def programs(self) -> ProgramSight:
        return ProgramSight(self.leases, self.agents, self.machines)


async def read_state(kube: Kube, namespace: str) -> FleetState:
    """Read the cluster once. Raises Refusal without our kinds, KubeError without nodes or jobs.

    namespace: of the leaders' Leases.
    """
    reader = _StateReader(kube)
    objects = await read_objects(kube)
    rules = await reader.by_name(paths.custom(NodeRemedier.resource.plural), structs(RuleView))
    plural = MachineComponentSet.resource.plural
    rollouts = await reader.by_name(paths.custom(plural), structs(SetRollout))
    records = await reader.by_name(paths.custom(NodeRecord.resource.plural), structs(RecordView))
    now = kube.clock.now()
    leases = await reader.leader_ages(namespace, now)
    agents = await reader.live_agents(now)
    machines = await reader.has_any(paths.custom(Machine.resource.plural))
    return FleetState(
        now,
        objects,
        rules,
        rollouts,
        records,
        leases,
        None if agents is None else frozenset(agents),
        machines,
        {} if agents is None else _offsets(agents.values()),
        tuple(reader.gaps),
    )


class _StateReader:
    """Reads lists. A missing right becomes a gap, a kind that the cluster lacks an empty list."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self.gaps: list[str] = []

    async def by_name(self, path: str, decode: Callable[[bytes], T]) -> dict[str, T]:
        items = await self._list(path, decode)
        return {item.metadata.name: item for item in items or ()}

    async def has_any(self, path: str) -> bool:
        try:
            page = await self._kube.get(path, query={"limit": 1})
        except (NotFound, Forbidden):
            return False
        return bool(page.get("items"))

    async def leader_ages(self, namespace: str, now: datetime) -> dict[str, float] | None:
        ages: dict[str, float] = {}
        for name in LEADERS:
            try:
                lease = await self._kube.get(paths.lease(namespace, name), _lease)
            except NotFound:
                continue
            except Forbidden as error:
                self.gaps.append(f"Leases of namespace {namespace}: {error.message or error}")
                return None
            if lease.spec.holder_identity:
                ages |= _ages([lease], now)
        return ages

    async def live_agents(self, now: datetime) -> dict[str, Lease] | None:
        """Return the Leases that were renewed lately, by the agent's name."""
        leases = await self._list(paths.leases(AGENT_NAMESPACE), _lease)
        if leases is None:
            return None
        ages = _ages(leases, now)
        return {
            lease.metadata.name: lease
            for lease in leases
            if ages.get(lease.metadata.name, AGENT_GONE_SECONDS) < AGENT_GONE_SECONDS
        }

    async def _list(self, path: str, decode: Callable[[bytes], T]) -> list[T] | None:
        try:
            return [item async for item in decoded(self._kube, path, decode)]
        except NotFound:
            return []
        except Forbidden as error:
            self.gaps.append(f"{path}: {error.message or error}")
            return None


def _offsets(leases: Iterable[Lease]) -> dict[str, float]:
    """Return the clock offsets that agents measured; an unreadable one is left out."""
    offsets: dict[str, float] = {}
    for lease in leases:
        with suppress(ValueError):
            text = lease.metadata.annotations.get(CLOCK_OFFSET_ANNOTATION, "")
            offsets[lease.metadata.name] = float(text)
    return offsets


def _ages(leases: Iterable[Lease], now: datetime) -> dict[str, float]:
    """Return the age of each Lease in seconds, by the clock of this computer."""
    return {
        lease.metadata.name: max(0.0, (now - at).total_seconds())
        for lease in leases
        if (at := lease.spec.renew_time) is not None
    }
