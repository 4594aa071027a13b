"""The story of one job that `kubenode explain job` prints, as text and as JSON. Pure.

The job object has most facts. Kubernetes Events and audit lines add what it does not keep: earlier
holds, refused decisions and failed acts.
"""

import re
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any

from kubenode.api.cordon import CORDONED_BY, KEEP_CORDONED, keeps_cordon, owners_in
from kubenode.api.decisions import CANCELLED_BY, STARTED_BY, hears
from kubenode.api.meta import format_time
from kubenode.api.step_text import describe_step
from kubenode.api.v1alpha1 import RemedyOperationJob, Rung
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase, Owned, StepState, StepStatus
from kubenode.cli.job_means import holds_until, may_do, means
from kubenode.cli.job_moments import Beside, JobMoment, moments
from kubenode.cli.lengths import length
from kubenode.runtime.kube.objects import Node

_MOVED = re.compile(r"moved\d*")


@dataclass(frozen=True, slots=True)
class HoldSummary:
    """The current hold of a job.

    means: the meaning of the reason.
    changes: what would have to change so that the hold ends.
    since: None if unknown.
    """

    reason: str
    scope: str
    message: str
    means: str
    changes: str
    requeue_at: datetime | None
    since: datetime | None


@dataclass(frozen=True, slots=True)
class RungSummary:
    number: int
    name: str
    class_: str
    steps: tuple[str, ...]
    state: str
    """now, tried, skipped, to come or not tried."""


@dataclass(frozen=True, slots=True)
class JobStory:
    """Everything that the command prints.

    facts: (name, value) pairs of the head.
    explanation: why the rule matched, as text.
    evidence: (truth, what was read, source and time) when the job was made.
    others: (rule, reason) of rules that matched too and made no job.
    sources: object, events, audit: where the facts come from.
    """

    job: str
    node: str
    phase: str
    message: str
    facts: tuple[tuple[str, str], ...]
    explanation: str
    evidence: tuple[tuple[str, str, str], ...]
    others: tuple[tuple[str, str], ...]
    ladder: tuple[RungSummary, ...]
    moments: tuple[JobMoment, ...]
    hold: HoldSummary | None
    proof: tuple[str, ...]
    can: tuple[tuple[str, str], ...]
    """(command, effect) for a person."""
    sources: tuple[str, ...] = field(default=("object",))

    def to_json(self) -> dict[str, Any]:
        hold = self.hold
        return {
            "job": self.job,
            "node": self.node,
            "phase": self.phase,
            "message": self.message,
            "facts": dict(self.facts),
            "explanation": self.explanation,
            "evidence": [
                {"value": value, "atom": atom, "from": by} for value, atom, by in self.evidence
            ],
            "alsoMatched": [{"remedier": name, "why": why} for name, why in self.others],
            "ladder": [
                {"number": r.number, "name": r.name, "class": r.class_, "steps": list(r.steps),
                 "state": r.state}
                for r in self.ladder
            ],
            "timeline": [moment.to_json() for moment in self.moments],
            "hold": None
            if hold is None
            else {
                "reason": hold.reason,
                "scope": hold.scope,
                "message": hold.message,
                "means": hold.means,
                "wouldHaveToChange": hold.changes,
                "lookAgainAt": _time(hold.requeue_at),
                "since": _time(hold.since),
            },
            "proof": list(self.proof),
            "youCan": [{"command": command, "what": what} for command, what in self.can],
            "sources": list(self.sources),
        }  # fmt: skip


def story(
    job: RemedyOperationJob, raw: dict[str, Any], beside: Beside, node: Node | None, now: datetime
) -> JobStory:
    """Build the story.

    raw: the same job as the API server returned it.
    beside: Events and audit lines of the job.
    node: the current Node; None if it is gone or could not be read.
    """
    evidence = tuple((_truth(f.value), f.atom, _from(f)) for f in job.spec.trigger.facts)
    return JobStory(
        job=job.metadata.name,
        node=job.spec.node_name,
        phase=str(job.status.phase),
        message=job.status.message,
        facts=tuple(_head(job, node, now)),
        explanation=job.spec.trigger.explanation,
        evidence=evidence,
        others=tuple((o.remedier, o.why) for o in job.status.also_matched),
        ladder=tuple(_ladder(job)),
        moments=tuple(moments(job, beside)),
        hold=_hold(job, beside),
        proof=tuple(_proof(job, now)),
        can=tuple(may_do(job, hears(raw))),
        sources=beside.sources,
    )


def _truth(value: bool | None) -> str:
    return "unknown" if value is None else str(value).lower()


def _from(fact: Any) -> str:
    at = f"{fact.observed:%H:%M:%S}" if fact.observed is not None else ""
    return ", ".join(filter(None, (fact.source, at)))


def _time(at: datetime | None) -> str | None:
    return format_time(at) if at is not None else None


# -- the head ------------------------------------------------------------------------------------


def _head(job: RemedyOperationJob, node: Node | None, now: datetime) -> list[tuple[str, str]]:
    spec, status, notes = job.spec, job.status, job.metadata.annotations
    who = notes.get(STARTED_BY, "somebody")
    rule = f"none: {who} started it by hand"
    if spec.remedier is not None:
        rule = f"{spec.remedier.name}, generation {spec.remedier.generation}"
    approval = "; a person's approval is required" if spec.approval.required else ""
    pairs = [
        ("rule", rule),
        ("mode", f"{spec.mode}, severity {spec.severity}{approval}"),
        ("fault", f"{spec.fault_class}, seen since {_at(spec.trigger.first_true)}"),
        ("node", _node(job, node)),
        ("after", f"{spec.previous}: the fault came back" if spec.previous else ""),
        ("instead of", f"{spec.supersedes}, of a weaker rule" if spec.supersedes else ""),
        ("events", ", ".join(spec.host_events)),
        ("deadline", _at(spec.deadline) if spec.deadline is not None else ""),
        ("permit", _permit(job)),
        ("ours", ", ".join(_ours(status.owned))),
        ("cancelled", f"by {notes[CANCELLED_BY]}" if notes.get(CANCELLED_BY) else ""),
        ("cancelled", "by a person" if spec.cancel and not notes.get(CANCELLED_BY) else ""),
        ("lasted", _lasted(job, now)),
    ]
    return [(name, value) for name, value in pairs if value]


