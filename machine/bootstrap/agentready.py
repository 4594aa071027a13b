"""Condition AgentReady of a Machine: whether its agent is alive, or why not and what to do.
Pure.
"""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kubenode.api.conditions import ConditionUpdate
from kubenode.api.meta import ConditionStatus, format_time

LIVES = "LeaseFresh"
"""Reason of AgentReady while the agent renews its Lease."""


class Lifesign(StrEnum):
    """Liveness of an agent by its Lease. UNKNOWN: the Lease has not been watched long enough."""

    ABSENT = "Absent"
    FRESH = "Fresh"
    STALE = "Stale"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class AgentObservation:
    """What is known of an agent.

    machine: name of its Machine.
    expires_at: end of its newest certificate, None for none.
    denied: why its newest request was denied, "" if it was not.
    reissue: whether a person permits a new first certificate.
    """

    machine: str
    lifesign: Lifesign
    expires_at: datetime | None
    denied: str
    reissue: bool
    now: datetime


def agent_ready(agent: AgentObservation) -> ConditionUpdate | None:
    """Return condition AgentReady, None to leave it as it is."""
    if agent.lifesign is Lifesign.FRESH:
        return ConditionUpdate(ConditionStatus.TRUE, LIVES, "its agent renews its Lease")
    if agent.expires_at is None:
        if agent.lifesign is Lifesign.UNKNOWN:
            return None
        return _denied(agent) or _no(
            "Waiting",
            "its agent has no certificate yet: give the host the token that"
            f" `kubenode machine token {agent.machine}` prints",
        )
    if agent.expires_at <= agent.now:
        return _expired(agent)
    if agent.lifesign is Lifesign.UNKNOWN:
        return None
    return _denied(agent) or _no(
        "LeaseStale", "its agent does not renew its Lease: look at kubenode-agent on the host"
    )


def _expired(agent: AgentObservation) -> ConditionUpdate:
    assert agent.expires_at is not None
    reason = f"its agent's certificate ended at {format_time(agent.expires_at)}"
    if agent.reissue:
        return _no(
            "CertificateExpired",
            f"{reason}: give the host the token that"
            f" `kubenode machine token {agent.machine}` prints",
        )
    return _no(
        "CertificateExpired",
        f"{reason}: say `kubenode machine reissue {agent.machine}` to let it in",
    )


def _denied(agent: AgentObservation) -> ConditionUpdate | None:
    return _no("CertificateDenied", agent.denied) if agent.denied else None


def _no(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(ConditionStatus.FALSE, reason, message)
