"""Decides the status of a MemberCluster and the time of the next probe. Pure."""

from datetime import datetime, timedelta
from typing import Any
from zlib import crc32

from captain.members.cluster import MemberUnreachable
from captain.members.probe import MemberProbeResult
from kubenode.api.conditions import ConditionUpdate, set_conditions
from kubenode.api.meta import ConditionStatus, format_time
from kubenode.api.readiness import set_readiness
from kubenode.api.v1alpha1 import MemberCluster
from kubenode.api.v1alpha1.membercluster import (
    MEMBER_INSTALLED,
    MEMBER_REACHABLE,
    PAYLOAD_KINDS,
    InstalledReason,
    MemberPhase,
    MemberReason,
)

CONTACT_PERIOD = timedelta(minutes=5)
"""How often `lastContact` is renewed while nothing else changes: a write for each probe of
hundreds of members would cost the API server more than it tells."""
MAX_MACHINES = 10_000_000
"""Bound on the count that a member reports."""

ProbeOutcome = MemberProbeResult | MemberUnreachable


def build_status(
    cluster: MemberCluster,
    outcome: ProbeOutcome,
    now: datetime,
    expires_at: datetime | None = None,
) -> dict[str, Any]:
    """Return the status after a probe. Of an unreachable member the last observation stays.

    expires_at: when the credentials expire, None if unknown.
    """
    generation = cluster.metadata.generation
    conditions = set_conditions(
        cluster.status.conditions,
        [
            (MEMBER_REACHABLE, judge_reach(outcome)),
            (MEMBER_INSTALLED, judge_kinds(outcome)),
        ],
        generation=generation,
        now=now,
    )
    conditions = set_readiness(MemberCluster.__name__, conditions, generation=generation, now=now)
    return {
        "observedGeneration": generation,
        "phase": find_phase(outcome),
        "credentialsExpireAt": None if expires_at is None else format_time(expires_at),
        "conditions": [condition.to_dict() for condition in conditions],
        **_observed(outcome),
    }


def find_change(
    cluster: MemberCluster,
    outcome: ProbeOutcome,
    now: datetime,
    expires_at: datetime | None = None,
) -> dict[str, Any] | None:
    """Return the merge patch of the status, None if there is nothing to write."""
    before = cluster.status.to_dict()
    after = build_status(cluster, outcome, now, expires_at)
    change = {key: value for key, value in after.items() if before.get(key) != value}
    answered = isinstance(outcome, MemberProbeResult)
    contact = cluster.status.last_contact
    if answered and (change or contact is None or now - contact >= CONTACT_PERIOD):
        change["lastContact"] = format_time(now)
    return change or None


def judge_reach(outcome: ProbeOutcome) -> ConditionUpdate:
    """Return the condition Reachable."""
    if isinstance(outcome, MemberProbeResult):
        if not outcome.missing_rights:
            return ConditionUpdate(ConditionStatus.TRUE, MemberReason.CONNECTED)
        lacking = ", ".join(outcome.missing_rights)
        text = f"Captain lacks rights: {lacking}; restore them with `kubenode member import`"
        return ConditionUpdate(ConditionStatus.FALSE, MemberReason.FORBIDDEN, text)
    paused = outcome.reason is MemberReason.PAUSED
    status = ConditionStatus.UNKNOWN if paused else ConditionStatus.FALSE
    return ConditionUpdate(status, outcome.reason, outcome.message)


def judge_kinds(outcome: ProbeOutcome) -> ConditionUpdate | None:
    """Return the condition Installed, None if the probe did not observe it."""
    if not isinstance(outcome, MemberProbeResult):
        return None
    missing = [kind for kind in PAYLOAD_KINDS if kind not in outcome.kinds]
    if not missing:
        return ConditionUpdate(ConditionStatus.TRUE, InstalledReason.INSTALLED)
    text = f"the member does not serve {', '.join(missing)}; run `kubenode install` in it"
    return ConditionUpdate(ConditionStatus.FALSE, InstalledReason.KINDS_MISSING, text)


def find_phase(outcome: ProbeOutcome) -> MemberPhase:
    if isinstance(outcome, MemberProbeResult):
        return MemberPhase.UNREACHABLE if outcome.missing_rights else MemberPhase.CONNECTED
    return MemberPhase.PAUSED if outcome.reason is MemberReason.PAUSED else MemberPhase.UNREACHABLE


def _observed(outcome: ProbeOutcome) -> dict[str, Any]:
    if not isinstance(outcome, MemberProbeResult):
        return {}
    machines = None if outcome.machines is None else min(outcome.machines, MAX_MACHINES)
    return {"version": outcome.version, "kinds": list(outcome.kinds), "machines": machines}


def seconds_to_probe(name: str, now: float, interval: float) -> float:
    """Return the seconds until the next probe of a member, half an interval at least.

    Each member has its own offset in the interval, so that probes of hundreds are spread over it.
    """
    offset = crc32(name.encode()) / 2**32 * interval
    delay = (offset - now) % interval
    return delay if delay >= interval / 2 else delay + interval
