"""Conditions of a policy. Pure. Their messages contain no value that changes with time."""

from collections.abc import Mapping
from datetime import datetime

from defender.policies import LoadedPolicy
from kubenode.api.meta import Condition, ConditionStatus

COMMON_CAUSE = "CommonCause"
"""Condition that is True while faults share a cause. Whoever rolled out the cause should pause it.
"""


def conditions(
    policy: LoadedPolicy, causes: Mapping[tuple[str, str], str], now: datetime
) -> list[Condition]:
    """Return the conditions: those of others, and ours.

    CommonCause appears with the first common cause and then stays.
    """
    ours = [_not_enforced(policy, now)]
    if causes or any(each.type == COMMON_CAUSE for each in policy.status.conditions):
        ours.append(_common_cause(policy, causes, now))
    names = {each.type for each in ours}
    return [*(c for c in policy.status.conditions if c.type not in names), *ours]


def _not_enforced(policy: LoadedPolicy, now: datetime) -> Condition:
    explicit = policy.problems
    message = "every part of the policy is enforced"
    if explicit:
        message = f"everything that this policy covers is refused: {'; '.join(explicit)}"
    reason = "Refusing" if explicit else "Enforced"
    return _condition(policy, "NotEnforced", bool(explicit), reason, message, now)


def _common_cause(
    policy: LoadedPolicy, causes: Mapping[tuple[str, str], str], now: datetime
) -> Condition:
    ordered = sorted(causes.items())
    message = "; ".join(why for _, why in ordered) or "faults have nothing in common"
    reason = "".join(f"{cause[0].upper()}{cause[1:]}" for cause in dict(key for key, _ in ordered))
    return _condition(policy, COMMON_CAUSE, bool(ordered), reason or "None", message, now)


def _condition(
    policy: LoadedPolicy, type_: str, true: bool, reason: str, message: str, now: datetime
) -> Condition:
    status = ConditionStatus.TRUE if true else ConditionStatus.FALSE
    old = next((c for c in policy.status.conditions if c.type == type_), None)
    since = old.last_transition_time if old is not None and old.status is status else now
    return Condition(
        type=type_,
        status=status,
        reason=reason,
        message=message[:32000],
        observed_generation=policy.metadata.generation,
        last_transition_time=since,
    )
