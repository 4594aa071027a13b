"""Decides whether a revision of an object is complete and has done no harm since it began. Pure.

The harm is read from RemedyOperationJobs, which are deleted some time after their end. A revision
that began earlier than the oldest job may have caused harm that is no longer stored.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any

from kubenode.api.conditions import find_condition
from kubenode.api.meta import Condition, format_time
from kubenode.api.names import list_first
from kubenode.api.readiness import Progress, Readiness
from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from kubenode.api.v1alpha1.machinecomponentset import ComponentSetConditionType
from remedy.job.model import CLOSING, CloseReason

INSPECTION_REASONS = frozenset({RolloutReason.INSPECTION_FAILED, RolloutReason.INCONCLUSIVE})
NEEDLESS = frozenset(
    {CloseReason.FAULT_GONE, CloseReason.PERSON_CANCELLED, CloseReason.PERSON_UNCORDONED}
)
"""Ends of a job that show that its acts were not needed."""
SHOWN = 5
"""Jobs that a finding names before the rest is counted."""


class RevisionState(StrEnum):
    """Answer of a check. Failed: a person must act, or harm was done."""

    VERIFIED = "Verified"
    IN_PROGRESS = "InProgress"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class RevisionSubject:
    """The checked object and the nodes that it concerns.

    began: start of the revision.
    rule: name of the rule whose jobs count; "" for all rules.
    nodes: names of nodes whose jobs count; None for all nodes.
    max_new_faults: number of new faults that is still accepted; None if new faults do not count.
    """

    kind: str
    name: str
    readiness: Readiness
    conditions: Sequence[Condition]
    began: datetime
    rule: str = ""
    nodes: Collection[str] | None = None
    max_new_faults: int | None = 0

    def concerns(self, job: RemedyOperationJob) -> bool:
        """Return whether the job began with the revision or later, and counts for the object."""
        created = job.metadata.creation_timestamp
        if created is None or created < self.began or job.status.phase is JobPhase.SHADOWED:
            return False
        remedier = job.spec.remedier
        if self.rule and (remedier is None or remedier.name != self.rule):
            return False
        return self.nodes is None or job.spec.node_name in self.nodes


@dataclass(frozen=True, slots=True)
class RevisionCheck:
    """Result of a check.

    false_acts: jobs that were granted a permit, and whose fault then went away by itself or whose
        acts a person took back.
    new_faults: jobs of the subject that began with the revision or later, by fault class.
    failed_inspections: messages of inspections that stopped the rollout.
    """

    subject: RevisionSubject
    false_acts: Sequence[str]
    new_faults: Mapping[str, Sequence[str]]
    failed_inspections: Sequence[str]

    @property
    def findings(self) -> list[str]:
        """Return what speaks against the revision, [] for nothing."""
        findings = [f"failed inspection: {message}" for message in self.failed_inspections]
        readiness = self.subject.readiness
        if readiness.progress is Progress.FAILED and not findings:
            findings.append(f"{readiness.reason}: {readiness.message}".rstrip(": "))
        if self.false_acts:
            findings.append(f"false acts: {list_first(self.false_acts, SHOWN)}")
        limit, count = self.subject.max_new_faults, sum(map(len, self.new_faults.values()))
        if limit is not None and count > limit:
            classes = ", ".join(f"{name} {len(jobs)}" for name, jobs in self.new_faults.items())
            findings.append(f"{count} new faults, {limit} accepted: {classes}")
        return findings

    @property
    def state(self) -> RevisionState:
        if self.findings:
            return RevisionState.FAILED
        if self.subject.readiness.progress is Progress.CURRENT:
            return RevisionState.VERIFIED
        return RevisionState.IN_PROGRESS

    def to_json(self) -> dict[str, Any]:
        subject = self.subject
        return {
            "object": f"{subject.kind}/{subject.name}",
            "state": self.state.value,
            "completed": subject.readiness.progress is Progress.CURRENT,
            "reason": subject.readiness.reason,
            "message": subject.readiness.message,
            "since": format_time(subject.began),
            "falseActs": list(self.false_acts),
            "newFaults": {name: list(jobs) for name, jobs in self.new_faults.items()},
            "failedInspections": list(self.failed_inspections),
            "findings": self.findings,
        }


def check_revision(subject: RevisionSubject, jobs: Iterable[RemedyOperationJob]) -> RevisionCheck:
    """Return the result for the jobs of the cluster."""
    concerned = sorted(filter(subject.concerns, jobs), key=lambda job: job.metadata.name)
    counts = Counter(job.spec.fault_class for job in concerned)
    return RevisionCheck(
        subject,
        [job.metadata.name for job in concerned if is_false_act(job)],
        {
            name: [job.metadata.name for job in concerned if job.spec.fault_class == name]
            for name, _ in counts.most_common()
        },
        list_failed_inspections(subject.conditions),
    )


def is_false_act(job: RemedyOperationJob) -> bool:
    """Return whether the job disturbed its node and its end shows that this was not needed."""
    closing = find_condition(job.status.conditions, CLOSING)
    disturbed = job.status.timeline.permit_granted is not None
    return disturbed and closing is not None and closing.reason in NEEDLESS


def list_failed_inspections(conditions: Sequence[Condition]) -> list[str]:
    """Return the message of the inspection that stops the rollout now, [] if none does."""
    paused = find_condition(conditions, ComponentSetConditionType.PAUSED)
    if paused is None or paused.status != "True" or paused.reason not in INSPECTION_REASONS:
        return []
    return [paused.message or paused.reason]
