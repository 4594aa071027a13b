"""Assesses the fault of a job with the loaded rules.

A job uses its rule as it was when the job was created: that version stays loaded under its own id,
`name@generation`, so both engines evaluate it like any other rule.
"""

from datetime import datetime, timedelta
from typing import Protocol

from kubenode.runtime.clock import Clock
from remedy.job.model import FaultAssessment, Job
from remedy.job.records import begun
from remedy.job.rung import last_act
from remedy.remedier import personal
from remedy.remedier.choice import guards_of
from remedy.remedier.proof import Since, back, describe_guards, gone, settled
from rules.atoms import read
from rules.diagnose import Agreement, Diagnosis, Match
from rules.facts import FactSet
from rules.sources import waits_for_source
from rules.truth import Truth


class RuleLookup(Protocol):
    """What the judge reads of the registry."""

    def is_loaded(self, version: str) -> bool: ...

    @property
    def trouble(self) -> str: ...
    @property
    def accept_single_engine(self) -> bool:
        """Whether the operator's explicit policy is `reference`."""
        ...


class FactSource(Protocol):
    """What the judge reads of the store of facts."""

    @property
    def unjudged(self) -> int:
        """Number of rules with unknown counts or group facts, because they have not evaluated every
        node yet.
        """
        ...

    def boot(self, name: str, agent: str) -> tuple[str, datetime | None]:
        """Return boot ID and boot time of a node's host; "" and None are unknown. It is the same
        boot ID that a job reads from its node and records with a request.
        """
        ...


def rule_id(name: str, generation: int) -> str:
    return f"{name}@{generation}"


def rule_id_of(job: Job) -> str:
    """Return the id of the job's rule version; "" for a job without a rule."""
    rule = job.spec.remedier
    return rule_id(rule.name, rule.generation) if rule is not None else ""


SECOND = timedelta(seconds=1)
"""Resolution of creation times at the API server."""
BRIEF = "the fault was taken back, and is not known to have gone: it may be there again"


class Evaluates(Protocol):
    async def diagnose(self, node: str) -> tuple[FactSet, Diagnosis] | None:
        """Return the node's diagnosis and the facts it is based on; None for an unknown node."""
        ...


