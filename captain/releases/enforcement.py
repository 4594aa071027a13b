"""Lets the rules of a release act in a cluster once their evidence there is complete. Pure.

`enforcedAt` is the intent, stored before the rules are written in their own mode. As long as one of
them may still be unwritten, each move judges the evidence again: what was complete when it was
stored may have changed before a process that died goes on. The write names the version of the
object that was judged, so that it fails if anybody has changed the rule in between.
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from captain.releases.content import Raw
from captain.releases.evidence import (
    EvidenceAnswer,
    EvidenceVerdict,
    build_dry_runs,
    judge_rules,
    list_unproven,
    sum_evidence,
)
from captain.releases.model import EVIDENCE_LENGTH
from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import (
    ApprovalSubject,
    ClusterPhase,
    PayloadObject,
    ReleaseCluster,
    ReleaseReason,
    ReleaseStatus,
)
from kubenode.api.v1alpha1.releasepipeline import PipelineStage, StageRules

_WAITS: Mapping[EvidenceVerdict, tuple[ClusterPhase, ReleaseReason]] = {
    EvidenceVerdict.AWAITING_APPROVAL: (
        ClusterPhase.VERIFYING,
        ReleaseReason.AWAITING_APPROVAL,
    ),
    EvidenceVerdict.MISSING: (ClusterPhase.VERIFYING, ReleaseReason.EVIDENCE_MISSING),
    EvidenceVerdict.AGAINST: (ClusterPhase.FAILED, ReleaseReason.EVIDENCE_AGAINST),
}


def is_approved(release: Release, stage: str, subject: ApprovalSubject) -> bool:
    approvals = release.spec.approvals
    return any(each.stage == stage and each.subject is subject for each in approvals)


@dataclass(frozen=True, slots=True)
class ClusterRules:
    """The payload of a release in one cluster.

    stage: name of its stage.
    limits: evidence that the stage asks for; None for none.
    unproven: rules that need it, by KIND/NAME.
    """

    release: Release
    cluster: ReleaseCluster
    stage: str
    limits: StageRules | None
    unproven: frozenset[str]

    @classmethod
    def of(
        cls,
        release: Release,
        status: ReleaseStatus,
        settings: PipelineStage,
        cluster: ReleaseCluster,
    ) -> "ClusterRules":
        unproven: frozenset[str] = frozenset()
        if settings.rules is not None:
            contents = {each.digest: each.content for each in status.previous}
            previous = json.loads(contents[cluster.previous]) if cluster.previous else {}
            unproven = list_unproven(release.spec.payload, previous)
        return cls(release, cluster, settings.name, settings.rules, unproven)

    @property
    def payload(self) -> Sequence[PayloadObject]:
        """The objects that the cluster shall have now."""
        payload = self.release.spec.payload
        enforced = self.cluster.enforced_at is not None
        return payload if enforced else build_dry_runs(payload, self.unproven)

    def build_objects(self, objects: Mapping[str, Raw | None]) -> list[Raw]:
        """Return the objects to apply. A rule that shall act names the version that was judged."""
        enforced = self.unproven if self.cluster.enforced_at is not None else frozenset()
        return [
            _with_version(each, objects[each.key]) if each.key in enforced else each.to_dict()
            for each in self.payload
        ]

    def judge(self, objects: Mapping[str, Raw | None], now: datetime) -> ReleaseCluster:
        """Return the healthy cluster as it goes on: with its rules in their own mode if the
        evidence is complete.
        """
        if self.limits is None or not self.unproven or self.cluster.enforced_at is not None:
            return self.cluster
        answers = self._judge_rules(objects, self.limits)
        verdict = max(answer.verdict for answer in answers)
        evidence = {"dry_run": sum_evidence(answers)}
        if verdict is EvidenceVerdict.COMPLETE:
            changes: dict[str, Any] = {"phase": ClusterPhase.APPLYING, "enforced_at": now}
            return self.cluster.model_copy(update={**changes, **evidence})
        return self._wait(verdict, answers).model_copy(update=evidence)

    def recheck(self, objects: Mapping[str, Raw | None]) -> ReleaseCluster:
        """Return the cluster that is being written to: with its rules in DryRun again if the
        evidence is not complete any more.
        """
        if self.limits is None or not self.unproven or self.cluster.enforced_at is None:
            return self.cluster
        answers = self._judge_rules(objects, self.limits)
        verdict = max(answer.verdict for answer in answers)
        if verdict is EvidenceVerdict.COMPLETE:
            return self.cluster
        if verdict is EvidenceVerdict.AGAINST:
            return self._wait(verdict, answers)
        return self.cluster.model_copy(update={"enforced_at": None})

    def _judge_rules(
        self, objects: Mapping[str, Raw | None], limits: StageRules
    ) -> list[EvidenceAnswer]:
        rules = [each for each in self.release.spec.payload if each.key in self.unproven]
        approved = is_approved(self.release, self.stage, ApprovalSubject.ENFORCE)
        return judge_rules(rules, objects, limits, approved=approved)

    def _wait(self, verdict: EvidenceVerdict, answers: Sequence[EvidenceAnswer]) -> ReleaseCluster:
        """Return the cluster with the reason why its rules do not act."""
        phase, reason = _WAITS[verdict]
        texts = [answer.text for answer in answers if answer.verdict is verdict]
        text = "; ".join(texts)
        if verdict is EvidenceVerdict.AWAITING_APPROVAL:
            name = self.release.metadata.name
            text = f"`kubenode release approve {name} {self.stage} --enforce`: {text}"
        changes = {"phase": phase, "reason": reason, "evidence": text[:EVIDENCE_LENGTH]}
        return self.cluster.model_copy(update=changes)


def _with_version(wanted: PayloadObject, live: Raw | None) -> Raw:
    """Return the object with the version of the live one."""
    obj = wanted.to_dict()
    version = live["metadata"].get("resourceVersion", "") if live is not None else ""
    return {**obj, "metadata": {**obj["metadata"], "resourceVersion": version}}
