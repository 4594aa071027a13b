"""The remedier: reconciles one Node and creates at most one open job for it.

It never learns what woke it. It reads the current diagnosis, the node record and the open jobs, and
either creates the next job or returns when to reconcile again.
"""

import logging
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from functools import partial
from typing import Protocol

from kubenode.api.v1alpha1 import NodeRemedier, RemedyOperationJob
from kubenode.runtime.clock import Clock
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.recorder import EventRecorder, Regarding
from remedy.job.model import ACTING
from remedy.job.store import PLURAL
from remedy.noderecord.evidence import find_dry_run_matches
from remedy.noderecord.store import NodeRecords
from remedy.remedier import traces
from remedy.remedier.build import agent_of, build
from remedy.remedier.choice import Choice, Mind, matching, probe_rules, trigger
from remedy.remedier.decide import JobOrder, WaitReason
from remedy.remedier.dryrun import result_of
from remedy.remedier.evaluator import Evaluator
from remedy.remedier.facts import FactStore
from remedy.remedier.fault_watch import REASON, Unattended, list_waiting_rules
from remedy.remedier.group_jobs import GroupJobs
from remedy.remedier.lag import lags
from remedy.remedier.metrics import CREATED, EXISTED, RemedierMetrics
from remedy.remedier.past import Past
from remedy.remedier.stronger import Stronger
from rules.diagnose import Diagnosis, Match
from rules.explain import explain
from rules.facts import FactSet

log = logging.getLogger(__name__)

AGAIN = timedelta(seconds=10)
"""Interval of reconciles while a cache or source is stale: no event reports that it is current
again.
"""
STALE = Result(AGAIN)
LONGEST = timedelta(hours=1)
"""Upper bound of the time until the next reconcile: resyncs come more often anyway."""


class Asks(Protocol):
    """Sends probes to hosts."""

    async def ask(
        self,
        node: str,
        agent: str,
        enforced: Mapping[str, Collection[str]],
        dry: Mapping[str, Collection[str]],
    ) -> datetime | None:
        """Send the probes that are due, each named `probe.field`; return when to come again, None:
        never.

        enforced: rules in a mode that acts that need each probe
        dry: rules in DryRun that need each probe
        """
        ...

    def forget(self, node: str) -> None:
        """Forget a node that is gone."""
        ...


class Rules(Protocol):
    """What the remedier needs from the rule registry."""

    def active(self) -> Mapping[str, NodeRemedier]:
        """Return the rules that may create jobs, by rule id, without frozen versions that only open
        jobs follow.
        """
        ...

    def matched(self, node: str, rules: frozenset[str], now: datetime) -> None:
        """Record which active rules match `node` now, before guards, for their status."""
        ...

    def is_crowded(self, rule_id: str) -> bool:
        """Report whether the rule acts without a permit and matches too many nodes to mark one
        more.
        """
        ...


@dataclass(slots=True)
class _Memory:
    """What is remembered of one node. Losing it in a restart only delays, or repeats an Event."""

    mind: Mind = field(default_factory=Mind)
    waits: frozenset[tuple[str, WaitReason]] = frozenset()
    changed_at: float | None = None
    turned: tuple[datetime, datetime] | None = None
    """When a condition last changed its status: by its reporter, and when we observed it."""
    due_at: float | None = None
    """When a wait that delayed the decision is over. `changed_at` and `due_at` are monotonic
    seconds.
    """

    def could_decide(self, now: float) -> float | None:
        """Return the start of our own decision latency, in monotonic seconds; None if unknown."""
        known = (self.changed_at, self.due_at)
        return max((at for at in known if at is not None and at <= now), default=None)


