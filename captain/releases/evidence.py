"""Judges whether rules of a release may act in a cluster. Pure.

A rule of mode Enforce is applied in DryRun first, if its stage says so. The member's operator
gathers evidence about that version in the rule's status. The rule gets its own mode when the
evidence of all these rules is complete, and stays in DryRun when some evidence is against it.

The time is measured by the member's operator alone: what it has not observed does not count.
"""

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import timedelta
from enum import IntEnum

from pydantic import ValidationError

from captain.releases.content import Raw
from captain.releases.health import find_drift, read_count, read_readiness
from kubenode.api.duration import format_duration
from kubenode.api.meta import format_time
from kubenode.api.names import list_first
from kubenode.api.readiness import Progress
from kubenode.api.v1alpha1 import Mode
from kubenode.api.v1alpha1.noderemedier import (
    MOST_EVIDENCE_NODES,
    DryRunStatus,
    NodeRemedierSpec,
)
from kubenode.api.v1alpha1.release import ClusterEvidence, PayloadKind, PayloadObject
from kubenode.api.v1alpha1.releasepipeline import EnforceApproval, StageRules

SHOWN = 3
"""Nodes that a text names before the rest is counted."""
HOUR = timedelta(hours=1)
NODES = 1000
"""Number of nodes that `maxFirings` is about."""


class EvidenceVerdict(IntEnum):
    """Verdict on rules in DryRun. Of several, the highest applies."""

    COMPLETE = 0
    AWAITING_APPROVAL = 1
    MISSING = 2
    AGAINST = 3


@dataclass(frozen=True, slots=True)
class EvidenceAnswer:
    """Verdict on one rule, with the reason in words.

    status: evidence that the member reports; None if it reports none of this version.
    """

    verdict: EvidenceVerdict
    text: str = ""
    status: DryRunStatus | None = None


def list_unproven(
    payload: Iterable[PayloadObject], previous: Mapping[str, Raw | None]
) -> frozenset[str]:
    """Return the rules of the payload that need evidence in a cluster, by KIND/NAME.

    previous: what stood in the cluster before the release. A rule that acted there already, in the
        same version, needs none.
    """
    enforced = (each for each in payload if acts(each))
    return frozenset(each.key for each in enforced if not _stood(each, previous.get(each.key)))


def acts(wanted: PayloadObject) -> bool:
    """Return whether the object is a rule that repairs without asking a person."""
    rule = wanted.kind is PayloadKind.NODE_REMEDIER and bool(wanted.spec.get("ladder"))
    return rule and wanted.spec.get("mode") == Mode.ENFORCE


def _stood(wanted: PayloadObject, previous: Raw | None) -> bool:
    if previous is None:
        return False
    try:
        before = NodeRemedierSpec.model_validate(previous["spec"])
        return before == NodeRemedierSpec.model_validate(wanted.spec)
    except ValidationError:
        return False


def build_dry_runs(
    payload: Iterable[PayloadObject], unproven: frozenset[str]
) -> list[PayloadObject]:
    """Return the payload with the unproven rules in DryRun."""
    return [_in_dry_run(each) if each.key in unproven else each for each in payload]


def _in_dry_run(wanted: PayloadObject) -> PayloadObject:
    return wanted.model_copy(update={"spec": {**wanted.spec, "mode": Mode.DRY_RUN.value}})


def judge_rules(
    rules: Iterable[PayloadObject],
    objects: Mapping[str, Raw | None],
    limits: StageRules,
    *,
    approved: bool,
) -> list[EvidenceAnswer]:
    """Return the answer for each rule.

    rules: unproven rules, in their own mode.
    objects: live objects of the cluster by KIND/NAME.
    approved: whether a person approved Enforce in the stage.
    """
    return [judge_rule(each, objects, limits, approved=approved) for each in rules]


