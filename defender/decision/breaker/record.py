"""Conversion of breakers to and from the policy's status. Pure."""

from defender.decision.breaker.step import ScopeState
from kubenode.api.v1alpha1.defenderpolicy import BreakerChange, BreakerState, BreakerStatus

MOST_CHANGES = 64
"""Greatest number of breakers and changes in a status, as the CRD allows."""


def to_status(scope: str, state: ScopeState) -> BreakerStatus:
    assert state.since is not None
    return BreakerStatus(scope=scope, state=state.state, since=state.since, why=state.why[:1024])


def change(scope: str, state: ScopeState) -> BreakerChange:
    return BreakerChange(**to_status(scope, state).model_dump())


def recalled(entry: BreakerStatus, known: ScopeState | None) -> ScopeState:
    """Return the state from the status. A closed breaker keeps counting from its half-opening."""
    from_ = entry.since
    if entry.state is BreakerState.CLOSED and known is not None and known.counts_from is not None:
        from_ = known.counts_from
    return ScopeState(entry.state, entry.since, entry.why, counts_from=from_)