class Judge:
    """Assesses faults of jobs."""

    def __init__(
        self, evaluator: Evaluates, loaded: RuleLookup, known: FactSource, clock: Clock
    ) -> None:
        self._evaluator, self._loaded, self._known = evaluator, loaded, known
        self._clock = clock

    async def fault(self, job: Job) -> FaultAssessment:
        """Assess the job's fault with the current facts."""
        if job.spec.remedier is None:
            return await self._personal(job)
        wanted = rule_id_of(job)
        if not self._loaded.is_loaded(wanted):
            return FaultAssessment(why=f"rule {wanted or 'of this job'} is not loaded")
        answer = await self._diagnosed(job)
        if isinstance(answer, FaultAssessment):
            return answer
        facts, diagnosis = answer
        match = next((m for m in diagnosis.matches if m.rule_id == wanted), None)
        if match is None:
            return FaultAssessment(why=f"rule {wanted} was not evaluated")
        agreed = self._agreed(match)
        now = self._clock.now()
        guards, waits = self._guards(job, match, facts, now)
        evidence = _plain(match, job, facts, now)
        return FaultAssessment(
            evidence=evidence,
            guards=guards,
            agreed=agreed,
            gone=self._gone(job, facts),
            why=_unknown(match, job, facts, now)
            or (BRIEF if evidence is Truth.UNKNOWN else "")
            or ("" if agreed else _disagree(match, self._loaded.trouble))
            or waits
            or describe_guards(job.spec.unless, guards, facts, now),
        )

    async def _personal(self, job: Job) -> FaultAssessment:
        answer = await self._diagnosed(job)
        if isinstance(answer, FaultAssessment):
            return answer
        facts, _ = answer
        now, gone = self._clock.now(), self._gone(job, facts)
        return personal.fault(job, facts, gone, self._known.unjudged, now)

    async def _diagnosed(self, job: Job) -> tuple[FactSet, Diagnosis] | FaultAssessment:
        """Return facts and diagnosis of the job's node, or an unknown fault with the reason."""
        answer = await self._evaluator.diagnose(job.spec.node_name)
        if answer is None:
            return FaultAssessment(why="the node is not in our cache")
        if answer[0].uid != job.spec.node_uid:
            return FaultAssessment(why="another node has this name now")
        return answer

    def _guards(self, job: Job, match: Match, facts: FactSet, now: datetime) -> tuple[Truth, str]:
        """Return the guards as they bind a job, and what is waited for.

        A guard that is unknown only for a moment holds the job back: a probe is pending, or after
        our start not every node was evaluated. A guard that cannot become known (a silent host, a
        group without a label on the node) does not hold it back while the evidence is known true,
        nor once the rung has begun an irreversible step: hosts are not probed for a fault that the
        first step has ended.
        """
        guards, asking = guards_of(match, job.spec.unless, facts, now)
        if guards is not Truth.UNKNOWN or not facts.fresh:
            return guards, ""
        if asking:
            source = waits_for_source(job.spec.unless.leaves(), facts) if job.spec.unless else ""
            of = f"the cache of {source}" if source else "the host's answer"
            return Truth.TRUE, f"a guard waits for {of}"
        if self._known.unjudged:
            return Truth.TRUE, "a guard waits until every node was looked at once"
        nobody_will = match.evidence is Truth.TRUE or begun(job)
        return (Truth.FALSE, "") if nobody_will else (guards, "")

    def _agreed(self, match: Match) -> bool:
        if match.agreement is Agreement.UNCHECKED:
            return self._loaded.accept_single_engine
        return match.agreement is Agreement.AGREED

    def _gone(self, job: Job, facts: FactSet) -> Truth:
        if job.spec.when is None or not facts.fresh:
            return Truth.UNKNOWN
        verify = job.rung.verify
        before = job.status.timeline.acted or job.created
        began, acted = last_act(job) or (before, before)
        now, requested_boot = self._clock.now(), job.status.owned.boot_id
        boot_id, booted = self._known.boot(job.spec.node_name, job.spec.agent)
        settled, rebooted = None, bool(requested_boot) and boot_id != requested_boot
        # Creation times are whole seconds: a boot in the same second may be from before it.
        if rebooted or (booted is not None and booted >= job.created + SECOND):
            settled = (booted or now) + verify.settle
        reports = Since(began, acted, settled, verify.settle)
        return gone(job.spec.when, verify.cleared, facts, now, reports)


def _plain(match: Match, job: Job, facts: FactSet, now: datetime) -> Truth:
    """Return the evidence; FALSE becomes unknown while a detector has just started, or the fault is
    back and has not lasted as long as the rule asks.
    """
    if match.evidence is not Truth.FALSE or job.spec.when is None:
        return match.evidence
    is_gone = settled(job.spec.when, facts, now) and not back(job.spec.when, facts, now)
    return Truth.FALSE if is_gone else Truth.UNKNOWN


def _unknown(match: Match, job: Job, facts: FactSet, now: datetime) -> str:
    """Return which evidence is unknown, "" if none is; the sentences hold no ticking value."""
    if match.evidence is not Truth.UNKNOWN:
        return ""
    leaves = job.spec.when.leaves() if job.spec.when is not None else ()
    readings = [read(leaf, facts, now) for leaf in leaves]
    unknown = [r.evidence for r in readings if r.truth is Truth.UNKNOWN]
    return f"unknown: {'; '.join(unknown[:3])}" if unknown else "the evidence is unknown"


def _disagree(match: Match, trouble: str) -> str:
    if match.agreement is Agreement.UNCHECKED:
        return f"only one rule engine could be asked: {trouble or 'the other did not answer'}"
    return f"the rule engines do not agree: {match.agreement.value}"