def judge_rule(
    wanted: PayloadObject,
    objects: Mapping[str, Raw | None],
    limits: StageRules,
    *,
    approved: bool,
) -> EvidenceAnswer:
    """Return the answer for one rule. Whatever is unknown is missing."""
    if not find_drift(wanted, objects):
        return EvidenceAnswer(EvidenceVerdict.COMPLETE)  # an earlier try has written it
    if drift := find_drift(_in_dry_run(wanted), objects):
        return EvidenceAnswer(EvidenceVerdict.MISSING, f"{drift}, so it is not in DryRun")
    live = objects[wanted.key]
    assert live is not None
    answer = _judge_live(live, limits, approved=approved)
    text = f"{wanted.key}: {answer.text}" if answer.text else ""
    return EvidenceAnswer(answer.verdict, text, answer.status)


def _judge_live(live: Raw, limits: StageRules, *, approved: bool) -> EvidenceAnswer:
    readiness = read_readiness(PayloadKind.NODE_REMEDIER, live)
    if readiness.progress is not Progress.CURRENT:
        return EvidenceAnswer(EvidenceVerdict.MISSING, f"not Ready: {readiness.reason}")
    status = read_dry_run(live)
    if status is None:
        text = "its operator reports no evidence of this version (an old one never does)"
        return EvidenceAnswer(EvidenceVerdict.MISSING, text)
    selected = read_count(live, "wouldReach", "nodes")
    verdict, text = _judge_status(status, selected, limits, approved=approved)
    return EvidenceAnswer(verdict, text, status)


def read_dry_run(live: Raw) -> DryRunStatus | None:
    """Return the evidence of the live version; None if there is none, or it cannot be read."""
    try:
        status = DryRunStatus.model_validate(live.get("status", {}).get("dryRun"), extra="ignore")
    except ValidationError:
        return None
    return status if status.generation == live["metadata"].get("generation") else None


def _judge_status(
    status: DryRunStatus, selected: int, limits: StageRules, *, approved: bool
) -> tuple[EvidenceVerdict, str]:
    if against := list(_list_against(status, selected, limits)):
        return EvidenceVerdict.AGAINST, "; ".join(against)
    if status.until - status.since < limits.dry_run_first:
        needed = format_duration(limits.dry_run_first)
        text = f"in DryRun since {format_time(status.since)}, and needs {needed}"
        return EvidenceVerdict.MISSING, text
    if limits.approval is EnforceApproval.ALWAYS and not approved:
        return EvidenceVerdict.AWAITING_APPROVAL, f"{status.firings} firings"
    if limits.approval is EnforceApproval.IF_NOT_FIRED and not (approved or status.firings):
        return EvidenceVerdict.AWAITING_APPROVAL, "it has not fired here"
    return EvidenceVerdict.COMPLETE, ""


def _list_against(status: DryRunStatus, selected: int, limits: StageRules) -> Iterable[str]:
    names = list_first(status.node_names, SHOWN)
    if status.recovered_alone > limits.max_recovered_alone:
        yield (
            f"it would have acted on {status.recovered_alone} nodes that recovered alone"
            f" (at most {limits.max_recovered_alone}): {names}"
        )
    if status.conflicts > limits.max_conflicts:
        yield (
            f"another rule would have disturbed {status.conflicts} of its nodes too"
            f" (at most {limits.max_conflicts}): {names}"
        )
    most = count_allowed_firings(status, selected, limits)
    if status.firings > most:
        yield f"it would have acted {status.firings} times (at most {most} for {selected} nodes)"


def count_allowed_firings(status: DryRunStatus, selected: int, limits: StageRules) -> int:
    """Return the firings allowed over the time in DryRun, or over the minimum time at least."""
    hours = max(status.until - status.since, limits.dry_run_first) / HOUR
    return math.ceil(limits.max_firings * selected * hours / NODES)


def sum_evidence(answers: Sequence[EvidenceAnswer]) -> ClusterEvidence | None:
    """Return the evidence of all rules together; None if no rule has any."""
    statuses = [answer.status for answer in answers if answer.status is not None]
    if not statuses:
        return None
    names = dict.fromkeys(name for status in statuses for name in status.node_names)
    return ClusterEvidence(
        since=max(status.since for status in statuses),
        firings=sum(status.firings for status in statuses),
        nodes=sum(status.nodes for status in statuses),
        recovered_alone=sum(status.recovered_alone for status in statuses),
        conflicts=sum(status.conflicts for status in statuses),
        node_names=list(names)[:MOST_EVIDENCE_NODES],
    )
