"""The condition AgentReady: whether a Machine's agent lives, or why not and what to do. Pure."""

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kubenode.api.meta import ConditionStatus, format_time

LIVES = "LeaseFresh"


class Lifesign(StrEnum):
    """What the agent's Lease says. UNKNOWN: we have not watched it for long enough."""

    ABSENT = "Absent"
    FRESH = "Fresh"
    STALE = "Stale"
    UNKNOWN = "Unknown"


@dataclass(frozen=True, slots=True)
class ConditionUpdate:
    """A condition but for its times."""

    status: ConditionStatus
    reason: str
    message: str


@dataclass(frozen=True, slots=True)
class AgentObservation:
    """expires_at  end of its newest certificate, None for none
    denied      why its newest request was denied, "" if it was not
    reissue     whether a token is live for a new first certificate
    """

    machine: str
    lifesign: Lifesign
    expires_at: datetime | None
    denied: str
    reissue: bool
    now: datetime


def agent_ready(agent: AgentObservation) -> ConditionUpdate | None:
    """None: nothing new can be said."""
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
    over = f"its agent's certificate ended at {format_time(agent.expires_at)}"
    if agent.reissue:
        return _no(
            "CertificateExpired",
            f"{over}: give the host the token that `kubenode machine token {agent.machine}` prints",
        )
    return _no(
        "CertificateExpired", f"{over}: say `kubenode machine reissue {agent.machine}` to let it in"
    )


def _denied(agent: AgentObservation) -> ConditionUpdate | None:
    return _no("CertificateDenied", agent.denied) if agent.denied else None


def _no(reason: str, message: str) -> ConditionUpdate:
    return ConditionUpdate(ConditionStatus.FALSE, reason, message)
