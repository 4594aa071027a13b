"""Evidence of a rule in DryRun, as its status has it. Pure.

`until` would tick. It is written at growing intervals, and whenever the numbers change.
"""

from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.api.v1alpha1.noderemedier import (
    MOST_EVIDENCE_NODES,
    DryRunStatus,
    RemedierPhase,
)
from remedy.noderecord.evidence import EvidenceTotals

LONGEST_GAP = timedelta(hours=1)
"""Longest time without an observation that counts as observed."""
SHORTEST_INTERVAL, LONGEST_INTERVAL = timedelta(seconds=5), timedelta(minutes=30)
INTERVALS = 10
"""Writes of `until` for each doubling of the time, roughly."""


def find_interval(status: DryRunStatus) -> timedelta:
    """Return the time after which `until` is written again."""
    interval = (status.until - status.since) / INTERVALS
    return max(SHORTEST_INTERVAL, min(interval, LONGEST_INTERVAL))


def observe_dry_run(
    rule: NodeRemedier, phase: RemedierPhase, totals: EvidenceTotals, now: datetime
) -> DryRunStatus | None:
    """Return the evidence of the rule's version; None if it is not in DryRun.

    The time does not run while the version is not loaded or the engines disagree about it.
    """
    if rule.spec.mode is not Mode.DRY_RUN:
        return None
    old, generation = rule.status.dry_run, rule.metadata.generation
    if old is not None and old.generation != generation:
        old = None
    if phase is not RemedierPhase.ACTIVE:
        return old
    if old is None:
        old = DryRunStatus(generation=generation, since=now, until=now)
    elif now - old.until > LONGEST_GAP:
        old = old.model_copy(update={"since": now, "until": now})
    new = _with_totals(old, totals)
    due = now >= old.until + find_interval(old)
    return new.model_copy(update={"until": max(now, old.until)}) if due or new != old else old


def _with_totals(old: DryRunStatus, totals: EvidenceTotals) -> DryRunStatus:
    """Return the status with numbers that never fall: a deleted node takes its record with it."""
    names = dict.fromkeys((*old.node_names, *totals.alone, *totals.conflicts))
    return old.model_copy(
        update={
            "firings": max(old.firings, totals.firings),
            "nodes": max(old.nodes, totals.nodes),
            "recovered_alone": max(old.recovered_alone, len(totals.alone)),
            "conflicts": max(old.conflicts, len(totals.conflicts)),
            "node_names": list(names)[:MOST_EVIDENCE_NODES],
        }
    )
