"""Data of the views, updated with every change that Defender's informers observe.

Handlers only record names. The work is done when a page is built, once for all viewers.
"""

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from defender.dashboard.fleet import FleetGrid
from defender.dashboard.leases import LeaseReader
from defender.dashboard.machine import RolloutMachine
from defender.dashboard.machine_set import MachineSetView
from defender.dashboard.node_state import cell_of
from defender.dashboard.rollout import SetRollout
from defender.dashboard.rule import RuleView
from defender.decision.control import RiskControl
from defender.decision.jobs import ObservedJob
from defender.decision.policies import LoadedPolicy
from defender.overview.faults import NO_CONDITIONS, FaultConditions
from defender.overview.programs import NO_SIGHT, ProgramSight
from defender.overview.records import RecordView
from defender.overview.situation import NodeEvidence
from defender.overview.usage import UsageHistory
from defender.service import Defender
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node

REFRESH_ALL_SECONDS = 20.0
"""Seconds after which every node is evaluated again, because some change with time alone."""


@dataclass(frozen=True, slots=True)
class Scene:
    """Data from which views are computed.

    open_jobs: open jobs by node, then by name.
    ready: "" while Defender can answer requests, else why not.
    late: names of the caches that are not current, empty if all are.
    loaded: False until every list was read once.
    rollouts_read: False until rollouts were read. A cluster may lack the kinds of machines.
    records, records_read: the same of NodeRecords, by the name of the node.
    programs: which programs have a leader and which agents live.
    usage: use of budgets since this process began.
    machines, machines_read: the same of Machines.
    machine_sets, machine_sets_read: the same of MachineSets.
    """

    control: RiskControl
    fleet: FleetGrid
    nodes: Mapping[str, Node]
    jobs: Mapping[str, ObservedJob]
    policies: Mapping[str, LoadedPolicy]
    rules: Mapping[str, RuleView]
    open_jobs: Mapping[str, Mapping[str, ObservedJob]]
    now: datetime
    ready: str = ""
    late: tuple[str, ...] = ()
    loaded: bool = True
    rollouts: Mapping[str, SetRollout] = field(default_factory=dict)
    rollouts_read: bool = True
    programs: ProgramSight = NO_SIGHT
    records: Mapping[str, RecordView] = field(default_factory=dict)
    records_read: bool = True
    usage: UsageHistory = field(default_factory=UsageHistory)
    machines: Mapping[str, RolloutMachine] = field(default_factory=dict)
    machines_read: bool = True
    machine_sets: Mapping[str, MachineSetView] = field(default_factory=dict)
    machine_sets_read: bool = True


