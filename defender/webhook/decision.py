"""Decide what to do about an act of a user, as far as possible without asking for a permit.
Pure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from defender.decision.control import RiskControl
from defender.decision.ledger import LedgerPermit
from defender.decision.policies import LoadedPolicy, covering
from defender.webhook.acts import USER, GuardedAct, GuardedActKind, gone, holder_of
from defender.webhook.callers import Callers
from kubenode.api.v1alpha1.defenderpolicy import Guard, GuardMode
from kubenode.api.v1alpha1.permit import PermitState

STRICTNESS = (GuardMode.OFF, GuardMode.AUDIT, GuardMode.ENFORCE)
BY_DEFAULT = Guard()
"""Guard of a policy that is unreadable."""


class Course(StrEnum):
    """What to do about an act."""

    PASS = "Pass"
    OVERRIDDEN = "Overridden"
    AUDIT = "Audit"
    ENFORCE = "Enforce"


@dataclass(frozen=True, slots=True)
class GuardDecision:
    """The decision. `why` is a sentence; `groups` are those whose members may override."""

    course: Course
    why: str = ""
    groups: frozenset[str] = frozenset()


def decide(act: GuardedAct, control: RiskControl, callers: Callers) -> GuardDecision:
    """Return the decision. AUDIT and ENFORCE mean that Kube Defender must be asked."""
    if callers.is_exempt(act.user):
        return GuardDecision(Course.PASS, f"{act.user} is left alone")
    policies = covering(
        control.policies, act.node.metadata.labels, act.kind.operation, control.fallback
    )
    mode = mode_of(act.kind, policies)
    if mode is GuardMode.OFF:
        return GuardDecision(Course.PASS, "no policy guards this")
    if act.node.metadata.deletion_timestamp is not None:
        return GuardDecision(Course.PASS, "the node is being deleted already")
    if gone(act.node):
        return GuardDecision(Course.PASS, "the machine is out of service")
    if permit := charged(act, control, ours=act.user in callers.ours):
        return GuardDecision(Course.PASS, f"permit {permit.name} covers it")
    if mode is GuardMode.AUDIT:
        return GuardDecision(Course.AUDIT)
    groups = _override_groups(act.kind, policies)
    if act.override and groups.intersection(act.groups):
        return GuardDecision(Course.OVERRIDDEN, act.override, groups)
    return GuardDecision(Course.ENFORCE, groups=groups)


def mode_of(kind: GuardedActKind, policies: Sequence[LoadedPolicy]) -> GuardMode:
    """Return the strictest mode of the policies that cover the act."""
    modes = [kind.mode(_guard(policy)) for policy in policies]
    return max(modes, key=STRICTNESS.index, default=GuardMode.OFF)


def anywhere(kind: GuardedActKind, control: RiskControl) -> bool:
    """Return whether any policy guards such acts."""
    policies = (*control.policies, control.fallback)
    return any(kind.mode(_guard(policy)) is not GuardMode.OFF for policy in policies)


def charged(act: GuardedAct, control: RiskControl, *, ours: bool) -> LedgerPermit | None:
    """Return the permit with which the budget already counts this act, None for none.

    Each act of our own programs needs a permit. A cordon or eviction by another user on a node that
    is under a permit anyway costs nothing more. A deletion does, because it ends the holder's work.
    """
    if not ours and act.kind is GuardedActKind.DELETION:
        return None
    me = holder_of(act.user)
    for permit in control.ledger.open_on(act.name):
        stands = permit.state in (PermitState.GRANTED, PermitState.OVERDUE) and not permit.releasing
        if ours and permit.holder.kind == USER:
            continue
        if stands and not permit.same_holder(me) and permit.class_.weight >= act.kind.class_.weight:
            return permit
    return None


def _override_groups(kind: GuardedActKind, policies: Sequence[LoadedPolicy]) -> frozenset[str]:
    """Return the groups that every enforcing policy allows to override."""
    enforcing = [g for p in policies if kind.mode(g := _guard(p)) is GuardMode.ENFORCE]
    allowed = [frozenset(guard.override_groups) for guard in enforcing]
    return frozenset.intersection(*allowed) if allowed else frozenset()


def _guard(policy: LoadedPolicy) -> Guard:
    return policy.spec.guard if policy.spec is not None else BY_DEFAULT
