"""Conditions of a policy. Pure. Their messages contain no value that changes with time."""

from collections.abc import Mapping
from datetime import datetime

from defender.decision.policies import LoadedPolicy
from kubenode.api.conditions import ConditionUpdate, find_condition, set_conditions
from kubenode.api.meta import Condition
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import DefenderPolicy

NOT_ENFORCED = "NotEnforced"
COMMON_CAUSE = "CommonCause"
"""Condition that is True while faults share a cause. Whoever rolled out the cause should pause it.
"""


def conditions(
    policy: LoadedPolicy, causes: Mapping[tuple[str, str], str], now: datetime
) -> list[Condition]:
    """Return the conditions: those of others, ours, and those that kstatus reads.

    CommonCause appears with the first common cause and then stays.
    """
    updates = {NOT_ENFORCED: _not_enforced(policy)}
    before, generation = policy.status.conditions, policy.metadata.generation
    if causes or find_condition(before, COMMON_CAUSE) is not None:
        updates[COMMON_CAUSE] = _common_cause(causes)
    after = set_conditions(before, updates.items(), generation=generation, now=now)
    return set_readiness(DefenderPolicy.__name__, after, generation=generation, now=now)


def _not_enforced(policy: LoadedPolicy) -> ConditionUpdate:
    explicit = policy.problems
    if not explicit:
        return ConditionUpdate.of(False, "Enforced", "every part of the policy is enforced")
    message = f"everything that this policy covers is refused: {'; '.join(explicit)}"
    return ConditionUpdate.of(True, "Refusing", message)


def _common_cause(causes: Mapping[tuple[str, str], str]) -> ConditionUpdate:
    ordered = sorted(causes.items())
    message = "; ".join(why for _, why in ordered) or "faults have nothing in common"
    reason = "".join(f"{cause[0].upper()}{cause[1:]}" for cause in dict(key for key, _ in ordered))
    return ConditionUpdate.of(bool(ordered), reason or "None", message)
