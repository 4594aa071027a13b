"""The first glance: one summary of the fleet, for the dashboard and for `kubenode status`. Pure."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime

from defender.dashboard.rollout import SetRollout
from defender.dashboard.rule import RuleView
from defender.overview.notices import FleetNotice, list_notices
from defender.overview.programs import (
    NO_COVERAGE,
    NO_SIGHT,
    AgentCoverage,
    ProgramSight,
    find_leaderless,
)
from defender.overview.situation import NodeSituation

MOST_NAMED = 3


@dataclass(frozen=True, slots=True)
class FleetSummary:
    """State of the fleet.

    nodes, faulty: numbers of all nodes, and of those with a fault.
    since: start of the oldest present fault, None if it is not known.
    faults: (name of a fault, nodes), the most frequent first.
    causes: what the faults are inferred to come from.
    person, on_hold: numbers of jobs.
    repairing, upgrading, would_repair, unattended, undisturbed: numbers of nodes.
    notices: what else a person must know, each with what to do.
    stale: why what is known is not current, "" if it is.
    """

    nodes: int
    faulty: int = 0
    since: datetime | None = None
    faults: tuple[tuple[str, int], ...] = ()
    causes: tuple[str, ...] = ()
    person: int = 0
    on_hold: int = 0
    repairing: int = 0
    upgrading: int = 0
    would_repair: int = 0
    unattended: int = 0
    undisturbed: int = 0
    notices: tuple[FleetNotice, ...] = ()
    stale: str = ""

    @property
    def calm(self) -> bool:
        """Whether nothing is faulty, held, stopped, missing or unknown."""
        waits = self.person or self.on_hold
        return not (self.faulty or waits or self.notices or self.stale)

    @property
    def sentence(self) -> str:
        if self.stale:
            last = "No fault is known"
            if self.faulty:
                last = f"{self.faulty} of {self.nodes} nodes had a fault when last read"
            return f"{last}; the view of the cluster is not current."
        if self.faulty:
            return f"{_fault_count(self)}: {_list_faults(self.faults)}."
        if self.calm:
            return "All is well: no node has a fault, and nothing waits."
        return "No node has a fault."

    def activities(self) -> list[tuple[str, str]]:
        """Return what is done and what waits, as (kind, text): who acts first."""
        rows = (
            ("person", self.person, "job waits for a person", "jobs wait for a person"),
            ("held", self.on_hold, "job is held", "jobs are held"),
            ("repairing", self.repairing, "node is being repaired", "nodes are being repaired"),
            ("dry-run", self.would_repair, "node would be repaired, but its rules are in DryRun",
             "nodes would be repaired, but their rules are in DryRun"),
            ("undisturbed", self.undisturbed, "faulty node has a job that disrupts nothing now",
             "faulty nodes have jobs that disrupt nothing now"),
            ("unattended", self.unattended, "faulty node has no job", "faulty nodes have no job"),
            ("upgrading", self.upgrading, "node is being upgraded", "nodes are being upgraded"),
        )  # fmt: skip
        return [
            (kind, f"{many} {singular if many == 1 else plural}")
            for kind, many, singular, plural in rows
            if many
        ]


@dataclass(frozen=True, slots=True)
class FleetSurroundings:
    """What the summary needs beside the nodes.

    causes: causes that Kube Defender's breakers found.
    stale: see FleetSummary.
    """

    rules: Mapping[str, RuleView] = field(default_factory=dict)
    rollouts: Mapping[str, SetRollout] = field(default_factory=dict)
    programs: ProgramSight = NO_SIGHT
    agents: AgentCoverage = NO_COVERAGE
    causes: Sequence[str] = ()
    stale: str = ""


def summarize_fleet(situations: Iterable[NodeSituation], around: FleetSurroundings) -> FleetSummary:
    """Return the summary of the nodes."""
    nodes = list(situations)
    faulty = [node for node in nodes if node.faults]
    kinds = Counter(fault.name for node in faulty for fault in node.faults)
    leaderless = find_leaderless(around.programs, around.rules.values(), len(around.rollouts))
    return FleetSummary(
        nodes=len(nodes),
        faulty=len(faulty),
        since=min((at for node in faulty if (at := node.since)), default=None),
        faults=tuple(sorted(kinds.items(), key=lambda kind: (-kind[1], kind[0]))),
        causes=(*around.causes, *list_inferred(around.rules.values())) if faulty else (),
        person=sum(node.person for node in nodes),
        on_hold=sum(node.on_hold for node in nodes),
        repairing=sum(node.repairing for node in nodes),
        upgrading=sum(node.upgrading for node in nodes),
        would_repair=sum(bool(node.dry_runs) for node in nodes),
        unattended=sum(node.unattended for node in nodes),
        undisturbed=sum(node.undisturbed for node in nodes),
        notices=tuple(list_notices(around.rules, around.rollouts, leaderless, around.agents)),
        stale=around.stale,
    )


def list_inferred(rules: Iterable[RuleView]) -> list[str]:
    """Return the facts about groups that rules infer now, such as a zone's network loss.

    A fact about one node is a guard of other rules, not a cause of the faults of many.
    """
    return [
        f"{rule.spec.infer.get('fact', rule.metadata.name)}"
        + (f" in {entry.group}" if entry.group else "")
        for rule in sorted(rules, key=lambda rule: rule.metadata.name)
        if rule.spec.infer is not None and rule.spec.infer.get("scope", "Node") != "Node"
        for entry in rule.status.inferred
        if entry.until is None and entry.value not in (False, "", 0)
    ]


def _fault_count(summary: FleetSummary) -> str:
    verb = "has" if summary.faulty == 1 else "have"
    return f"{summary.faulty} of {summary.nodes} nodes {verb} a fault"


def _list_faults(faults: Sequence[tuple[str, int]]) -> str:
    parts = [f"{name} on {many}" for name, many in faults[:MOST_NAMED]]
    if (more := len(faults) - MOST_NAMED) > 0:
        parts.append(f"{more} more {'kind' if more == 1 else 'kinds'}")
    return ", ".join(parts)
