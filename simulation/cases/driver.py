"""Runs one case through the production code: facts, rules, choice, Kube Defender, the first job.

The decision is the one at the case's `now`. Answers of probes and the wait for a stronger rule may
take some time. A rule that would match only later does not count.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta

from agent.detectors import EventReport
from agent.detectors.logs.line import recorded
from agent.detectors.logs.watch import NOT_UNDERSTOOD, begin
from agent.detectors.logs.watch import watch as watch_line
from kubenode.api.v1alpha1 import Disruption, JobPhase, NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf
from remedy.hostdoctor.notices import WarningNotice
from remedy.hostdoctor.report import ReportedEvents
from remedy.job.model import CloseReason
from remedy.remedier.decide import WaitReason
from remedy.remedier.past import Past
from rules.atoms import read
from rules.diagnose import Match
from rules.truth import Truth
from simulation.cases.actions import actions_of
from simulation.cases.form import Case, LogSignal
from simulation.cases.limits import policy_of
from simulation.cases.outside import announced, unheard
from simulation.cases.setting import Setting, setting, uid_of
from simulation.cases.underway import JobActions, answer, lead, limited, watch
from simulation.replay.compilation import Compiled
from simulation.replay.records import JobRecord
from simulation.replay.watchers import builtin
from simulation.replay.world import World

ANSWERS = timedelta(seconds=45)
"""Longer than the answer to a probe, or its timeout, takes."""
PERMITS = timedelta(seconds=30)
"""Time for Kube Defender to answer every job of the decision."""
CONDITION_SPAN = timedelta(hours=1)
"""A condition from a log line lasts this long, unless the watcher ends it: longer than any rule
waits.
"""
AN_HOUR = timedelta(hours=1)


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a case.

    job: the first job of the case's node, with Kube Defender's answer; None if none was made.
    winner: the first rule in the order of choice with true evidence; None if there is none.
    wait_reason: why the winner made no job.
    storm: whether a fact about the fleet held the winner back.
    probes: probes that were sent to the node, in order.
    granted: jobs of any node that got a permit.
    ran: what a job that was already running did; None for other cases.
    reports: events that Host Doctor received, before their nodes were resolved.
    notices: warnings that people got about events that no rule can read.
    refused: whether a delivery could not be read.
    """

    job: JobRecord | None
    winner: NodeRemedier | None
    wait_reason: WaitReason | None
    storm: bool
    probes: tuple[str, ...]
    granted: int
    ran: JobActions | None
    reports: tuple[ReportedEvents, ...]
    notices: tuple[WarningNotice, ...]
    refused: bool


def drive(case: Case, rules: Sequence[NodeRemedier], compiled: Compiled) -> Outcome:
    if before := announced(case):
        outcome = _drive(case, rules, compiled, setting(case, before), ())
        if outcome.ran is not None:
            return outcome
    made = setting(case)
    outcome = _drive(case, rules, compiled, made, ())
    if not case.facts.recent_actions or outcome.job is None:
        return outcome
    past = past_of(case, outcome.job.rule)
    return _drive(case, rules, compiled, made, past) if past else outcome


def past_of(case: Case, rule: NodeRemedier) -> tuple[Past, ...]:
    """Return the recent actions as closed jobs of the rule that would act now, if its ladder has
    them.

    The next rung after a failed one is then chosen as after a relapse.
    """
    jobs = []
    for number, action in enumerate(case.facts.recent_actions):
        rung = next(
            (
                index
                for index, rung in enumerate(rule.spec.ladder or ())
                for step in rung.steps
                if action.action in actions_of(step)
            ),
            None,
        )
        if rung is None:
            continue
        at = case.now - timedelta(seconds=action.age_s)
        # A job whose rung failed escalates; it gives up after the last rung.
        goes_on = not action.ok and rung + 1 < len(rule.spec.ladder or ())
        reason = CloseReason.PROVEN if action.ok else CloseReason.GAVE_UP
        jobs.append(
            Past(
                name=f"earlier-{number}",
                node_uid=uid_of(case.node),
                remedier=rule.metadata.name,
                fault_class=rule.spec.fault_class,
                phase=JobPhase.SUCCEEDED if action.ok else JobPhase.FAILED,
                created=at,
                acted=True,
                acted_at=None if goes_on else at,
                rung=rung,
                closed=at,
                reason=CloseReason.SUPERSEDED if goes_on else reason,
                false_since=at,
            )
        )
    return tuple(jobs)


class _AtNow(World):
    """A world that observes everything until `judged`, and decides from then on.

    remembered: a node and its earlier jobs.
    """

    judged: datetime
    remembered: tuple[str, tuple[Past, ...]] = ("", ())

    def _decide(self, nodes: Iterable[str]) -> None:
        if self.now >= self.judged:
            super()._decide(nodes)

    def _past(self, node: str) -> Sequence[Past]:
        recent: Sequence[Past] = super()._past(node)
        name, past = self.remembered
        return [*past, *recent] if node == name else recent

    def judge(self) -> None:
        """Run until `judged`, and then decide for every node."""
        self.run_until(self.judged)
        for name in self.nodes:
            self._touch(name)
        self.run_until(self.judged)


