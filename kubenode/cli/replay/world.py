"""A fleet in which rules run on a clock of our own: what would they do, when, and what holds them?

    world = World(rules, start=...)                      # rules that are Off are not loaded
    world.add_node("a", labels={"kubenode.io/pool": "gpu"})
    world.feed(entry(at="0s", node="a", condition={"type": "KernelDeadlock"}))
    world.run_until(world.start + timedelta(minutes=5))
    world.jobs, world.waits("a"), world.facts("a"), world.explain("a", "kernel-deadlock")

The code that decides is production's: facts (remedy.remedier.facts), both rule engines
(rules.diagnose), the choice (remedy.remedier.decide), the job controller (remedy.job) and Kube
Defender's limits (defender.verdict). Simulated are only the hosts (hosts.py): a fault stays as the
timeline says. Nothing here reads a machine's clock, so the same timeline gives the same jobs, and
entries of one instant about different nodes may come in any order.

Not part of it are the API server and its failures: no write is late and no cache is stale.
"""

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from fnmatch import fnmatchcase
from heapq import heappop, heappush
from typing import Any, cast

from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import DefenderPolicy, Mode, NodeRemedier, RemedyOperationJob, Rung
from kubenode.api.v1alpha1.leaves import AlertLeaf, ConditionLeaf, HostEventLeaf
from kubenode.cli.replay.budget import Budget
from kubenode.cli.replay.choosing import (
    candidate,
    follows_time,
    matching,
    shortest_max_age,
    trigger,
)
from kubenode.cli.replay.clock import SetClock
from kubenode.cli.replay.fleet import LONG_AGO, PODS, Fleet, healthy
from kubenode.cli.replay.jobs import Jobs
from kubenode.cli.replay.moments import instant
from kubenode.cli.replay.outside import HostDoctor, Hosts
from kubenode.cli.replay.records import JobRecord
from kubenode.cli.replay.signals import Condition, Event, NodeLook
from kubenode.cli.replay.spans import Span, Spans
from kubenode.cli.replay.timeline import Entry
from kubenode.runtime.kube import objects
from kubenode.runtime.kube.objects import Node, ObjectMeta
from remedy.remedier.build import agent_of, build
from remedy.remedier.decide import Order, Subject, Why, decide
from remedy.remedier.facts import FactStore
from remedy.remedier.judge import Judge, rule_id
from remedy.remedier.since import Matched
from rules.diagnose import Diagnoser, Diagnosis, Match
from rules.explain import explain
from rules.facts import FactSet, Value
from rules.program import Rule
from rules.truth import Truth

START = datetime(2026, 1, 5, 12, 0, tzinfo=UTC)
"""A Monday noon, when nothing else is said."""
LOOK_AGAIN = timedelta(minutes=1)
"""For rules whose evidence changes with time alone, as the operator's setting is by default."""
LONGEST = timedelta(hours=1)
ROUNDS = 100
"""More rounds at one instant than any sequence of acts takes: a loop would be our own mistake."""
Heals = Callable[[JobRecord, Rung], bool]


def stays(job: JobRecord, rung: Rung) -> bool:
    """No repair helps."""
    return False


def heals(job: JobRecord, rung: Rung) -> bool:
    """The first repair of a host helps."""
    return True


@dataclass(slots=True)
class _NodeState:
    """What the remedier remembers of a node, and what it said last."""

    first_match: datetime | None = None
    matched: Matched = field(default_factory=Matched)
    waits: dict[str, Why] = field(default_factory=dict)
    wake: datetime | None = None


