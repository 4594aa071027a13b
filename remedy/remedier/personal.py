"""Assesses the fault of a job that a person started: their request replaces the evidence. Pure.

No match allows such a job to act, so no engine is asked. The guards of its rule hold it back as
they do any job. Unknown guards do not, as for a job with known true evidence: a faulty host
often cannot answer.
"""

from datetime import datetime

from remedy.job.model import FaultAssessment, Job
from remedy.remedier.proof import describe_guards, fold
from rules.atoms import read
from rules.facts import FactSet
from rules.sources import waits_for_source
from rules.truth import Truth


def fault(job: Job, facts: FactSet, gone: Truth, unjudged: int, now: datetime) -> FaultAssessment:
    """Assess the fault.

    gone: whether the rule's evidence is proven over since the last act
    unjudged: number of rules that have not evaluated every node since our start: facts of groups
        are unknown
    """
    unless = job.spec.unless
    guards = Truth.FALSE
    if unless is not None:
        guards = fold(unless, lambda leaf: read(leaf, facts, now).truth)
    if not facts.fresh:
        guards = Truth.UNKNOWN if unless is not None else Truth.FALSE
    elif guards is Truth.UNKNOWN and not unjudged and not _waits(job, facts):
        guards = Truth.FALSE
    return FaultAssessment(
        evidence=_evidence(job, facts, now),
        guards=guards,
        agreed=True,
        gone=gone,
        why=describe_guards(unless, guards, facts, now),
    )


def _waits(job: Job, facts: FactSet) -> bool:
    """Report whether a guard reads a stale source: the answer is unknown only for a moment."""
    unless = job.spec.unless
    return unless is not None and bool(waits_for_source(unless.leaves(), facts))


def _evidence(job: Job, facts: FactSet, now: datetime) -> Truth:
    """Return TRUE until the job is closed, then the observed evidence: while the incident lasts, no
    rule may restart what a person has ended.
    """
    if not job.phase.closed:
        return Truth.TRUE
    when = job.spec.when
    return Truth.FALSE if when is None else fold(when, lambda leaf: read(leaf, facts, now).truth)
