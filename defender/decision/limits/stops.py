"""Stops that do not depend on counts: exclusion and a person's pause."""

from datetime import timedelta

from defender.decision.limits.case import LimitCase, LimitRefusal
from kubenode.api.v1alpha1 import Reason
from kubenode.api.v1alpha1.defenderpolicy import Pause

SELDOM = timedelta(minutes=5)
"""Time to ask again if only a person changes the answer."""


def excluded(case: LimitCase) -> LimitRefusal | None:
    if not case.ruling.excluded:
        return None
    message = f"node {case.ask.node} is excluded by policy {case.policy.name}"
    return LimitRefusal(Reason.EXCLUDED, message, case.now + SELDOM, f"node={case.ask.node}")


def paused(case: LimitCase) -> LimitRefusal | None:
    """Refuse the act if it is paused. Of several pauses the one that lasts longest is named."""
    if not case.spec.pauses:
        return None
    pauses = [
        pause
        for pause in case.spec.pauses
        if _about(pause, case) and (pause.until is None or pause.until > case.now)
    ]
    if not pauses:
        return None
    pause = max(pauses, key=lambda p: (p.until is None, p.until or case.now))
    scope = scope_of_pause(pause)
    by = f" by {pause.by}" if pause.by else ""
    why = f": {pause.why}" if pause.why else ""
    message = f"{scope} is paused{by}{why}"
    return LimitRefusal(Reason.PAUSED, message, pause.until or case.now + SELDOM, scope)


def _about(pause: Pause, case: LimitCase) -> bool:
    match pause.scope:
        case "Cluster":
            return True
        case "Label":
            return case.member.labels.get(pause.label or "") == pause.value
        case "Node":
            return case.ask.node == pause.value


def scope_of_pause(pause: Pause) -> str:
    match pause.scope:
        case "Cluster":
            return "cluster"
        case "Label":
            return f"{pause.label}={pause.value}"
        case "Node":
            return f"node={pause.value}"
