"""Reads the state of one node from a cluster once, with the production code.

Some inputs exist only in a running operator: when it first observed a condition, and which Events
it has counted. They are read from what the cluster has stored instead.
"""

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubenode.api.v1alpha1 import (
    HostEvent,
    HostProbe,
    Mode,
    NodeRecord,
    NodeRemedier,
    RemedyOperationJob,
    Resource,
)
from kubenode.api.v1alpha1.noderecord import EventMemory, NodeRecordSpec
from kubenode.cli.exits import Exit, Refusal
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.node_events import ABOUT_NODES
from kubenode.runtime.kube.objects import Lease, Node, structs
from remedy.noderecord.memory import past_of
from remedy.remedier.event_sources import NodeEventSources
from remedy.remedier.facts import FactStore
from remedy.remedier.group_jobs import GroupJobs
from remedy.remedier.judge import rule_id
from remedy.remedier.leases import NODE_LEASES
from remedy.remedier.past import Past
from rules.diagnose import Diagnoser
from rules.facts import FactSet
from rules.program import RuleProgram, RuleVersion, compile_program, stored_facts

LIST_SECONDS = 60.0
NODES_OF, RULES_OF = "node", "rule"
"""Indexes of the jobs."""
BATCH = 256
ROUNDS = 4
"""Rounds of evaluation. A group fact may depend on another one; deeper chains are not followed."""


@dataclass(frozen=True, slots=True)
class Live:
    """What a cluster has about one node.

    rules: all rules, by descending priority and then by name.
    program: the rules that compile and whose mode is not Off.
    record: what KubeNode remembers of the node.
    booted_at: the last boot of the node; None if the cluster has no sign of it.
    """

    facts: FactSet
    jobs: Sequence[RemedyOperationJob]
    rules: Sequence[NodeRemedier]
    program: RuleProgram
    record: NodeRecordSpec = field(default_factory=NodeRecordSpec)
    node: Node | None = None
    booted_at: datetime | None = None
    group_jobs: GroupJobs | None = None
    """Jobs that act for groups of nodes; None: not read."""

    def rule(self, name: str) -> NodeRemedier | None:
        return next((rule for rule in self.rules if rule.metadata.name == name), None)


async def read_node(
    kube: Kube, name: str, clock: Clock, instead: Sequence[NodeRemedier] = ()
) -> Live:
    """Read the cluster and return the state of the node.

    All nodes are listed: rules may need ratios.

    instead: rules that count as loaded; they replace the cluster's rules of the same names.

    Raises Refusal if the node does not exist.
    """
    reader = _LiveReader(kube, name, clock)
    rules = await reader.list_rules(instead)
    program = compile_program(list(rules.values()))
    groups = any(r.same_fault for r in program.rules) or bool(stored_facts(rules.values()))
    await reader.list_the_rest(everywhere=groups)
    if groups:
        reader.learn(rules)
    facts = reader.store.facts(name)
    if facts is None:
        text = f"node {name} is not in the cluster; `kubectl get nodes` lists those that are"
        raise Refusal(text)
    everything = sorted(reader.all_rules, key=lambda r: (-r.spec.priority, r.metadata.name))
    jobs = list(reader.jobs.by(NODES_OF, name))
    booted_at = reader.store.booted_at(name)
    group_jobs = await reader.read_group_jobs()
    return Live(
        facts, jobs, everything, program, reader.record(name), reader.node(), booted_at, group_jobs
    )