def _at(at: datetime) -> str:
    return f"{at:%Y-%m-%d %H:%M:%S}"


def _node(job: RemedyOperationJob, node: Node | None) -> str:
    if node is None or node.metadata.uid != job.spec.node_uid != "":
        return f"{job.spec.node_name}: gone" + (", another has its name" if node else "")
    condition = node.ready_condition
    by = node.metadata.annotations.get(CORDONED_BY, "")
    cordon = "schedulable"
    if node.spec.unschedulable:
        ours = (
            "cordoned by this job"
            if by == job.metadata.name
            else f"cordoned by {' and '.join(owners_in(by))}"
        )
        cordon = ours if by else "cordoned, not by us"
        if by and keeps_cordon(node.metadata.annotations):
            cordon += f"; the cordon stays after it ({KEEP_CORDONED})"
    boot = node.status.node_info.boot_id
    ready = condition.status if condition is not None else "not reported"
    return f"{job.spec.node_name}: Ready {ready}, {cordon}" + (f", boot ID {boot}" if boot else "")


def _permit(job: RemedyOperationJob) -> str:
    permit = job.status.permit
    if permit is None:
        return ""
    until = f", looked at again {_at(permit.expires_at)}" if permit.expires_at is not None else ""
    return f"{permit.name}, class {permit.class_}{until}"


def _ours(owned: Owned) -> list[str]:
    """Describe the marks and changes in the cluster that belong to the job.

    Unknown ones by field name.
    """
    descriptions = {
        "cordon": "the cordon",
        "scale_down_disabled": "the marks that keep autoscalers away",
        "fenced": "the out-of-service taint",
    }
    flags = [name for name, value in owned if value is True]
    return [descriptions.get(name, name.replace("_", " ")) for name in flags]


def _lasted(job: RemedyOperationJob, now: datetime) -> str:
    line = job.status.timeline
    since = line.job_created or job.metadata.creation_timestamp
    if since is None:
        return ""
    total = (line.closed or now) - since
    hold_text = f", {length(line.held)} of it held" if line.held else ""
    return length(total) + (" so far" if line.closed is None else "") + hold_text


# -- rungs ---------------------------------------------------------------------------------------


def _ladder(job: RemedyOperationJob) -> list[RungSummary]:
    return [
        RungSummary(
            number=n,
            name=rung.name,
            class_=str(rung.disruption_class),
            steps=tuple(describe_step(step) for step in rung.steps),
            state=_rung_state(job, n),
        )
        for n, rung in enumerate(job.spec.ladder)
    ]


def _rung_state(job: RemedyOperationJob, n: int) -> str:
    tried = any(r.rung == n and r.state is not StepState.WAITING for r in job.status.steps)
    if n == job.status.rung and not job.status.phase.closed:
        return "now"
    if tried:
        return "tried"
    if n < max(job.status.rung, job.spec.start_rung):
        return "skipped"
    return "not tried" if job.status.phase.closed else "to come"


def rung_of(job: RemedyOperationJob) -> Rung | None:
    ladder = job.spec.ladder
    return ladder[job.status.rung] if job.status.rung < len(ladder) else None


# -- hold and proof ------------------------------------------------------------------------------


def _hold(job: RemedyOperationJob, beside: Beside) -> HoldSummary | None:
    hold = job.status.hold
    if hold is None or job.status.phase.closed:
        return None
    return HoldSummary(
        reason=hold.reason,
        scope=hold.scope,
        message=hold.message,
        means=means(hold.reason),
        changes=holds_until(hold.reason, hold.scope, job.spec.node_name),
        requeue_at=hold.look_again_at,
        since=hold.since or beside.find_hold_start(hold.reason),
    )


def _proof(job: RemedyOperationJob, now: datetime) -> list[str]:
    status, rung = job.status, rung_of(job)
    lines = []
    if moved := sum(moved_pods(record) for record in status.steps):
        lines.append(f"{moved} {'pod was' if moved == 1 else 'pods were'} moved")
    if status.timeline.pods_unavailable:
        seconds = length(status.timeline.pods_unavailable)
        lines.append(f"pods were without a ready replacement for {seconds}, all added up")
    if status.timeline.verified is not None:
        lines.append(f"the fault was proven gone at {_at(status.timeline.verified)}")
    elif status.phase in (JobPhase.VERIFYING, JobPhase.NEEDS_HUMAN) and rung is not None:
        wanted = length(rung.verify.for_)
        since = status.evidence_false_since
        progress = f"seen gone since {_at(since)}" if since is not None else "not seen gone yet"
        lines.append(f"the fault must be gone for {wanted}, by fresh reports: {progress}")
    return lines


def moved_pods(record: StepStatus) -> int:
    """Count the pods that a migrate step has moved, from the notes in its output."""
    chunks = (text for key, text in record.output.items() if _MOVED.fullmatch(key))
    return sum(1 for text in chunks for note in text.split(";") if note)
