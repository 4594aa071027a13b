"""Computes the status of a NodeRemedier: whether it is loaded, and its matches and jobs. Pure.

It holds no ticking value: it is written when something happened, not because time passed.
"""

from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.conditions import ConditionUpdate, set_conditions
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.api.v1alpha1.noderemedier import (
    JobCounts,
    NodeRemedierStatus,
    RemedierPhase,
    WouldReach,
)
from remedy.registry.radius import ACCEPT, MOST_MATCHING, acts, limit_for


@dataclass(frozen=True, slots=True)
class RuleState:
    """What the registry knows of one rule.

    why: why its newest version is not loaded, "" if it is
    quarantined: why a dispute of the engines keeps it from acting, "" if none does
    loaded_hash: hash of the loaded version, which is the last good one; None for none
    would_reach: nodes that it selects; `with_replace_path` of them could be replaced
    fleet: number of all nodes
    jobs: its jobs by how they ended
    crowded: it acts without a permit and matches too many nodes to mark one more
    """

    phase: RemedierPhase
    why: str = ""
    quarantined: str = ""
    loaded_hash: str | None = None
    matching: int = 0
    last_match: datetime | None = None
    would_reach: int = 0
    with_replace_path: int = 0
    fleet: int = 0
    jobs: JobCounts = field(default_factory=JobCounts)
    crowded: bool = False


def phase_of(rule: NodeRemedier, why: str, quarantined: str) -> RemedierPhase:
    if rule.spec.mode is Mode.OFF:
        return RemedierPhase.OFF
    if why:
        return RemedierPhase.REJECTED
    return RemedierPhase.QUARANTINED if quarantined else RemedierPhase.ACTIVE


def status_of(rule: NodeRemedier, standing: RuleState, now: datetime) -> NodeRemedierStatus:
    old = rule.status
    conditions = list(old.conditions)
    if rule.spec.mode is Mode.OFF:
        conditions = [c for c in conditions if c.type not in OURS]
    else:
        updates, generation = _updates(rule, standing), rule.metadata.generation
        conditions = set_conditions(conditions, updates.items(), generation=generation, now=now)
    conditions = set_readiness(
        NodeRemedier.__name__, conditions, generation=rule.metadata.generation, now=now
    )
    return old.model_copy(
        update={
            "observed_generation": rule.metadata.generation,
            "phase": standing.phase,
            "matching": standing.matching,
            "would_reach": _would_reach(rule, standing),
            "jobs": standing.jobs,
            "last_match_time": standing.last_match or old.last_match_time,
            "compiled_hash": standing.loaded_hash,
            "conditions": conditions,
        }
    )


def _updates(rule: NodeRemedier, standing: RuleState) -> dict[str, ConditionUpdate]:
    suffix = "; the last good version stays loaded" if standing.loaded_hash else ""
    compiled, agree = not standing.why, not standing.quarantined
    return {
        COMPILED: ConditionUpdate.of(
            compiled,
            "Compiled" if compiled else "Rejected",
            standing.why and standing.why + suffix,
        ),
        ENGINES_AGREE: ConditionUpdate.of(
            agree, "Agree" if agree else "Quarantined", standing.quarantined
        ),
        SAFE_SIZE: ConditionUpdate.of(*_safe_size(rule, standing)),
    }


def _would_reach(rule: NodeRemedier, standing: RuleState) -> WouldReach:
    """Return the estimate for this generation from when it was first loaded: it does not follow the
    fleet's size.
    """
    old = rule.status
    if old.would_reach is not None and old.observed_generation == rule.metadata.generation:
        return old.would_reach
    return WouldReach(nodes=standing.would_reach, with_replace_path=standing.with_replace_path)


def _safe_size(rule: NodeRemedier, standing: RuleState) -> tuple[bool, str, str]:
    """Return status, reason and message of SafeSize: the rule selects nodes, and does not match
    more than a person should check.
    """
    if not standing.would_reach:
        return False, "SelectsNoNode", "no node of the cluster has the labels asked for"
    if standing.crowded:
        why = (
            "it acts without a permit, and more nodes match than it may mark at once, those that"
            " are not judged yet included: no further node is marked before fewer match. A person"
            f" should look, and may accept that with annotation {ACCEPT}"
        )
        return False, MARKS_TOO_MANY, why
    if standing.matching <= limit_for(rule, standing.fleet) or not acts(rule):
        return True, "SelectsNodes", ""
    why = (
        f"it matches more than {MOST_MATCHING} of the fleet: Kube Defender's limits hold its jobs;"
        f" a person should look, and may accept that with annotation {ACCEPT}"
    )
    return False, "MatchesTooMany", why


MARKS_TOO_MANY = "MarksTooMany"
COMPILED, ENGINES_AGREE, SAFE_SIZE = "Compiled", "EnginesAgree", "SafeSize"
OURS = frozenset({COMPILED, ENGINES_AGREE, SAFE_SIZE})


def is_crowded(rule: NodeRemedier) -> bool:
    """Report whether the rule's status says that it marks no further node."""
    return any(c.type == SAFE_SIZE and c.reason == MARKS_TOO_MANY for c in rule.status.conditions)