class _LiveReader:
    """The caches, filled once, and the fact store that they feed."""

    def __init__(self, kube: Kube, name: str, clock: Clock) -> None:
        self._kube, self._name, self._clock = kube, name, clock
        self._nodes = Informer(kube, paths.nodes(), structs(Node), clock=clock)
        self._rules = Informer(kube, _path(NodeRemedier), NodeRemedier.from_server, clock=clock)
        self.jobs = Informer(
            kube, _path(RemedyOperationJob), RemedyOperationJob.from_server, clock=clock
        )
        self._records: dict[str, NodeRecordSpec] = {}
        self.jobs.add_index(NODES_OF, lambda job: (job.spec.node_name,))
        self.jobs.add_index(RULES_OF, lambda job: (_rule_of(job),))
        self._host_events = Informer(kube, _path(HostEvent), HostEvent.from_server, clock=clock)
        self._probes = Informer(kube, _path(HostProbe), HostProbe.from_server, clock=clock)
        self._lease = NodeLeaseAge(name, clock)
        self.all_rules: list[NodeRemedier] = []
        self.store = FactStore(
            self._nodes,
            self._past,
            clock,
            accept_single_engine=True,
            leases=self._lease,
            memories=self,
        )

    def _past(self, node: str) -> list[Past]:
        return past_of(self.record(node), self.jobs.by(NODES_OF, node))

    async def read_group_jobs(self) -> GroupJobs:
        """Read the records of other nodes with jobs of rules that have `once`."""
        once = [rule.metadata.name for rule in self.all_rules if rule.spec.once is not None]
        for node in {node for rule in once for node in self._nodes_of(rule)} - {self._name}:
            await self._read_record(node)
        return GroupJobs(self.store.fleet, self._past, self._nodes_of)

    def _nodes_of(self, rule: str) -> list[str]:
        return [job.spec.node_name for job in self.jobs.by(RULES_OF, rule)]

    async def _read_record(self, node: str) -> None:
        with suppress(NotFound, Forbidden):  # unknown kind, or no record yet
            path = f"{_path(NodeRecord)}/{node}"
            stored = await self._kube.get(path, decode=NodeRecord.from_server)
            self._records[node] = stored.spec

    def ready(self) -> bool:
        """Implement EventMemories: the record is read before rules are evaluated."""
        return True

    def past_events(self) -> Mapping[str, EventMemory]:
        memories = ((name, spec.past_events) for name, spec in self._records.items())
        return {name: memory for name, memory in memories if memory is not None}

    def node(self) -> Node | None:
        return self._nodes.get(self._name)

    def record(self, node: str) -> NodeRecordSpec:
        """Return the record of a node that was read; an empty one for any other node."""
        return self._records.get(node, NodeRecordSpec())

    async def list_rules(self, instead: Sequence[NodeRemedier]) -> Mapping[str, RuleVersion]:
        """Return the rules that are not Off, by ID."""
        await once(self._rules)
        known = {rule.metadata.name: rule for rule in self._rules.cache.values()}
        known |= {rule.metadata.name: rule for rule in instead}
        self.all_rules = list(known.values())
        on = (rule for rule in known.values() if rule.spec.mode is not Mode.OFF)
        ids = ((rule_id(rule.metadata.name, rule.metadata.generation), rule) for rule in on)
        return {id_: RuleVersion(id_, rule) for id_, rule in ids}

    async def list_the_rest(self, *, everywhere: bool) -> None:
        """Fill the other caches.

        everywhere: list the Events of all nodes, for rules that count nodes.
        """
        store = self.store
        self._nodes.add_handler(lambda key, old, new: _done(store.node_changed(key, old, new)))
        await self._read_record(self._name)
        await once(self._nodes, self.jobs)
        of_nodes = ABOUT_NODES
        of_nodes += "" if everywhere else f",involvedObject.name={self._name}"
        events = NodeEventSources(self._kube, self._clock, about_nodes=of_nodes)
        # The store drops Events of unknown nodes: add the handler after the nodes are listed.
        events.add_handler(lambda _, old, new: _done(store.event_changed(old, new)))
        self._host_events.add_handler(lambda _, old, new: _done(store.host_event_changed(old, new)))
        self._probes.add_handler(lambda _, old, new: _done(store.probe_changed(old, new)))
        await once(*events.informers, self._host_events, self._probes)
        with suppress(Forbidden):  # a caller who may not list pods gets all other evidence
            await events.attach.reconcile_all()
        await self._lease.read(self._kube)

    def learn(self, rules: Mapping[str, RuleVersion]) -> None:
        """Evaluate the rules for every node, to know how many nodes have the same fault."""
        self.store.rules_loaded({id_: rule.remedier for id_, rule in rules.items()})
        diagnoser = Diagnoser()
        diagnoser.load(list(rules.values()))
        due = list(self._nodes.cache)
        for _ in range(ROUNDS):
            woken: set[str] = set()
            for begin in range(0, len(due), BATCH):
                all_facts = (self.store.facts(name) for name in due[begin : begin + BATCH])
                factsets = [facts for facts in all_facts if facts is not None]
                for diagnosis in diagnoser.diagnose(factsets, self._clock.now()):
                    woken |= set(self.store.learned(diagnosis.node, diagnosis))
            if not woken:
                return
            due = sorted(woken)


class NodeLeaseAge:
    """Implements remedy.remedier.leases.Ages for one node, from the renew time of its Lease.

    The operator measures the age with its own clock. This one trusts the host's clock, which is
    enough for an explanation.
    """

    def __init__(self, name: str, clock: Clock) -> None:
        self._name, self._clock = name, clock
        self._renewed: datetime | None = None

    async def read(self, kube: Kube) -> None:
        """Read the Lease.

        If it does not exist or the caller may not read it, the age stays unknown.
        """
        with suppress(NotFound, Forbidden):
            lease = await kube.get(paths.lease(NODE_LEASES, self._name), structs(Lease))
            self._renewed = lease.spec.renew_time

    def age(self, name: str) -> float | None:
        if name != self._name or self._renewed is None:
            return None
        return max((self._clock.now() - self._renewed).total_seconds(), 0.0)

    def changes_at(self, name: str) -> None:
        return None

    def rules_loaded(self, rules: Iterable[NodeRemedier]) -> None:
        """Do nothing: no reconcile is requested here."""


def _rule_of(job: RemedyOperationJob) -> str:
    return job.spec.remedier.name if job.spec.remedier is not None else ""


def _path(kind: type[Resource]) -> str:
    return paths.custom(kind.resource.plural)


def _done(_: object) -> None:
    """Do nothing with the result of a handler: no reconcile is requested here."""


async def once(*informers: Informer[Any]) -> None:
    """Run the informers until each has listed once. Raises Refusal on a timeout."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(informer.run()) for informer in informers]
        try:
            async with asyncio.timeout(LIST_SECONDS):
                for informer in informers:
                    await informer.synced.wait()
        except TimeoutError as error:
            text = f"the cluster did not list {', '.join(i.path for i in informers)} in time"
            raise Refusal(text, Exit.UNREACHABLE) from error
        finally:
            for task in running:
                task.cancel()