def _drive(
    case: Case,
    rules: Sequence[NodeRemedier],
    compiled: Compiled,
    made: Setting,
    past: tuple[Past, ...],
) -> Outcome:
    policy = policy_of(case)
    world = _AtNow(
        limited(case, rules),
        policies=[policy] if policy else (),
        compiled=compiled,
        start=made.start,
    )
    world.judged = min([case.now - lead(case), *(event.at for event in made.before)])
    world.remembered = (case.node, past)
    for name, snapshot in made.snapshots.items():
        world.add_node(name, snapshot)
    for node, at in _repaired(case, made):
        world.repaired(node, at)
    for node in _in_repair(case, made):
        world.repaired(node, case.now, ended=False)
    for event in made.before:
        world.known(event.at, event.node, event.transport, event.reports)
    world.feed(*made.entries)
    world.judge()
    ran, job, say = None, None, set[str]()
    if made.before:
        ran, job = _earlier(world, case)
    if job is None:
        say = _have_a_say(world, case)
        job = _first_job(world, case, say)
        if job is not None:
            world.run_until(world.now + PERMITS)
            ran = watch(world, case, job)
    granted = [r for r in world.jobs if r.permit_at is not None]
    winner, wait_reason, storm = _winner(world, case, job, say)
    return Outcome(
        job,
        winner,
        wait_reason,
        storm,
        probes=tuple(world.list_probes(case.node)),
        granted=len(granted),
        ran=ran,
        reports=tuple(world.deliveries.reports),
        notices=tuple(world.deliveries.notices),
        refused=bool(world.deliveries.refused) or unheard(case) or _garbled(case),
    )


def _garbled(case: Case) -> bool:
    """Return whether a log line begins like a known report and cannot be parsed; the agent counts
    those.
    """
    program = builtin()
    state, _ = begin(program, case.now)
    for signal in case.signals:
        if not isinstance(signal, LogSignal):
            continue
        for line in recorded(signal.source, signal.text, case.now, signal.node):
            state, reports = watch_line(program, state, line, case.now)
            reasons = (report.reason for report in reports if isinstance(report, EventReport))
            if NOT_UNDERSTOOD in reasons:
                return True
    return False


def _earlier(world: World, case: Case) -> tuple[JobActions | None, JobRecord | None]:
    """Return the open job that was made for an announced event, and what it does from `now` on."""
    world.run_before(case.now)
    job = next((job for job in _begun(world, case) if job.open), None)
    return (answer(world, case, job), job) if job is not None else (None, None)


def _have_a_say(world: World, case: Case) -> set[str]:
    """Return the rules that count: those that match now, or may match after a probe.

    With log lines all rules count, since a condition may have to last first.
    """
    matches = world.matches(case.node)
    if any(isinstance(signal, LogSignal) for signal in case.signals):
        return {m.rule_id for m in matches}
    return {m.rule_id for m in matches if m.evidence is Truth.TRUE or m.probes}


def _repaired(case: Case, made: Setting) -> Iterator[tuple[str, datetime]]:
    """Yield the repairs that Kube Defender remembers, of the node itself and of others."""
    for action in case.facts.recent_actions:
        yield case.node, case.now - timedelta(seconds=action.age_s)
    fleet = case.facts.fleet
    others = [name for name in made.snapshots if name != case.node]
    for index in range(fleet.repairs_last_hour if fleet is not None else 0):
        yield others[index % len(others)], case.now - AN_HOUR * (index + 1) / 100


def _in_repair(case: Case, made: Setting) -> list[str]:
    """Return other nodes with an open permit at `now`, last ones first: not those with a fault."""
    fleet = case.facts.fleet
    others = [name for name in reversed(made.snapshots) if name != case.node]
    return others[: fleet.in_remediation] if fleet is not None else []


def _first_job(world: World, case: Case, say: set[str]) -> JobRecord | None:
    """Run until a job has begun, and return the one of a rule that counted at `now`."""
    names = {id_.rpartition("@")[0] for id_ in say}
    rules = [world.rules[name] for name in names if name in world.rules]
    if not rules:
        return None
    wait = max((rule.spec.group_wait for rule in rules), default=timedelta(0))
    lines = any(isinstance(signal, LogSignal) for signal in case.signals)
    end = world.now + wait + ANSWERS + (CONDITION_SPAN if lines else timedelta(0))
    while not _begun(world, case) and (at := world.next_at()) is not None and at <= end:
        world.run_until(at)
    return next((job for job in _begun(world, case) if job.remedier in names), None)


def _begun(world: World, case: Case) -> list[JobRecord]:
    """Return jobs of the node that have begun. Before that, a stronger rule may replace them."""
    return [job for job in world.jobs_of(case.node) if job.begun is not None]


def _winner(
    world: World, case: Case, job: JobRecord | None, say: set[str]
) -> tuple[NodeRemedier | None, WaitReason | None, bool]:
    if job is not None:
        return job.rule, None, False
    waits = world.waits(case.node)
    for match in world.matches(case.node):
        rule = _rule(world, match)
        if match.evidence is Truth.TRUE and match.rule_id in say and rule is not None:
            why = waits.get(rule.metadata.name)
            return rule, why, why is WaitReason.GUARD and _of_the_fleet(world, case, rule)
    return None, None, False


def _rule(world: World, match: Match) -> NodeRemedier | None:
    rule = world.rules.get(match.rule_id.rpartition("@")[0])
    return rule if rule is not None and rule.spec.ladder else None


def _of_the_fleet(world: World, case: Case, rule: NodeRemedier) -> bool:
    """Return whether a guard that holds the rule reads more than the node."""
    facts = world.facts(case.node)
    if facts is None or rule.spec.unless is None:
        return False
    return any(
        isinstance(leaf, FactLeaf)
        and leaf.name.split(".")[0] not in ("node", "maintenance", "time")
        and read(leaf, facts, world.now).truth is Truth.TRUE
        for leaf in rule.spec.unless.leaves()
    )


def disruptive(job: JobRecord) -> bool:
    """Return whether the first rung of the job needs a permit."""
    return job.ladder[job.start_rung].disruption_class is not Disruption.NONE