@dataclass(slots=True)
class Remedier:
    """Reconciles Nodes: evaluates the rules, decides and creates jobs."""

    kube: Kube
    nodes: Informer[Node]
    jobs: Informer[RemedyOperationJob]
    facts: FactStore
    evaluator: Evaluator
    rules: Rules
    clock: Clock
    fence: Fence
    recorder: EventRecorder
    metrics: RemedierMetrics
    probes: Asks
    records: NodeRecords
    group_jobs: GroupJobs
    stronger: Stronger = field(default_factory=Stronger)
    wake: Callable[[str], None] = lambda name: None
    """Requeues another node, by name."""
    wake_job: Callable[[str], None] = lambda name: None
    """Requeues a job, by name."""
    unattended: Unattended = field(default_factory=Unattended)
    _memory: dict[str, _Memory] = field(default_factory=dict)

    def noticed(self, name: str, old: Node | None, new: Node | None) -> Sequence[str]:
        """Map a change of a Node to the keys to reconcile; a mere heartbeat gives none."""
        if not self.facts.node_changed(name, old, new):
            return ()
        if old is not new:
            memory = self._memory.setdefault(name, _Memory())
            memory.changed_at = self.clock.monotonic()
            if old is not None and new is not None:
                memory.turned = self._turned(old, new) or memory.turned
        return (name,)

    async def reconcile(self, name: str) -> Result:
        node = self.nodes.get(name)
        if node is None:
            self._gone(name)
            return DONE
        started = self.clock.now()
        answer = await self.evaluator.diagnose(name)
        if answer is None:
            return DONE
        facts, diagnosis = answer
        if self._learn(name, diagnosis):
            return DONE  # the next run decides, on the facts that just changed
        if not facts.fresh or not self.records.ready():
            return STALE
        now = self.clock.now()
        booted_at = self.facts.booted_at(name)
        self.records.judge(name, diagnosis, facts, booted_at, now)
        pause = self.records.take_events(name, self.facts.past_events(name))
        memory = self._memory.setdefault(name, _Memory())
        active, past = self.rules.active(), self.records.past(name)
        mind, unjudged = memory.mind, self.facts.unjudged
        rules = frozenset(match.rule_id for match, _ in matching(diagnosis, active))
        self.rules.matched(name, rules, now)  # this node counts before one more is marked
        crowded = frozenset(filter(self.rules.is_crowded, rules))
        cover = partial(self.group_jobs.cover, name, now=now)
        choice = mind.choose(
            node, booted_at, facts, diagnosis, active, past, now, unjudged, crowded, cover
        )
        decision = choice.decision
        for order in decision.orders:
            match, rule = choice.match(order.candidate.rule_id), order.candidate.rule
            grouped = replace(order, group=self.group_jobs.group(name, rule))
            with self.group_jobs.claim(name, rule):
                await self._create(grouped, match, node, facts, memory, started)
        for order in decision.dry_runs:
            await self._dry_run(order, choice.match(order.candidate.rule_id), node, facts)
        dry_runs = find_dry_run_matches([rule for _, rule in choice.matches], past)
        self.records.take_dry_run_matches(name, dry_runs)
        if job := self.stronger.store(name, decision.stronger):
            self.wake_job(job)
        await self._tell(node, memory, frozenset(decision.waits))
        await self._tell_unattended(node, facts, choice, past, now)
        if not choice.matches:
            memory.changed_at = None
        # Probes come last: if they fail, rules that need none still work.
        probe_at = await self.probes.ask(name, agent_of(node), *probe_rules(diagnosis, active))
        again = now + AGAIN if facts.stale else None
        for wait in (pause, self.unattended.again(name)):
            again = again if wait is None else _earliest(again, now + wait)
        later = self._later(diagnosis, _earliest(decision.at, probe_at, again), now)
        memory.due_at = self._due_at(later)
        return later

    def _turned(self, old: Node, new: Node) -> tuple[datetime, datetime] | None:
        now = self.clock.now()
        delays = tuple(lags(old, new, now))
        for seconds in delays:
            self.metrics.signal_seconds.observe(seconds)
        return (now - timedelta(seconds=max(delays)), now) if delays else None

    def _gone(self, name: str) -> None:
        self._memory.pop(name, None)
        self.unattended.forget(name)
        self.probes.forget(name)
        self.rules.matched(name, frozenset(), self.clock.now())
        self.stronger.store(name, None)
        self._learn(name, Diagnosis(name))

    def _learn(self, name: str, diagnosis: Diagnosis) -> bool:
        """Update the facts of the node's groups from its diagnosis; True if this node must be
        evaluated again.
        """
        woken = self.facts.learned(name, diagnosis)
        for other in woken:
            self.wake(other)
        return name in woken

    async def _create(
        self,
        order: JobOrder,
        match: Match,
        node: Node,
        facts: FactSet,
        memory: _Memory,
        started: datetime,
    ) -> None:
        now, fault = self.clock.now(), traces.fault_of(order, node)
        text = explain(order.candidate.rule, facts, now)
        body = build(order, node, trigger(match), text, now, facts.host_events, fault)
        self.fence.check()
        try:
            job = await self.kube.create(paths.custom(PLURAL), body, decode=self.jobs.read)
        except AlreadyExists:
            self.metrics.jobs.labels(EXISTED).inc()
            return
        self._measure(order, memory)
        if fault is not None:
            decided = traces.Decided(memory.turned, started, now)
            traces.made(fault, order, node, decided, now, self.clock.now())
        log.info(
            "job made",
            extra={
                "job": order.name,
                "node": node.metadata.name,
                "rule": order.candidate.name,
                "others": [name for name, _ in order.others],
            },
        )
        await self.jobs.wait_for(order.name, job.metadata.resource_version)

    async def _dry_run(self, order: JobOrder, match: Match, node: Node, facts: FactSet) -> None:
        name, rule = node.metadata.name, order.candidate.rule
        result, ask = result_of(order, match, node, facts, self.clock.now())
        self.records.add_dry_run(name, rule, result, ask)
        self.group_jobs.add_dry_run(name, rule)
        self.metrics.dry_runs.inc()
        text = f"rule {rule.metadata.name} in DryRun would begin a repair with rung {result.rung}"
        await self.recorder.emit(_regarding(node), "Normal", "RepairWouldBegin", text)

    def _measure(self, order: JobOrder, memory: _Memory) -> None:
        self.metrics.jobs.labels(CREATED).inc()
        self.metrics.relapses.inc(order.failed_healing)
        since = (self.clock.now() - order.candidate.since).total_seconds()
        self.metrics.fault_seconds.observe(max(since, 0.0))
        monotonic = self.clock.monotonic()
        if (begun := memory.could_decide(monotonic)) is not None:
            self.metrics.decide_seconds.observe(monotonic - begun)

    def _due_at(self, later: Result) -> float | None:
        after = later.requeue_after
        return None if after is None else self.clock.monotonic() + after.total_seconds()

    async def _tell(
        self, node: Node, memory: _Memory, waits: frozenset[tuple[str, WaitReason]]
    ) -> None:
        """Count new waits, and emit an Event when a rule has used up its attempts (F07)."""
        for name, why in waits - memory.waits:
            self.metrics.waits.labels(why).inc()
            if why is WaitReason.ATTEMPTS:
                await self.recorder.emit(
                    _regarding(node),
                    "Warning",
                    "RepairAttemptsSpent",
                    f"rule {name} still matches, but its attempts are spent: a person should look",
                )
        if waits != memory.waits:  # an empty frozenset has 216 bytes, and almost all are empty
            memory.waits = waits

    async def _tell_unattended(
        self, node: Node, facts: FactSet, choice: Choice, past: Sequence[Past], now: datetime
    ) -> None:
        """Emit an Event about a fault that lasts and that no rule acts on."""
        name = node.metadata.name
        if choice.decision.orders or any(p.open and not p.shadow for p in past):
            self.unattended.attended(name)
            return
        acting = {rule.metadata.name for _, rule in choice.matches if rule.spec.mode in ACTING}
        waiting_rules = list_waiting_rules(choice.decision, acting)
        active, monotonic = self.rules.active(), self.clock.monotonic()
        if text := self.unattended.evaluate(facts, active, waiting_rules, now, monotonic):
            await self.recorder.emit(_regarding(node), "Warning", REASON, f"{text}. Look at it")

    def _later(self, diagnosis: Diagnosis, at: datetime | None, now: datetime) -> Result:
        changes_at = self.facts.changes_at(diagnosis.node)
        times = [t for t in (at, diagnosis.flips_at, changes_at) if t is not None]
        if not times:
            return DONE
        return Result(min(max(min(times) - now, timedelta(milliseconds=1)), LONGEST))


def _earliest(*times: datetime | None) -> datetime | None:
    return min((t for t in times if t is not None), default=None)


def _regarding(node: Node) -> Regarding:
    return {
        "kind": "Node",
        "api_version": "v1",
        "name": node.metadata.name,
        "uid": node.metadata.uid,
    }
