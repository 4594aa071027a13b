"""Evidence of rules in DryRun: what they would have done on nodes, by version of the rule. Pure.

A node record holds the evidence of each rule on its node. DryRunEvidenceIndex adds it up over all
nodes, for the status of the rule.
"""

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.v1alpha1 import Disruption, Mode, NodeRemedier
from kubenode.api.v1alpha1.noderecord import DryRunEvidence, DryRunResults, NodeRecordSpec
from kubenode.runtime.kube.objects import Node
from remedy.remedier.past import Past


@dataclass(frozen=True, slots=True)
class DryRunMatch:
    """A rule in DryRun that matches a node.

    conflict: name of another rule that would disturb the node too, "" for none
    """

    remedier: str
    generation: int
    conflict: str = ""


@dataclass(frozen=True, slots=True)
class EvidenceTotals:
    """Evidence of one version of a rule over all nodes.

    alone: nodes that recovered although nobody acted on them
    conflicts: nodes that another rule would have disturbed too
    """

    firings: int = 0
    nodes: int = 0
    alone: tuple[str, ...] = ()
    conflicts: tuple[str, ...] = ()


def find_dry_run_matches(
    rules: Collection[NodeRemedier], past: Iterable[Past]
) -> list[DryRunMatch]:
    """Return the rules in DryRun among those that match a node, with their conflicts.

    past: jobs of the node.
    """
    disturbing = {rule.metadata.name for rule in rules if _disturbs(rule)}
    disturbing |= {job.remedier for job in past if job.open and job.acted and not job.shadow}
    return [
        DryRunMatch(
            rule.metadata.name,
            rule.metadata.generation,
            min(disturbing - {rule.metadata.name}, default="") if _disturbs(rule) else "",
        )
        for rule in rules
        if rule.spec.mode is Mode.DRY_RUN
    ]


def _disturbs(rule: NodeRemedier) -> bool:
    return rule.spec.mode is not Mode.OFF and rule.spec.disruption_class is not Disruption.NONE


def find_attended_at(
    node: Node, booted_at: datetime | None, past: Iterable[Past], now: datetime
) -> datetime | None:
    """Return when somebody last acted on the node; None if nobody did, as far as known.

    A cordon and an open job that has acted count as an act now.
    """
    here = [
        job for job in past if not job.shadow and job.acted and job.node_uid == node.metadata.uid
    ]
    if node.spec.unschedulable or any(job.open for job in here):
        return now
    times = [booted_at, *(job.acted_at for job in here)]
    return max((at for at in times if at is not None), default=None)


def count_firing(old: DryRunResults | None, generation: int) -> DryRunEvidence:
    """Return the evidence with one more repair that this version would have started."""
    evidence = _evidence_of(old, generation)
    return evidence.model_copy(update={"firings": evidence.firings + 1})


def _evidence_of(old: DryRunResults | None, generation: int) -> DryRunEvidence:
    evidence = old.evidence if old is not None else None
    if evidence is None or evidence.generation != generation:
        return DryRunEvidence(generation=generation)
    return evidence


def count_end(results: DryRunResults, attended_at: datetime | None) -> DryRunEvidence | None:
    """Return the evidence after the incident ended."""
    evidence = results.evidence
    if evidence is None or not results.recent:
        return evidence
    if attended_at is not None and attended_at >= results.recent[-1].at:
        return evidence
    return evidence.model_copy(update={"recovered_alone": evidence.recovered_alone + 1})


def with_matches(spec: NodeRecordSpec, matches: Iterable[DryRunMatch]) -> NodeRecordSpec:
    """Return the record with the conflicts of incidents that last.

    An incident that an earlier version of the rule began is one that this version fires on too.
    """
    current = {match.remedier: match for match in matches}
    results = [
        _with_match(each, current[each.remedier])
        if each.remedier in current and each.false_since is None
        else each
        for each in spec.dry_runs
    ]
    same = all(a is b for a, b in zip(results, spec.dry_runs, strict=True))
    return spec if same else spec.model_copy(update={"dry_runs": results})


def _with_match(results: DryRunResults, match: DryRunMatch) -> DryRunResults:
    evidence = _evidence_of(results, match.generation)
    changes = {
        "firings": max(evidence.firings, 1),
        "conflict": evidence.conflict or match.conflict,
    }
    new = evidence.model_copy(update=changes)
    return results if new == results.evidence else results.model_copy(update={"evidence": new})


@dataclass(slots=True)
class DryRunEvidenceIndex:
    """The evidence in all node records, by rule and node."""

    _by_rule: dict[str, dict[str, DryRunEvidence]] = field(default_factory=dict)
    _by_node: dict[str, Mapping[str, DryRunEvidence]] = field(default_factory=dict)

    def store(self, node: str, results: Iterable[DryRunResults]) -> list[str]:
        """Replace the evidence of a node. Return the rules whose evidence changed."""
        new = {each.remedier: each.evidence for each in results if each.evidence is not None}
        old = self._by_node.pop(node, {})
        changed = [rule for rule in {**old, **new} if old.get(rule) != new.get(rule)]
        for rule in changed:
            nodes = self._by_rule.setdefault(rule, {})
            nodes.pop(node, None)
            if rule in new:
                nodes[node] = new[rule]
            if not nodes:
                del self._by_rule[rule]
        if new:
            self._by_node[node] = new
        return changed

    def add_up(self, rule: str, generation: int) -> EvidenceTotals:
        """Return the evidence of one version of a rule. Names are sorted."""
        nodes = {
            node: evidence
            for node, evidence in sorted(self._by_rule.get(rule, {}).items())
            if evidence.generation == generation
        }
        return EvidenceTotals(
            sum(evidence.firings for evidence in nodes.values()),
            len(nodes),
            tuple(node for node, evidence in nodes.items() if evidence.recovered_alone),
            tuple(node for node, evidence in nodes.items() if evidence.conflict),
        )
