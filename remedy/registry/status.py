"""Computes the status of a NodeRemedier: whether it is loaded, and its matches and jobs. Pure.

It holds no ticking value: it is written when something happened, not because time passed.
"""

from dataclasses import dataclass, field
from datetime import datetime

from kubenode.api.meta import Condition, ConditionStatus
from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.api.v1alpha1.noderemedier import (
    JobCounts,
    NodeRemedierStatus,
    RemedierPhase,
    WouldReach,
)
from remedy.registry.radius import ACCEPT, MOST_MATCHING, acts, limit_for

MESSAGE = 2048


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
    conditions = [c for c in old.conditions if c.type not in OURS]
    if rule.spec.mode is not Mode.OFF:
        suffix = "; the last good version stays loaded" if standing.loaded_hash else ""
        conditions += [
            _condition(
                rule,
                now,
                COMPILED,
                not standing.why,
                "Compiled" if not standing.why else "Rejected",
                standing.why and standing.why + suffix,
            ),
            _condition(
                rule,
                now,
                ENGINES_AGREE,
                not standing.quarantined,
                "Agree" if not standing.quarantined else "Quarantined",
                standing.quarantined,
            ),
            _condition(rule, now, SAFE_SIZE, *_safe_size(rule, standing)),
        ]
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


def _condition(
    rule: NodeRemedier, now: datetime, type_: str, holds: bool, reason: str, message: str
) -> Condition:
    old = next((c for c in rule.status.conditions if c.type == type_), None)
    state = ConditionStatus.TRUE if holds else ConditionStatus.FALSE
    same = old is not None and old.status is state
    return Condition(
        type=type_,
        status=state,
        reason=reason,
        message=message[:MESSAGE],
        observed_generation=rule.metadata.generation,
        last_transition_time=old.last_transition_time if old is not None and same else now,
    )


def is_crowded(rule: NodeRemedier) -> bool:
    """Report whether the rule's status says that it marks no further node."""
    return any(c.type == SAFE_SIZE and c.reason == MARKS_TOO_MANY for c in rule.status.conditions)
