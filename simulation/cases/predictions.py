"""Translates the outcome of a case into the vocabulary of the cases. Pure."""

from collections.abc import Iterable, Iterator

from defender.decision.limits.table import LIMITS
from kubenode.api.v1alpha1 import Mode, Reason
from remedy.hostdoctor.notices import WITHOUT_NODE
from remedy.hostdoctor.report import ReportedEvents
from simulation.cases.actions import WAIT_HUMAN, class_of, plan, repair_class
from simulation.cases.driver import Outcome, disruptive
from simulation.cases.form import Case, HostEventSignal, Parsed, RepairClass
from simulation.cases.scores import Prediction
from simulation.replay.records import JobRecord

STORM = frozenset({Reason.BREAKER_OPEN, Reason.COMMON_CAUSE, Reason.DISPLACED_PODS}) | {
    each.reason for each in LIMITS if each.storm
}
"""Refusals that hold every repair of a scope."""
QUEUED = frozenset({Reason.CONCURRENCY_LIMIT})
"""Refusals of a job that waits for others of the same decision: its actions still count. Behind a
repair that was in progress before, the job is held.
"""


PARSE_ERROR, CLUSTER_WIDE = "parse_error", "cluster_wide_alert"
"""Fault classes of signals that reach no rule."""


def predict(case: Case, outcome: Outcome) -> Prediction:
    prediction = _predict(case, outcome)
    if not any(isinstance(signal, HostEventSignal) for signal in case.signals):
        return prediction
    return prediction.model_copy(update={"parsed": _parsed(outcome.reports)})


def _predict(case: Case, outcome: Outcome) -> Prediction:
    job = outcome.job
    if job is None:
        return _predict_idle(case, outcome)
    probes = list(_probes(outcome))
    refusal = _refusal(case, job)
    if job.mode is Mode.DRY_RUN:
        return _quiet(case, outcome, RepairClass.NONE_OBSERVE, probes)
    if refusal is not None:
        storm = refusal in STORM
        repair = RepairClass.HOLD_STORM if storm else RepairClass.NONE_OBSERVE
        return _quiet(case, outcome, repair, [*probes, "suppress"])
    actions, repair = _does(job, outcome)
    if job.mode is Mode.APPROVE:
        actions, repair = [WAIT_HUMAN, *actions], RepairClass.NOTIFY_ONLY
    return Prediction(
        id=case.id,
        fault_class=job.rule.spec.fault_class,
        repair_class=repair,
        plan=[*probes, *actions],
        target=job.node,
        jobs=max(outcome.granted, 1) if repair.acts else outcome.granted,
        max_parallel=outcome.granted,
    )


def _does(job: JobRecord, outcome: Outcome) -> tuple[list[str], RepairClass]:
    """Return what a new job would do; for a job that was already running, what it did."""
    if outcome.ran is not None:
        first = outcome.ran.first
        return list(outcome.ran.actions), class_of(first, person_next=WAIT_HUMAN in first)
    return plan(job.rule, job.start_rung), repair_class(job.rule, job.start_rung)


def _parsed(reports: Iterable[ReportedEvents]) -> Parsed:
    events = [event for report in reports for event in report.events]
    finished = sum(event.phase is not None and not event.phase.open for event in events)
    return Parsed(open=len(events) - finished, finished=finished)


def _predict_idle(case: Case, outcome: Outcome) -> Prediction:
    """Predict a case without a job: nothing matches, or a matching rule waits."""
    probes = list(_probes(outcome))
    if outcome.winner is None and outcome.refused:
        prediction = _quiet(case, outcome, RepairClass.PARSE_ERROR, probes)
        return prediction.model_copy(update={"fault_class": PARSE_ERROR})
    if outcome.winner is None and outcome.notices:
        prediction = _quiet(case, outcome, RepairClass.NOTIFY_ONLY, [*probes, "notify"])
        of_nobody = any(notice.reason == WITHOUT_NODE for notice in outcome.notices)
        return prediction.model_copy(update={"fault_class": CLUSTER_WIDE} if of_nobody else {})
    if outcome.winner is None:
        return _quiet(case, outcome, RepairClass.NONE_OBSERVE, probes)
    repair = RepairClass.HOLD_STORM if outcome.storm else RepairClass.NONE_OBSERVE
    return _quiet(case, outcome, repair, [*probes, "suppress"])


def _quiet(case: Case, outcome: Outcome, repair: RepairClass, actions: list[str]) -> Prediction:
    winner = outcome.winner
    return Prediction(
        id=case.id,
        fault_class=winner.spec.fault_class if winner is not None else "none",
        repair_class=repair,
        plan=actions,
        max_parallel=outcome.granted,
    )


def _refusal(case: Case, job: JobRecord) -> Reason | None:
    """Return Kube Defender's refusal, ignoring the wait for jobs of the same decision."""
    if not disruptive(job) or job.permit_at is not None or job.hold is None:
        return None
    matched = next((reason for reason in Reason if reason.value == job.hold.reason), None)
    in_repair = case.facts.fleet is not None and case.facts.fleet.in_remediation > 0
    return None if matched in QUEUED and not in_repair else matched


def _probes(outcome: Outcome) -> Iterator[str]:
    """Yield `probe_disk` for the probe `disk` and each of its fields, once."""
    names = [name.partition(".")[0] for name in outcome.probes]
    yield from dict.fromkeys(f"probe_{name}" for name in names)
