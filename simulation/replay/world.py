"""A simulated fleet on its own clock: what do rules do, when, and what holds them?

    world = World(rules, start=...)                      # rules that are Off are not loaded
    world.add_node("a", labels={"kubenode.io/pool": "gpu"})
    world.feed(entry(at="0s", node="a", condition={"type": "KernelDeadlock"}))
    world.run_until(world.start + timedelta(minutes=5))
    world.jobs, world.waits("a"), world.facts("a"), world.explain("a", "kernel-deadlock")

The deciding code is production code: facts (remedy.remedier.facts), both rule engines
(rules.diagnose), the choice (remedy.remedier.decide), the job controller (remedy.job) and Kube
Defender's limits (defender.decision.verdict). Only the hosts are simulated (hosts.py): a fault
lasts as long as the timeline says. Nothing here reads a real clock. So the same timeline gives the
same jobs, and entries of one instant about different nodes may come in any order.

The API server and its failures are left out: no write is late and no cache is stale.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from functools import cached_property, partial
from heapq import heappop, heappush
from typing import Any, Protocol

from kubenode.api.v1alpha1 import DefenderPolicy, Mode, NodeRemedier, RemedyOperationJob, Rung
from kubenode.runtime.kube.objects import Node
from remedy.hostdoctor.report import ReportedEvents
from remedy.remedier.build import agent_of, build
from remedy.remedier.choice import Mind, shortest_max_age, trigger, wanted_probes
from remedy.remedier.decide import JobOrder, RuleWait, WaitReason
from remedy.remedier.dryrun import result_of
from remedy.remedier.facts import FactStore
from remedy.remedier.group_jobs import GroupJobs
from remedy.remedier.judge import Judge, rule_id
from remedy.remedier.past import Past
from rules.diagnose import Diagnoser, Diagnosis, LoadReport, Match
from rules.engines.crosscheck import CrossCheck
from rules.explain import explain
from rules.facts import FactSet, Value
from rules.program import RuleProgram, RuleVersion, compile_program
from rules.truth import Truth
from simulation.replay.budget import ReplayPermitClient
from simulation.replay.clock import SetClock
from simulation.replay.compilation import Compiled
from simulation.replay.deliveries import Deliveries
from simulation.replay.fleet import LONG_AGO, PODS, Fleet, healthy
from simulation.replay.happenings import Happenings
from simulation.replay.jobs import Heals, Jobs
from simulation.replay.leases import Leases
from simulation.replay.moments import instant
from simulation.replay.noderecords import SimulatedRecords
from simulation.replay.outside import Hosts, ReplayHostDoctor
from simulation.replay.records import JobRecord
from simulation.replay.signals import NodeSnapshot
from simulation.replay.spans import Span, Spans
from simulation.replay.timeline import Entry

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
"""The start of a world without a given start: a Monday at noon."""
LONGEST = timedelta(hours=1)
ROUNDS = 100
"""Rounds at one instant, more than any sequence of acts takes. More rounds mean a bug here."""


class Engine(Protocol):
    """The parts of rules.diagnose.Diagnoser that a world uses."""

    @property
    def check(self) -> CrossCheck: ...
    def load(self, rules: Sequence[RuleVersion]) -> LoadReport: ...
    def diagnose(self, factsets: Sequence[FactSet], now: datetime) -> list[Diagnosis]: ...


def stays(job: JobRecord, rung: Rung) -> bool:
    """Return False: no repair ends the fault."""
    return False


def heals(job: JobRecord, rung: Rung) -> bool:
    """Return True: the first repair of a host ends the fault."""
    return True


@dataclass(slots=True)
class _NodeState:
    """The remedier's memory of a node, and its last decision.

    waits: rule name to why it waits.
    waiting: the same with the end of each wait.
    wake: when the node is evaluated next; None for no time.
    """

    mind: Mind = field(default_factory=Mind)
    waits: dict[str, WaitReason] = field(default_factory=dict)
    waiting: tuple[RuleWait, ...] = ()
    wake: datetime | None = None


class World:
    """The fleet and the rules.

    diagnoser: the rule engines; None for the reference engine alone.
    compiled: that engine, with rules that an earlier world has compiled.
    policies: empty for the default of Kube Defender.
    unlimited: Kube Defender grants every request.
    heals: whether a rung's repair ends the fault: `stays` (never), `heals`, or a function. None:
        only entries end a fault, and `verify.checks` are not simulated.
    fails: names of steps that fail.
    """

    def __init__(
        self,
        rules: Sequence[NodeRemedier],
        *,
        policies: Sequence[DefenderPolicy] = (),
        unlimited: bool = False,
        diagnoser: Engine | None = None,
        compiled: Compiled | None = None,
        start: datetime = START,
        heals: Heals | None = None,
        fails: Collection[str] = (),
    ) -> None:
        self.start = start
        self._clock = SetClock(start)
        self._fleet = Fleet(start, self._node_changed)
        self._leases = Leases(self._clock)
        self._budget = ReplayPermitClient(self._clock, policies, unlimited=unlimited)
        self._facts = FactStore(
            self._fleet,
            self._past,
            self._clock,
            accept_single_engine=diagnoser is None,
            leases=self._leases,
        )
        self._alone = diagnoser is None
        self._compiled = compiled
        self._diagnoser: Engine = diagnoser or compiled or Diagnoser()
        self._doctor = ReplayHostDoctor(self._clock, self._facts, self._fleet.nodes, start)
        self._hosts = Hosts(self._clock, self._facts, self._later, self._touch)
        self._records = SimulatedRecords(self._fleet.get, self._facts.events_until)
        self._judged = Judge(self, self, self._facts, self._clock)
        self._jobs = Jobs(
            self._clock,
            self._fleet,
            self._budget,
            self._judged,
            self._later,
            self._touch,
            heals,
            self.cure,
            self._doctor.planned,
            self._facts.booted_at,
            self._records,
            fails,
        )
        self._group_jobs = GroupJobs(self._facts.fleet, self._past, self._jobs.nodes_of)
        self._happenings = Happenings(
            start,
            self._clock,
            self._fleet,
            self._facts,
            self._doctor,
            self._hosts,
            self._leases,
            self._jobs,
            self._come,
            self._wake,
            self._later,
        )
        self.happen = self._happenings.happen
        """Apply one entry now; `feed` and `run_until` apply entries at their time."""
        self._state: dict[str, _NodeState] = {}
        self._dirty: dict[str, None] = {}
        self._todo: list[tuple[datetime, int, Callable[[], None]]] = []
        self._wakes: list[tuple[datetime, str]] = []
        self._count = 0
        self._waits, self._infers = Spans(), Spans()
        self.evaluations = 0
        self._load(rules)

    def _load(self, rules: Sequence[NodeRemedier]) -> None:
        self.rules = {r.metadata.name: r for r in rules if r.spec.mode is not Mode.OFF}
        versions = {rule_id(n, r.metadata.generation): r for n, r in self.rules.items()}
        report = self._diagnoser.load([RuleVersion(id_, rule) for id_, rule in versions.items()])
        self.rejected = {id_.rpartition("@")[0]: why for id_, why in report.rejected.items()}
        """Rules that the engines rejected, by name, with the reason. The others run."""
        bad = {*report.rejected, *report.quarantined}
        self._active = {id_: rule for id_, rule in versions.items() if id_ not in bad}
        self._inferring = {i: r for i, r in self._active.items() if r.spec.infer is not None}
        self._facts.rules_loaded(versions)
        self._happenings.rules_loaded(self._active.values())
        self._facts.shortest_max_age = shortest_max_age(self._active.values())

    # -- building and running ---------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return self._clock.now()

    def add_node(
        self,
        name: str,
        snapshot: NodeSnapshot | None = None,
        *,
        age: timedelta = LONG_AGO,
        pods: int = PODS,
        **fields: Any,
    ) -> None:
        """Add a node that exists now. It is old and healthy unless the fields say otherwise.

        fields: fields of NodeSnapshot, if `snapshot` is None.
        """
        snapshot = snapshot or NodeSnapshot.model_validate(fields)
        known = {c.type for c in snapshot.conditions}
        usual = [c for c in healthy(self.now, age) if c.type not in known]
        update = {
            "conditions": [*usual, *snapshot.conditions],
            "created": snapshot.created or self.now - age,
        }
        self._leases.say(name, renewed=True)
        self._fleet.create(name, snapshot.model_copy(update=update), self.now, pods=pods)

    def _come(self, name: str, snapshot: NodeSnapshot | None) -> None:
        """Create a node exactly as in the snapshot; without one, a new and healthy node."""
        if snapshot is None:
            self.add_node(name, age=timedelta(0))
        else:
            self._fleet.create(name, snapshot, self.now)

    def repaired(self, node: str, at: datetime, *, ended: bool = True) -> None:
        """Let Kube Defender remember a repair of the node from before the timeline."""
        self._budget.remember(node, at, ended=ended)

    def feed(self, *entries: Entry) -> None:
        """Schedule the entries at their times; past ones are applied at once."""
        for entry in entries:
            self._later(instant(entry.at, self.start), partial(self.happen, entry))

    def answer(self, node: str, answers: Mapping[str, Mapping[str, Value] | None]) -> None:
        """Set the answers to probes from now on; None stops the answers of that probe."""
        self._hosts.answer(node, answers)

    @property
    def deliveries(self) -> Deliveries:
        """Return the deliveries to Host Doctor and what became of them."""
        return self._doctor.deliveries

    def known(self, at: datetime, node: str, transport: str, events: ReportedEvents) -> None:
        """Process the parsed events of an earlier delivery at `at`.

        node: the node whose agent reported it, or "".
        """

        def happen() -> None:
            self._wake(self._doctor.known(node, transport, events))

        self._later(at, happen)

    def run_until(self, end: datetime) -> None:
        """Run everything up to `end`, including what happens at `end`."""
        self._settle()
        while (at := self.next_at()) is not None and at <= end:
            self._clock.set(max(at, self.now))
            self._settle()
        if end > self.now:
            self._clock.set(end)
            self._settle()

    def run_before(self, end: datetime) -> None:
        """Run everything that is due before `end`, and set the clock to `end`."""
        while (at := self.next_at()) is not None and at < end:
            self._clock.set(max(at, self.now))
            self._settle()
        self._clock.set(max(end, self.now))

    # -- what can be read -------------------------------------------------------------------------

    @property
    def jobs(self) -> Sequence[JobRecord]:
        """Return the records of all jobs, in the order in which they were made."""
        return self._jobs.records

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._fleet.nodes

    def jobs_of(self, node: str) -> list[JobRecord]:
        return [record for record in self._jobs.records if record.node == node]

    def waits(self, node: str) -> Mapping[str, WaitReason]:
        """Return the rules that match the node and make no job now, by name, with the reason."""
        state = self._state.get(node)
        return state.waits if state is not None else {}

    def waiting(self, node: str) -> Sequence[RuleWait]:
        """Return the same with the end of each wait."""
        state = self._state.get(node)
        return state.waiting if state is not None else ()

    @property
    def waited(self) -> Sequence[Span]:
        """Return all times in which a rule matched a node and made no job, with the reason."""
        return self._waits.all

    @property
    def inferred(self) -> Sequence[Span]:
        """Return all times in which a node was evidence for an inferred fact."""
        return self._infers.all

    def facts(self, node: str) -> FactSet | None:
        """Return the facts of the node now; None if the node does not exist."""
        if node not in self._fleet.nodes:
            return None
        self._fleet.beat(node, self.now)
        self._doctor.live()
        return self._facts.facts(node)

    def matches(self, node: str) -> tuple[Match, ...]:
        """Return the result of each rule that selects the node now, in the order of choice."""
        facts = self.facts(node)
        return self._diagnose([facts])[0].matches if facts is not None else ()

    def explain(self, node: str, rule: str) -> str:
        """Explain as text why the rule matches the node now, or does not."""
        facts, remedier = self.facts(node), self.rules.get(rule)
        if remedier is None:
            return self.rejected.get(rule) or f"rule {rule} is not loaded"
        if facts is None:
            return f"node {node} is not there"
        return explain(remedier, facts, self.now, self._program)

    @cached_property
    def _program(self) -> RuleProgram:
        """The compiled rules for explanations, which name the rules that infer a fact."""
        rules = [RuleVersion(id_, rule) for id_, rule in self._active.items()]
        return compile_program(rules) if self._compiled is None else self._compiled.program(rules)

    def list_probes(self, node: str) -> Sequence[str]:
        """Return the names of the probes that were sent to the node, in order."""
        return self._hosts.of(node).kinds

    # -- time -------------------------------------------------------------------------------------

    def _later(self, at: datetime, what: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._todo, (at, self._count, what))

    def next_at(self) -> datetime | None:
        """Return when something happens next; None for never."""
        times = [heap[0][0] for heap in (self._todo, self._wakes) if heap]
        job = self._jobs.next_wake()
        return min([*times, job] if job is not None else times, default=None)

    def _settle(self) -> None:
        """Do everything that is due now."""
        for _ in range(ROUNDS):
            self._happen()
            for name in self._woken():
                self._dirty[name] = None
            if self._dirty:
                nodes, self._dirty = sorted(self._dirty), {}
                self._decide(nodes)
            for job in self._jobs.due(self.now):
                self._jobs.work(job)
            next_ = self.next_at()
            if not self._dirty and (next_ is None or next_ > self.now):
                return
        raise AssertionError(f"no end of changes at {self.now}: {sorted(self._dirty)[:3]}")

    def _happen(self) -> None:
        while self._todo and self._todo[0][0] <= self.now:
            heappop(self._todo)[2]()

    def _woken(self) -> list[str]:
        due = []
        while self._wakes and self._wakes[0][0] <= self.now:
            at, name = heappop(self._wakes)
            state = self._state.get(name)
            if state is not None and state.wake == at:
                state.wake = None
                due.append(name)
        return due

    def _touch(self, node: str) -> None:
        self._dirty[node] = None

    # -- what happens -----------------------------------------------------------------------------

    def _node_changed(self, name: str, old: Node | None, new: Node | None) -> None:
        self._budget.node_changed(name, old, new)
        self._doctor.deliveries.node_changed(old, new)
        if new is None:
            self._leases.forget(name)
        elif old is not None and old.status.node_info.boot_id != new.status.node_info.boot_id:
            self._leases.booted(name)
            self._later(self.now, partial(self._happenings.booted, name))
        if not self._facts.node_changed(name, old, new):
            return
        if new is None:
            self._state.pop(name, None)
            self._wake(self._facts.learned(name, Diagnosis(name)))
            return
        self._dirty[name] = None
        self._jobs.wake_node(name)

    def cure(self, node: str, rule: NodeRemedier) -> None:
        """End what the rule reads of the node as evidence."""
        self._happenings.cure(node, rule)

    @property
    def signals(self) -> int:
        """Return how many entries were applied, each once for each of its nodes."""
        return self._happenings.signals

    def _wake(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._touch(node)

    # -- what the remedier does -------------------------------------------------------------------

    def _decide(self, nodes: Iterable[str]) -> None:
        """Run the remedier once for each of these nodes."""
        pairs = [(name, facts) for name in nodes if (facts := self.facts(name)) is not None]
        results = self._diagnose([facts for _, facts in pairs])
        for (name, facts), diagnosis in zip(pairs, results, strict=True):
            self._reconcile(name, facts, diagnosis)

    def _diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        self.evaluations += len(factsets)
        return self._diagnoser.diagnose(factsets, self.now)

    def _reconcile(self, name: str, facts: FactSet, diagnosis: Diagnosis) -> None:
        woken = self._facts.learned(name, diagnosis)
        self._wake(woken)
        if name in woken:
            return  # it is decided in the next round, with what was just learned
        state = self._state.get(name)
        if state is None:
            state = self._state[name] = _NodeState()
        now, node = self.now, self._fleet.nodes[name]
        probe_at = self._hosts.ask(name, agent_of(node), wanted_probes(diagnosis))
        self._records.judge(name, diagnosis, facts, now)
        booted_at, past = self._facts.booted_at(name), self._past(name)
        mind, active, unjudged = state.mind, self._active, self._facts.unjudged
        cover = partial(self._group_jobs.cover, name, now=now)
        choice = mind.choose(
            node, booted_at, facts, diagnosis, active, past, now, unjudged, cover=cover
        )
        decision = choice.decision
        state.waits, state.waiting = dict(decision.waits), decision.waiting
        self._waits.now(name, decision.waits, now)
        if self._inferring:
            self._infers.now(name, self._inferred_by(diagnosis), now)
        if self._jobs.stronger.store(name, decision.stronger):
            self._jobs.wake_node(name)
        for order in decision.orders:
            self._make(order, choice.match(order.candidate.rule_id), node, facts)
        for order in decision.dry_runs:
            match, rule = choice.match(order.candidate.rule_id), order.candidate.rule
            result, _ = result_of(order, match, node, facts, now)
            self._records.add_dry_run(name, rule.metadata.name, rule.spec.fault_class, result)
            self._group_jobs.add_dry_run(name, rule)
            self._make(order, match, node, facts)  # it ends at once, with the verdict
        times = (decision.at, probe_at, diagnosis.flips_at, self._facts.changes_at(name))
        self._schedule_wake(name, state, times)

    def _inferred_by(self, diagnosis: Diagnosis) -> list[tuple[str, str]]:
        return [
            (rule.metadata.name, f"{rule.spec.infer.fact} = {rule.spec.infer.value}")
            for match in diagnosis.matches
            if match.evidence is Truth.TRUE
            and (rule := self._inferring.get(match.rule_id)) is not None
            and rule.spec.infer is not None
        ]

    def _make(self, order: JobOrder, match: Match, node: Node, facts: FactSet) -> None:
        if self._jobs.has(order.name):
            return
        rule, now = order.candidate.rule, self.now
        text = explain(rule, facts, now, self._program)
        grouped = replace(order, group=self._group_jobs.group(node.metadata.name, rule))
        body = build(grouped, node, trigger(match), text, now, facts.host_events)
        record = JobRecord(
            name=order.name,
            node=node.metadata.name,
            rule=rule,
            made=now,
            fault_since=order.candidate.since,
            ladder=rule.spec.ladder or [],
            start_rung=order.start_rung,
            previous=order.previous,
            also_matched=tuple(name for name, _ in order.others),
            explanation=text,
        )
        self._jobs.make(RemedyOperationJob.model_validate(body), record)

    def _schedule_wake(
        self, name: str, state: _NodeState, times: Iterable[datetime | None]
    ) -> None:
        known = [t for t in times if t is not None]
        if not known:
            state.wake = None
            return
        soonest = self.now + timedelta(milliseconds=1)
        state.wake = max(min(min(known), self.now + LONGEST), soonest)
        heappush(self._wakes, (state.wake, name))

    def _past(self, node: str) -> Sequence[Past]:
        return [*self._records.past(node), *self._jobs.open(node)]

    # -- ports of the judge -----------------------------------------------------------------------

    async def diagnose(self, node: str) -> tuple[FactSet, Diagnosis] | None:
        facts = self.facts(node)
        return None if facts is None else (facts, self._diagnose([facts])[0])

    def is_loaded(self, version: str) -> bool:
        return version in self._active

    @property
    def trouble(self) -> str:
        return self._diagnoser.check.trouble

    @property
    def accept_single_engine(self) -> bool:
        return self._alone
