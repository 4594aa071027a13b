"""The fault of a job that a person started: their word stands in for the evidence. Pure.

No rule's match says that such a job may act, so no engine is asked. The guards of the rule whose
ladder it climbs hold it back as they hold back every job. What is unknown of them does not, as with
a job whose evidence is plainly true: a host that is sick often cannot answer.
"""

from datetime import datetime

from remedy.job.model import FaultAssessment, Job
from remedy.remedier.proof import fold, in_the_way
from rules.atoms import read
from rules.facts import FactSet
from rules.sources import waits_for_source
from rules.truth import Truth


def fault(job: Job, facts: FactSet, gone: Truth, unjudged: int, now: datetime) -> FaultAssessment:
    """gone      whether the rule's evidence is proven over since the last act
    unjudged  rules that have not looked at every node since our start: groups are unknown
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
        why=in_the_way(unless, guards, facts, now),
    )


def _waits(job: Job, facts: FactSet) -> bool:
    """Whether a guard reads a source that is stale: only for a moment nobody can answer."""
    unless = job.spec.unless
    return unless is not None and bool(waits_for_source(unless.leaves(), facts))


def _evidence(job: Job, facts: FactSet, now: datetime) -> Truth:
    """The person's word, until the job is over: then what is seen, for while its incident lasts no
    rule may begin anew what a person has ended.
    """
    if not job.phase.closed:
        return Truth.TRUE
    when = job.spec.when
    return Truth.FALSE if when is None else fold(when, lambda leaf: read(leaf, facts, now).truth)
