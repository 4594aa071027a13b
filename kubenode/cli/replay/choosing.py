"""From what the rules say of a node to what the remedier decides by. Pure."""

from collections.abc import Iterable, Mapping
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.api.v1alpha1.leaves import AbsentLeaf, ConditionLeaf, FactLeaf
from kubenode.api.v1alpha1.remedyoperationjob import TriggerFact
from remedy.remedier.decide import Candidate
from remedy.remedier.values import OF_THE_FLEET, OF_TIME
from rules.diagnose import Agreement, Diagnosis, Match
from rules.truth import Truth


def matching(
    diagnosis: Diagnosis, active: Mapping[str, NodeRemedier]
) -> list[tuple[Match, NodeRemedier]]:
    """In the order of choice: rules with a ladder whose evidence is plain true."""
    return [
        (match, active[match.rule_id])
        for match in diagnosis.matches
        if match.evidence is Truth.TRUE
        and match.rule_id in active
        and active[match.rule_id].spec.ladder
    ]


def candidate(match: Match, rule: NodeRemedier, since: datetime) -> Candidate:
    disputed = match.agreement in (Agreement.DISPUTED, Agreement.TAINTED)
    return Candidate(match.rule_id, rule, match.guards, disputed, since)


def trigger(match: Match) -> list[TriggerFact]:
    """What was read, as it goes into the job."""
    known = {Truth.TRUE: True, Truth.FALSE: False}
    return [
        TriggerFact(
            atom=reading.evidence[:512],
            value=known.get(reading.truth),
            observed=reading.observed_at,
            source=(reading.source or "")[:128],
        )
        for reading in match.readings
    ]


def follows_time(rule: NodeRemedier) -> bool:
    """Whether its evidence can change with nothing but time or other nodes."""
    leaves = (x.leaf if isinstance(x, AbsentLeaf) else x for x in rule.spec.when.leaves())
    names = {leaf.name for leaf in leaves if isinstance(leaf, FactLeaf)}
    return bool(names & (OF_TIME | OF_THE_FLEET))


def shortest_max_age(rules: Iterable[NodeRemedier]) -> timedelta:
    leaves = (leaf for rule in rules for leaf in rule.spec.when.leaves())
    ages = [leaf.max_age for leaf in leaves if isinstance(leaf, ConditionLeaf)]
    return min(ages, default=timedelta(minutes=15))