class World:
    """diagnoser  None: the reference engine alone, taken at its word
    policies   none: Kube Defender's default; `unlimited`: it grants everything
    heals      whether a rung's repair ends the fault: `stays` (never) or `heals`, or own
    fails      names of steps that fail
    """

    def __init__(
        self,
        rules: Sequence[NodeRemedier],
        *,
        policies: Sequence[DefenderPolicy] = (),
        unlimited: bool = False,
        diagnoser: Diagnoser | None = None,
        start: datetime = START,
        heals: Heals = stays,
        fails: Collection[str] = (),
    ) -> None:
        self.start = start
        self._clock = SetClock(start)
        self._fleet = Fleet(start, self._node_changed)
        self._budget = Budget(self._clock, policies, unlimited=unlimited)
        self._facts = FactStore(
            self._fleet, self._past, self._clock, one_engine_is_enough=diagnoser is None
        )
        self._diagnoser, self._alone = diagnoser or Diagnoser(), diagnoser is None
        self._doctor = HostDoctor(self._clock, self._facts, start)
        self._hosts = Hosts(self._clock, self._facts, self._later, self._touch)
        self._judged = Judge(cast(Any, self), self, self._facts, self._clock)
        self._jobs = Jobs(
            self._clock,
            self._fleet,
            self._budget,
            self._judged,
            self._later,
            self._touch,
            heals,
            self._cure,
            fails,
        )
        self._state: dict[str, _NodeState] = {}
        self._dirty: dict[str, None] = {}
        self._todo: list[tuple[datetime, int, Callable[[], None]]] = []
        self._wakes: list[tuple[datetime, str]] = []
        self._count = self._events = 0
        self._waits, self._infers = Spans(), Spans()
        self.signals = 0
        """Entries that happened, each once for each node it names."""
        self.evaluations = 0
        self._load(rules)

    def _load(self, rules: Sequence[NodeRemedier]) -> None:
        self.rules = {r.metadata.name: r for r in rules if r.spec.mode is not Mode.OFF}
        versions = {rule_id(n, r.metadata.generation): r for n, r in self.rules.items()}
        report = self._diagnoser.load([Rule(id_, rule) for id_, rule in versions.items()])
        self.rejected = {id_.rpartition("@")[0]: why for id_, why in report.rejected.items()}
        """By name why a rule was refused by the engines; the others run."""
        bad = {*report.rejected, *report.quarantined}
        self._active = {id_: rule for id_, rule in versions.items() if id_ not in bad}
        self._inferring = {i: r for i, r in self._active.items() if r.spec.infer is not None}
        self._follows_time = any(map(follows_time, self._active.values()))
        self._facts.rules_loaded(versions)
        self._facts.shortest_max_age = shortest_max_age(self._active.values())

    # -- building and running ---------------------------------------------------------------------

    @property
    def now(self) -> datetime:
        return self._clock.now()

    def add_node(
        self,
        name: str,
        look: NodeLook | None = None,
        *,
        age: timedelta = LONG_AGO,
        pods: int = PODS,
        **fields: Any,
    ) -> None:
        """A node that is there now; `fields` are those of NodeLook. It is healthy and old."""
        look = look or NodeLook.model_validate(fields)
        known = {c.type for c in look.conditions}
        usual = [c for c in healthy(self.now, age) if c.type not in known]
        update = {
            "conditions": [*usual, *look.conditions],
            "created": look.created or self.now - age,
        }
        self._fleet.create(name, look.model_copy(update=update), self.now, pods=pods)

    def feed(self, *entries: Entry) -> None:
        """Let these happen at their times; what lies in the past happens now."""
        for entry in entries:
            self._later(instant(entry.at, self.start), _Happens(self, entry))

    def answer(self, node: str, answers: Mapping[str, Mapping[str, Value] | None]) -> None:
        """What is said from now on when somebody asks; None: nothing any more."""
        self._hosts.answer(node, answers)

    def run_until(self, end: datetime) -> None:
        """Let everything happen up to and at `end`."""
        self._settle()
        while (at := self._next()) is not None and at <= end:
            self._clock.set(max(at, self.now))
            self._settle()
        self._clock.set(max(end, self.now))
        self._settle()

    def run_before(self, end: datetime) -> None:
        """Let everything happen that is due before `end`, and stand there."""
        while (at := self._next()) is not None and at < end:
            self._clock.set(max(at, self.now))
            self._settle()
        self._clock.set(max(end, self.now))

    # -- what can be read -------------------------------------------------------------------------

    @property
    def jobs(self) -> Sequence[JobRecord]:
        """All jobs that were made, in that order."""
        return self._jobs.records

    @property
    def nodes(self) -> Mapping[str, Node]:
        return self._fleet.nodes

    def jobs_of(self, node: str) -> list[JobRecord]:
        return [record for record in self._jobs.records if record.node == node]

    def waits(self, node: str) -> Mapping[str, Why]:
        """By name the rules that match the node but make no job now, and why."""
        state = self._state.get(node)
        return state.waits if state is not None else {}

    @property
    def waited(self) -> Sequence[Span]:
        """All times in which a rule matched a node but made no job, and why."""
        return self._waits.all

    @property
    def inferred(self) -> Sequence[Span]:
        """All times in which a node was evidence for a derived fact."""
        return self._infers.all

    def facts(self, node: str) -> FactSet | None:
        """What the rules see of the node now; None for a node that is not there."""
        if node not in self._fleet.nodes:
            return None
        self._fleet.beat(node, self.now)
        self._doctor.live()
        return self._facts.facts(node)

    def matches(self, node: str) -> tuple[Match, ...]:
        """What each rule that selects the node says of it now, in the order of choice."""
        facts = self.facts(node)
        return self._diagnose([facts])[0].matches if facts is not None else ()

    def explain(self, node: str, rule: str) -> str:
        """Why the rule matches the node now or does not, as a text for people."""
        facts, found = self.facts(node), self.rules.get(rule)
        if found is None:
            return self.rejected.get(rule) or f"rule {rule} is not loaded"
        if facts is None:
            return f"node {node} is not there"
        return explain(found, facts, self.now)

    def asked(self, node: str) -> Sequence[str]:
        """The probes that were asked of the node, in order."""
        return self._hosts.of(node).asked

    # -- time -------------------------------------------------------------------------------------

    def _later(self, at: datetime, what: Callable[[], None]) -> None:
        self._count += 1
        heappush(self._todo, (at, self._count, what))

    def _next(self) -> datetime | None:
        times = [heap[0][0] for heap in (self._todo, self._wakes) if heap]
        job = self._jobs.next_wake()
        return min([*times, job] if job is not None else times, default=None)

    def _settle(self) -> None:
        """Do all that is to be done at this instant."""
        for _ in range(ROUNDS):
            self._happen()
            for name in self._woken():
                self._dirty[name] = None
            if self._dirty:
                nodes, self._dirty = sorted(self._dirty), {}
                self._decide(nodes)
            for job in self._jobs.due(self.now):
                self._jobs.work(job)
            next_ = self._next()
            if not self._dirty and (next_ is None or next_ > self.now):
                return
        raise AssertionError(f"no end of changes at {self.now}: {sorted(self._dirty)[:3]}")

    def _happen(self) -> None:
        while self._todo and self._todo[0][0] <= self.now:
            heappop(self._todo)[2]()

    def _woken(self) -> list[str]:
        found = []
        while self._wakes and self._wakes[0][0] <= self.now:
            at, name = heappop(self._wakes)
            state = self._state.get(name)
            if state is not None and state.wake == at:
                state.wake = None
                found.append(name)
        return found

    def _touch(self, node: str) -> None:
        self._dirty[node] = None

    # -- what happens -----------------------------------------------------------------------------

    def _node_changed(self, name: str, old: Node | None, new: Node | None) -> None:
        self._budget.node_changed(name, old, new)
        if not self._facts.node_changed(name, old, new):
            return
        if new is None:
            self._wake(self._facts.learned(name, Diagnosis(name)))
            return
        self._dirty[name] = None
        self._jobs.wake_node(name)

    def happen(self, entry: Entry) -> None:
        """One entry, now."""
        if not entry.node:
            self._of_the_fleet(entry)
            return
        for pattern in entry.nodes:
            names = [pattern]
            if "*" in pattern:
                names = [n for n in self._fleet.nodes if fnmatchcase(n, pattern)]
            for name in names:
                self.signals += 1
                self._apply(name, entry)

    def _of_the_fleet(self, entry: Entry) -> None:
        self.signals += 1
        assert entry.alert_source is not None
        self._wake(self._doctor.source_of_alerts(entry.alert_source))

    def _apply(self, name: str, entry: Entry) -> None:
        now, fleet = self.now, self._fleet
        if entry.lifecycle == "created":
            self.add_node(name, entry.look)
            return
        if name not in fleet.nodes:
            return  # an informer would have heard nothing either
        match entry.signal:
            case "condition":
                assert entry.condition is not None
                fleet.condition(name, entry.condition, now)
            case "label":
                fleet.label(name, entry.label or {})
            case "annotation":
                fleet.annotate(name, entry.annotation or {})
            case "taint":
                assert entry.taint is not None
                fleet.taint(name, entry.taint)
            case "cordon":
                fleet.cordon(name, bool(entry.cordon))
            case "boot":
                fleet.boot(name, entry.boot.id if entry.boot else "")
                self._jobs.event_over(name)
            case "system":
                assert entry.system is not None
                fleet.system(name, entry.system)
            case "silent":
                fleet.silence(name, entry.silent if entry.silent is not None else True, now)
            case "heard":
                fleet.hear(name, entry.heard if entry.heard is not None else True, now)
            case "lifecycle":
                fleet.delete(name)
                self._state.pop(name, None)
                self._hosts.forget(name)
                self._jobs.wake_node(name)
            case "event":
                assert entry.event is not None
                self._event(name, entry.event)
            case "host_event":
                assert entry.host_event is not None
                uid = fleet.nodes[name].metadata.uid
                self._wake(self._doctor.event(name, uid, entry.host_event))
                if not entry.host_event.phase.open:
                    self._jobs.event_over(name)
                self._jobs.wake_node(name)
            case "alert":
                assert entry.alert is not None
                uid = fleet.nodes[name].metadata.uid
                self._wake(self._doctor.alert(name, uid, entry.alert))
                self._jobs.wake_node(name)
            case "probe":
                self.answer(name, entry.probe or {})
            case "pods":
                fleet.reporters[name].pods = entry.pods or 0
            case "person":
                assert entry.person is not None
                self._jobs.person(name, entry.person)
            case _:
                raise AssertionError(f"signal {entry.signal} has no meaning here")

    def _event(self, name: str, signal: Event) -> None:
        self._events += 1
        now = self.now
        last = instant(signal.last, self.start) if signal.last is not None else now
        first = instant(signal.first, self.start) if signal.first is not None else last
        uid = signal.uid or f"event-{self._events}"
        heard = self._facts.event_changed(
            None,
            objects.Event(
                ObjectMeta(name=uid, uid=uid, creation_timestamp=now),
                objects.ObjectReference(kind="Node", name=name),
                type=signal.severity,
                reason=signal.reason,
                message=signal.message,
                source=objects.EventSource(component=signal.source),
                count=signal.count,
                first_timestamp=first,
                last_timestamp=last,
            ),
        )
        if heard is not None:
            self._touch(heard)
            self._jobs.wake_node(heard)

    def _cure(self, node: str, rule: NodeRemedier) -> None:
        """A repair has helped: what the rule reads as evidence is over."""
        if node not in self._fleet.nodes:
            return
        for leaf in rule.spec.when.leaves():
            if isinstance(leaf, ConditionLeaf):
                self._end_condition(node, leaf)
            elif isinstance(leaf, HostEventLeaf | AlertLeaf):
                self._wake(self._doctor.end(node, leaf))

    def _end_condition(self, node: str, leaf: ConditionLeaf) -> None:
        found = self._fleet.nodes[node].status.conditions
        if any(c.type == leaf.type and c.status == leaf.status for c in found):
            well = "True" if leaf.status is not ConditionStatus.TRUE else "False"
            signal = Condition(type=leaf.type, status=ConditionStatus(well))
            self._fleet.condition(node, signal, self.now)

    def _wake(self, nodes: Iterable[str]) -> None:
        for node in nodes:
            self._touch(node)

    # -- what the remedier does -------------------------------------------------------------------

    def _decide(self, nodes: Iterable[str]) -> None:
        """One run of the remedier for each of these nodes."""
        found = [(name, facts) for name in nodes if (facts := self.facts(name)) is not None]
        said = self._diagnose([facts for _, facts in found])
        for (name, facts), diagnosis in zip(found, said, strict=True):
            self._reconcile(name, facts, diagnosis)

    def _diagnose(self, factsets: list[FactSet]) -> list[Diagnosis]:
        self.evaluations += len(factsets)
        return self._diagnoser.diagnose(factsets, self.now)

    def _reconcile(self, name: str, facts: FactSet, diagnosis: Diagnosis) -> None:
        state = self._state.get(name)
        if state is None:
            state = self._state[name] = _NodeState()
        woken = self._facts.learned(name, diagnosis)
        self._wake(woken)
        if name in woken:
            return  # decided in the next round, on what was just learned
        now, node = self.now, self._fleet.nodes[name]
        names = {probe for match in diagnosis.matches for probe in match.probes}
        asked_at = self._hosts.ask(name, agent_of(node), names)
        matches = matching(diagnosis, self._active)
        if self._inferring:
            self._infers.now(name, self._inferred_by(diagnosis), now)
        state.matched.see(diagnosis.matches, now)
        at = None
        if matches:
            state.first_match = state.first_match or now
            candidates = [
                candidate(m, rule, state.matched.since(m.rule_id, rule, facts, now))
                for m, rule in matches
            ]
            subject = Subject(
                name=name,
                uid=node.metadata.uid,
                created=node.metadata.creation_timestamp,
                booted_at=self._facts.booted_at(name),
                first_match=state.first_match,
            )
            decision = decide(subject, candidates, self._past(name), now)
            state.waits, at = dict(decision.waits), decision.at
            self._waits.now(name, decision.waits, now)
            for order in decision.orders:
                match = next(m for m, _ in matches if m.rule_id == order.candidate.rule_id)
                self._make(order, match, node, facts)
        else:
            state.first_match, state.waits = None, {}
            self._waits.now(name, (), now)
        changes_at = self._facts.changes_at(name)
        self._look_again(name, state, [at, asked_at, diagnosis.flips_at, changes_at])

    def _inferred_by(self, diagnosis: Diagnosis) -> list[tuple[str, str]]:
        return [
            (rule.metadata.name, f"{rule.spec.infer.fact} = {rule.spec.infer.value}")
            for match in diagnosis.matches
            if match.evidence is Truth.TRUE
            and (rule := self._inferring.get(match.rule_id)) is not None
            and rule.spec.infer is not None
        ]

    def _make(self, order: Order, match: Match, node: Node, facts: FactSet) -> None:
        if self._jobs.has(order.name):
            return
        rule, now = order.candidate.rule, self.now
        text = explain(rule, facts, now)
        body = build(order, node, trigger(match), text, now)
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

    def _look_again(self, name: str, state: _NodeState, times: Iterable[datetime | None]) -> None:
        known = [t for t in times if t is not None]
        if self._follows_time:
            known.append(self.now + LOOK_AGAIN)
        if not known:
            state.wake = None
            return
        soonest = self.now + timedelta(milliseconds=1)
        state.wake = max(min(min(known), self.now + LONGEST), soonest)
        heappush(self._wakes, (state.wake, name))

    def _past(self, node: str) -> Sequence[Any]:
        return self._jobs.past(node)

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
    def one_engine_is_enough(self) -> bool:
        return self._alone


@dataclass(frozen=True, slots=True)
class _Happens:
    world: World
    entry: Entry

    def __call__(self) -> None:
        self.world.happen(self.entry)
