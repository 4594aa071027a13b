"""What a node record remembers, and for how long. Pure.

A closed job is remembered

    as the last one of its rule           names of later jobs, and the Events that it was made for
    for 30 days, if it acted              cooldown, attempts, relapse
    while its incident lasts              no other job may follow: it gave up, a person decided;
                                          and for 30 days, or the job that still exists would begin
                                          the incident anew

so a job may be deleted at any time once the record holds it. For a rule in DryRun each incident is
counted, and the last ones are remembered as if they had acted: cooldown and attempts limit them.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime

from pydantic import ValidationError

from kubenode.api.v1alpha1 import Disruption, Expression, JobPhase, RemedyOperationJob
from kubenode.api.v1alpha1.noderecord import (
    MOST_JOBS,
    MOST_RECENT,
    MOST_RULES,
    REMEMBERED,
    ClosedJob,
    DryRunResults,
    NodeRecordSpec,
    WouldHave,
)
from remedy.job.model import INCIDENT_ENDS, CloseReason, Job
from remedy.job.moves import set_condition
from remedy.noderecord.evidence import count_end, count_firing
from remedy.remedier.past import Past, acts_of
from remedy.remedier.proof import fold, settled
from rules.atoms import read
from rules.diagnose import Diagnosis
from rules.facts import FactSet
from rules.truth import Truth

LONGEST_ANSWER = 256
LONGEST_EVIDENCE = 65536


def with_job(spec: NodeRecordSpec, job: Job, events_until: datetime | None) -> NodeRecordSpec:
    """Return the record with a closed job added; the same record if it holds the job already, or
    has no space for one so old. `events_until`: timestamp of the youngest Event of its evidence.
    """
    if any(entry.name == job.name and entry.created == job.created for entry in spec.jobs):
        return spec
    if (
        len(spec.jobs) >= MOST_JOBS
        and (job.status.timeline.closed or job.created) < spec.jobs[0].closed
    ):
        return spec
    entries = sorted([*spec.jobs, _entry(job, events_until)], key=_age)
    retained = _bounded(entries, entries[-1].closed)
    return spec if retained == spec.jobs else spec.model_copy(update={"jobs": retained})


def with_old_dry_run(spec: NodeRecordSpec, job: Job) -> NodeRecordSpec:
    """Return the record with a dry run that an earlier version stored as a job."""
    rule, at = job.spec.remedier, job.status.timeline.closed or job.created
    if rule is None or any(
        _is_of(dry_run, at) for dry_run in spec.dry_runs if _named(dry_run, rule.name)
    ):
        return spec
    rung = job.spec.ladder[job.spec.start_rung]
    result = WouldHave(
        at=at,
        first_true=job.spec.trigger.first_true,
        class_=rung.disruption_class,
        rung=rung.name,
        said=job.status.message[:LONGEST_ANSWER],
    )
    return with_result(spec, rule.name, job.spec.fault_class, result)


def with_result(
    spec: NodeRecordSpec, remedier: str, fault_class: str, result: WouldHave, generation: int = 0
) -> NodeRecordSpec:
    """Return the record with one more repair that a rule in DryRun would have begun.

    generation: of the rule; 0 if it is not known.
    """
    old = next((dry_run for dry_run in spec.dry_runs if dry_run.remedier == remedier), None)
    recent = sorted([*(old.recent if old is not None else ()), result], key=lambda entry: entry.at)
    new = DryRunResults(
        remedier=remedier,
        fault_class=fault_class,
        count=(old.count if old is not None else 0) + 1,
        first=min(old.first, result.at) if old is not None else result.at,
        false_since=None,
        recent=recent[-MOST_RECENT:],
        evidence=count_firing(old, generation),
    )
    others = [dry_run for dry_run in spec.dry_runs if dry_run.remedier != remedier]
    return spec.model_copy(update={"dry_runs": [*others, new][-MOST_RULES:]})


def with_answer(spec: NodeRecordSpec, remedier: str, at: datetime, answer: str) -> NodeRecordSpec:
    """Return the record with Kube Defender's answer to the request that a rule would have made at
    `at`.
    """

    def answered(dry_run: DryRunResults) -> DryRunResults:
        recent = [
            entry.model_copy(update={"said": answer[:LONGEST_ANSWER]}) if entry.at == at else entry
            for entry in dry_run.recent
        ]
        return dry_run.model_copy(update={"recent": recent})

    results = [answered(f) if _named(f, remedier) else f for f in spec.dry_runs]
    return spec.model_copy(update={"dry_runs": results})


def judged(
    spec: NodeRecordSpec,
    diagnosis: Diagnosis,
    facts: FactSet,
    now: datetime,
    attended_at: datetime | None = None,
) -> NodeRecordSpec:
    """Return the record with the current evidence of each incident that may still last.

    attended_at: when somebody last acted on the node; None if nobody did.
    """
    if not facts.fresh:
        return spec
    matches = {match.rule_id: match.evidence for match in diagnosis.matches}
    by_name = {rule_id.rpartition("@")[0]: truth for rule_id, truth in matches.items()}
    jobs = [
        entry
        if not lasts(entry, now)
        else _followed(entry, _truth(entry, matches, facts, now), now)
        for entry in spec.jobs
    ]
    dry_runs = [
        dry_run.model_copy(update={"false_since": now, "evidence": count_end(dry_run, attended_at)})
        if dry_run.false_since is None and _truth_of(dry_run, matches, by_name) is Truth.FALSE
        else dry_run
        for dry_run in spec.dry_runs
    ]
    same = all(a is b for a, b in zip(jobs, spec.jobs, strict=True)) and all(
        a is b for a, b in zip(dry_runs, spec.dry_runs, strict=True)
    )
    return spec if same else spec.model_copy(update={"jobs": jobs, "dry_runs": dry_runs})


def _truth_of(
    results: DryRunResults, matches: Mapping[str, Truth], by_name: Mapping[str, Truth]
) -> Truth | None:
    """Return the evidence of a rule in DryRun. Open jobs may follow another version of it."""
    generation = results.evidence.generation if results.evidence is not None else 0
    version = matches.get(f"{results.remedier}@{generation}")
    return by_name.get(results.remedier) if version is None else version


def lasts(entry: ClosedJob, now: datetime) -> bool:
    """Report whether the incident of a closed job lasts and prevents another job."""
    if not entry.evidence:
        return False
    return entry.false_since is None or now < entry.false_since + INCIDENT_ENDS


def pasts(spec: NodeRecordSpec) -> tuple[Past, ...]:
    """Return what the record contributes to a new decision."""
    jobs = (_past(entry, spec.node_uid) for entry in spec.jobs)
    dry = (
        _dry_past(dry_run, result, spec.node_uid)
        for dry_run in spec.dry_runs
        for result in dry_run.recent
    )
    return (*jobs, *dry)


def past_of(spec: NodeRecordSpec, jobs: Iterable[RemedyOperationJob]) -> list[Past]:
    """Return the same, and jobs that are open or not recorded yet."""
    known = {entry.name for entry in spec.jobs}
    others = (job for job in jobs if job.metadata.name not in known)
    return [*pasts(spec), *map(Past.of, others)]


def person_deleted(job: Job, now: datetime) -> Job:
    """Return an open job as a closed one, after somebody removed its finalizer and deleted it."""
    why = CloseReason.JOB_DELETED
    conditions = set_condition(job, now, "Closing", why, "the job was deleted")
    timeline = job.status.timeline.model_copy(update={"closed": now})
    return job.having(phase=JobPhase.CANCELLED, conditions=conditions, timeline=timeline)


def _entry(job: Job, events_until: datetime | None) -> ClosedJob:
    acted, acted_at = acts_of(job)
    reason = job.close_reason
    outlasts = reason is not None and reason.outlasts_the_job
    when = job.spec.when.model_dump_json(by_alias=True, exclude_none=True) if job.spec.when else ""
    return ClosedJob(
        name=job.name,
        remedier=job.spec.remedier.name if job.spec.remedier else "",
        generation=job.spec.remedier.generation if job.spec.remedier else 0,
        fault_class=job.spec.fault_class,
        phase=job.phase,
        reason=str(reason or ""),
        created=job.created,
        closed=job.status.timeline.closed or job.created,
        acted=acted,
        acted_at=acted_at,
        rung=job.status.rung,
        probation=job.rung.verify.probation,
        events_until=events_until,
        false_since=job.status.evidence_false_since if outlasts else None,
        evidence=(when if len(when) <= LONGEST_EVIDENCE else "") if outlasts else "",
    )


def _age(entry: ClosedJob) -> tuple[datetime, str]:
    return entry.closed, entry.name


def _bounded(entries: Sequence[ClosedJob], now: datetime) -> list[ClosedJob]:
    """Return the entries that something still depends on. `entries` are sorted from oldest to
    newest.
    """
    last = {entry.remedier: entry for entry in entries}
    must = [e for e in entries if lasts(e, now) or last[e.remedier] is e]
    counts = (e for e in entries if (e.acted or e.evidence) and e.closed > now - REMEMBERED)
    may = [e for e in counts if e not in must]
    room = max(MOST_JOBS - len(must), 0)
    retained = must[-MOST_JOBS:] + (may[-room:] if room else [])
    return sorted(retained, key=_age)


def _followed(entry: ClosedJob, truth: Truth, now: datetime) -> ClosedJob:
    if truth is Truth.FALSE and entry.false_since is None:
        return entry.model_copy(update={"false_since": now})
    if truth is not Truth.FALSE and entry.false_since is not None:
        return entry.model_copy(update={"false_since": None})
    return entry


def _truth(entry: ClosedJob, matches: dict[str, Truth], facts: FactSet, now: datetime) -> Truth:
    """Return the current evidence of a closed job, by its rule as it was, if that is loaded."""
    try:
        when = Expression.model_validate_json(entry.evidence)
    except ValidationError:
        return Truth.UNKNOWN
    loaded_truth = matches.get(f"{entry.remedier}@{entry.generation}")
    truth = (
        loaded_truth
        if loaded_truth is not None
        else fold(when, lambda leaf: read(leaf, facts, now).truth)
    )
    # The first reports of a detector that just started do not end an incident.
    return truth if truth is not Truth.FALSE or settled(when, facts, now) else Truth.UNKNOWN


def _past(entry: ClosedJob, node_uid: str) -> Past:
    return Past(
        name=entry.name,
        node_uid=node_uid,
        remedier=entry.remedier,
        fault_class=entry.fault_class,
        phase=entry.phase,
        created=entry.created,
        acted=entry.acted,
        acted_at=entry.acted_at,
        rung=entry.rung,
        closed=entry.closed,
        reason=_reason(entry.reason),
        false_since=entry.false_since,
        probation=entry.probation,
        events_until=entry.events_until,
    )


def _dry_past(dry_run: DryRunResults, result: WouldHave, node_uid: str) -> Past:
    disrupts = result.class_ is not Disruption.NONE
    last = result is dry_run.recent[-1]
    return Past(
        name="",
        node_uid=node_uid,
        remedier=dry_run.remedier,
        fault_class=dry_run.fault_class,
        phase=JobPhase.SHADOWED,
        created=result.at,
        shadow=True,
        acted=disrupts,
        acted_at=result.at if disrupts else None,
        closed=result.at,
        false_since=dry_run.false_since if last else result.at,
    )


def _reason(text: str) -> CloseReason | None:
    """Return the reason; an unknown one reads as GAVE_UP, as with a job."""
    if not text:
        return None
    try:
        return CloseReason(text)
    except ValueError:
        return CloseReason.GAVE_UP


def _named(dry_run: DryRunResults, remedier: str) -> bool:
    return dry_run.remedier == remedier


def _is_of(dry_run: DryRunResults, at: datetime) -> bool:
    """Report whether the result of that time is counted, or may be: it is older than all remembered
    ones.
    """
    full = len(dry_run.recent) >= MOST_RECENT
    return any(entry.at == at for entry in dry_run.recent) or (full and at < dry_run.recent[0].at)