@dataclass
class SceneBuilder:
    """Follows Defender. `scene` returns the current data; each change sets `changed`."""

    defender: Defender
    rollouts: Informer[SetRollout]
    machines: Informer[RolloutMachine]
    machine_sets: Informer[MachineSetView]
    clock: Clock
    leases: LeaseReader | None = None
    changed: asyncio.Event = field(default_factory=asyncio.Event)
    fleet: FleetGrid = field(default_factory=FleetGrid)
    usage: UsageHistory = field(default_factory=UsageHistory)
    _touched: set[str] = field(default_factory=set)
    _open: dict[str, dict[str, ObservedJob]] = field(default_factory=dict)
    _all_at: float = float("-inf")
    _conditions: FaultConditions = NO_CONDITIONS
    _rules_changed: bool = True
    _version: int = 0

    def __post_init__(self) -> None:
        self.defender.nodes.add_handler(self._node)
        self.defender.jobs.add_handler(self._job)
        self.defender.permits.add_handler(self._permit)
        self.defender.policies.add_handler(self._other)
        self.rules.add_handler(self._rule)
        self.defender.shadows.on_changed.append(self._touch)
        self.rollouts.add_handler(self._other)
        self.machine_sets.add_handler(self._other)

    @property
    def rules(self) -> Informer[RuleView]:
        return self.defender.shadows.rules

    @property
    def records(self) -> Informer[RecordView]:
        return self.defender.shadows.records

    @property
    def informers(self) -> dict[str, Informer[Any]]:
        d = self.defender
        return {
            "nodes": d.nodes,
            "jobs": d.jobs,
            "permits": d.permits,
            "policies": d.policies,
            "rules": self.rules,
        }

    @property
    def version(self) -> int:
        """Grows with every reported change that a view may show."""
        return self._version + self.defender.control.breakers.version

    def touch(self) -> None:
        """Record a change of what views show that no informer reports."""
        self._tell()

    def scene(self) -> Scene:
        self._apply_changes()
        return Scene(
            self.defender.control,
            self.fleet,
            self.defender.nodes.cache,
            self.defender.jobs.cache,
            self.defender.policies.cache,
            self.rules.cache,
            self._open,
            self.clock.now(),
            self.defender.ready(),
            tuple(name for name, each in self.informers.items() if _late(each)),
            all(each.synced.is_set() for each in self.informers.values()),
            self.rollouts.cache,
            self.rollouts.synced.is_set(),
            self.leases.sight if self.leases is not None else NO_SIGHT,
            self.records.cache,
            self.records.synced.is_set(),
            self.usage,
            self.machines.cache,
            self.machines.synced.is_set(),
            self.machine_sets.cache,
            self.machine_sets.synced.is_set(),
        )

    def _apply_changes(self) -> None:
        """Apply the recorded changes to the fleet."""
        now = self.clock.monotonic()
        self._read_rules()
        if now >= self._all_at + REFRESH_ALL_SECONDS:
            self._all_at = now
            self._touched.update(self.defender.nodes.cache, self.fleet.names())
        touched, self._touched = self._touched, set()
        control = self.defender.control
        for name in touched:
            node = self.defender.nodes.get(name)
            if node is None:
                self.fleet.remove(name)
                continue
            known = NodeEvidence(
                node,
                control.census.member(name),
                tuple(self._open.get(name, {}).values()),
                tuple(control.ledger.open_on(name)),
                self.defender.shadows.dry_runs(node),
            )
            self.fleet.put(cell_of(known, self._conditions))

    def _read_rules(self) -> None:
        """Evaluate every node again if the rules read other conditions than before."""
        if not self._rules_changed:
            return
        self._rules_changed = False
        conditions = FaultConditions.of(self.rules.cache.values())
        if conditions != self._conditions:
            self._conditions, self._all_at = conditions, float("-inf")

    # -- what informers tell -------------------------------------------------------------------

    def _node(self, name: str, old: Node | None, new: Node | None) -> None:
        self._touch(name)

    def _permit(self, name: str, old: Permit | None, new: Permit | None) -> None:
        for permit in filter(None, (old, new)):
            self._touch(permit.spec.node_name)

    def _job(self, name: str, old: ObservedJob | None, new: ObservedJob | None) -> None:
        if old is not None:
            jobs = self._open.get(old.spec.node_name, {})
            jobs.pop(name, None)
            if not jobs:
                self._open.pop(old.spec.node_name, None)
            self._touch(old.spec.node_name)
        if new is not None and new.open:
            self._open.setdefault(new.spec.node_name, {})[name] = new
        if new is not None:
            self._touch(new.spec.node_name)

    def _rule(self, name: str, old: RuleView | None, new: RuleView | None) -> None:
        """Note the change. The operator writes statuses often, and they change no node."""
        if old is None or new is None or old.spec != new.spec:
            self._rules_changed = True
        if old is None or new is None or old.spec.mode != new.spec.mode:
            self._all_at = float("-inf")
        self._tell()

    def _other(self, name: str, old: object, new: object) -> None:
        self._tell()

    def _touch(self, node: str) -> None:
        self._touched.add(node)
        self._tell()

    def _tell(self) -> None:
        self._version += 1
        self.changed.set()


def _late(informer: Informer[Any]) -> bool:
    return informer.synced.is_set() and not informer.fresh()


SceneSource = Callable[[], Scene]
