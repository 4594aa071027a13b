"""`kubenode status`: the first glance in a terminal, as on the dashboard's Fleet page.

It prints which nodes have a fault, what is done about them, what waits for a person, what is held,
which rollouts stopped and which programs do not run, each with what to do.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from datetime import datetime
from typing import Any

from defender.decision.jobs import ObservedJob
from defender.decision.pauses import lasting
from defender.overview.faults import FaultConditions
from defender.overview.notices import FleetNotice
from defender.overview.programs import EVERYTHING, LEADER_SECONDS, cover_agents
from defender.overview.records import current_dry_runs
from defender.overview.situation import (
    NodeEvidence,
    NodeSituation,
    assess_node,
    is_on_hold,
    waits_for_person,
)
from defender.overview.summary import FleetSummary, FleetSurroundings, summarize_fleet
from defender.replicas.lifesigns import agent_of
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.defenderpolicy import BreakerState
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.cli.cluster import connected
from kubenode.cli.defender_control import risk_control
from kubenode.cli.exits import Exit
from kubenode.cli.fleet_state import DEFENDER, FleetState, read_state
from kubenode.cli.lengths import length
from kubenode.cli.options import ReportFormat
from kubenode.cli.pause import describe_pause
from kubenode.cli.tables import show_report, table

MOST_ROWS = 20
"""Rows of a table; `-o wide` has all."""
Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class FleetStatus:
    """The state of the fleet as `kubenode status` prints it.

    nodes: nodes with a fault, the oldest fault first.
    people: open jobs that wait for a person, those that need one first.
    holds: number of held jobs by (reason, scope).
    notices: what else a person must know, each with what to do.
    """

    now: datetime
    summary: FleetSummary
    nodes: Sequence[NodeSituation]
    people: Sequence[ObservedJob]
    holds: Mapping[tuple[str, str], int]
    notices: Sequence[FleetNotice]

    @property
    def calm(self) -> bool:
        return self.summary.calm and not self.notices

    @property
    def sentence(self) -> str:
        if self.summary.calm and self.notices:
            return "No node has a fault."
        return self.summary.sentence


def fleet_status(state: FleetState) -> FleetStatus:
    """Summarize what was read. Pure."""
    situations = _situations(state)
    around = FleetSurroundings(
        rules=state.rules,
        rollouts=state.rollouts,
        programs=state.programs,
        agents=cover_agents(
            state.programs, map(agent_of, state.objects.nodes.values()), state.rules.values()
        ),
    )
    summary = summarize_fleet(situations, around)
    open_jobs = [job for job in state.objects.jobs if job.open]
    return FleetStatus(
        state.now,
        summary,
        sorted((node for node in situations if node.faults), key=_oldest_first),
        sorted(filter(waits_for_person, open_jobs), key=_needs_human_first),
        _count_holds(open_jobs),
        (*summary.notices, *_more_notices(state)),
    )


def _situations(state: FleetState) -> list[NodeSituation]:
    control = risk_control(state.objects, state.now)
    conditions = FaultConditions.of(state.rules.values())
    jobs: dict[str, list[ObservedJob]] = defaultdict(list)
    for job in state.objects.jobs:
        if job.open:
            jobs[job.spec.node_name].append(job)
    return [
        assess_node(
            NodeEvidence(
                node,
                control.census.member(name),
                jobs[name],
                control.ledger.open_on(name),
                tuple(current_dry_runs(state.records.get(name), node, state.rules)),
            ),
            conditions,
        )
        for name, node in sorted(state.objects.nodes.items())
    ]


def _oldest_first(node: NodeSituation) -> tuple[bool, float, str]:
    return node.since is None, node.since.timestamp() if node.since else 0.0, node.name


def _needs_human_first(job: ObservedJob) -> tuple[bool, str]:
    return job.status.phase != JobPhase.NEEDS_HUMAN, job.metadata.name


def _count_holds(jobs: Sequence[ObservedJob]) -> dict[tuple[str, str], int]:
    """Count held jobs by reason and scope: their messages differ in figures that change."""
    holds = Counter(
        (hold.reason, hold.scope)
        for job in jobs
        if is_on_hold(job) and (hold := job.status.hold) is not None
    )
    return dict(holds.most_common())


def _more_notices(state: FleetState) -> Iterator[FleetNotice]:
    if state.leases is not None and not _is_led(state.leases):
        yield FleetNotice(
            "program", DEFENDER, "Kube Defender has no leader",
            f"Nobody renews Lease {DEFENDER}: it grants no permit, so no disruptive step starts.",
            "Start it: kubenode run defender, or find out why its pods do not run.",
        )  # fmt: skip
    for policy in state.objects.policies:
        for problem in policy.problems:
            yield FleetNotice(
                "policy", policy.name, f"Policy {policy.name} refuses what it covers", problem,
                f"Correct it: kubectl edit defenderpolicy {policy.name}.",
            )  # fmt: skip
        for breaker in policy.status.breaker:
            if breaker.state is not BreakerState.CLOSED:
                yield FleetNotice(
                    "breaker", f"{policy.name}/{breaker.scope}",
                    f"Breaker of {breaker.scope} is {breaker.state} since"
                    f" {format_time(breaker.since)}", breaker.why,
                    "It closes by itself when the nodes are well: `kubenode defender status`.",
                )  # fmt: skip
        for pause in lasting(policy.spec.pauses, state.now) if policy.spec is not None else ():
            yield FleetNotice(
                "pause", f"{policy.name}/{pause.scope}", f"Paused: {describe_pause(pause)}", "",
                "End it: `kubenode resume` with the same --scope.",
            )  # fmt: skip
    for gap in state.gaps:
        yield FleetNotice(
            "right", gap, "Not everything could be read", gap,
            "Use an account with ClusterRole kubenode-viewer of charts/kubenode/people.yaml.",
        )  # fmt: skip


def _is_led(leases: Mapping[str, float]) -> bool:
    return any(leases.get(name, LEADER_SECONDS) < LEADER_SECONDS for name in (DEFENDER, EVERYTHING))


# -- output


def as_data(status: FleetStatus) -> dict[str, Any]:
    summary = status.summary
    return {
        "calm": status.calm,
        "sentence": status.sentence,
        "nodes": summary.nodes,
        "faulty": summary.faulty,
        "since": format_time(summary.since) if summary.since is not None else None,
        "causes": list(summary.causes),
        "faults": [{"name": name, "nodes": nodes} for name, nodes in summary.faults],
        "activities": [{"kind": kind, "text": text} for kind, text in summary.activities()],
        "faultyNodes": [_node_row(node, status.now) for node in status.nodes],
        "forPeople": [_person_row(job) for job in status.people],
        "held": [
            {"reason": reason, "scope": scope, "jobs": jobs}
            for (reason, scope), jobs in status.holds.items()
        ],
        "notices": [asdict(notice) for notice in status.notices],
    }


def _node_row(node: NodeSituation, now: datetime) -> dict[str, Any]:
    return {
        "node": node.name,
        "faults": [fault.name for fault in node.faults],
        "since": format_time(node.since) if node.since is not None else None,
        "age": length(now - node.since) if node.since is not None else "",
        "activity": activity_of(node),
    }


def activity_of(node: NodeSituation) -> str:
    """Return what is done about the node's faults, as the end of a sentence about it."""
    if node.person:
        return "waits for a person"
    if node.repairing:
        return "is being repaired"
    if node.upgrading:
        return "is being upgraded"
    if node.on_hold:
        return "has a job that is held"
    if node.jobs:
        return "has a job that disrupts nothing now"
    if node.dry_runs:
        return f"would be repaired by {node.dry_runs[0]} (DryRun)"
    return "has no job"


def _person_row(job: ObservedJob) -> dict[str, Any]:
    name = job.metadata.name
    approval = job.status.phase == JobPhase.AWAITING_APPROVAL
    return {
        "job": name,
        "node": job.spec.node_name,
        "rule": job.spec.remedier.name,
        "phase": str(job.status.phase),
        "do": f"kubenode approve {name}" if approval else f"kubenode explain job {name}",
    }


def lines(status: FleetStatus, *, wide: bool) -> list[str]:
    """Render the status as text. wide: all rows of each table."""
    data, summary = as_data(status), status.summary
    head = [status.sentence]
    if summary.since is not None:
        head.append(f"  since {data['since']} ({length(status.now - summary.since)})")
    head += [f"  possible cause: {cause}" for cause in summary.causes]
    head += [f"  {text}" for _, text in summary.activities()]
    nodes = [
        [row["node"], ", ".join(row["faults"]), row["age"], row["activity"]]
        for row in data["faultyNodes"]
    ]
    people = [list(row.values()) for row in data["forPeople"]]
    holds = [[row["jobs"], row["reason"], row["scope"]] for row in data["held"]]
    return [
        *head,
        *_section("FOR A PERSON", ["JOB", "NODE", "RULE", "PHASE", "DO"], people, wide),
        *_section("NODES WITH A FAULT", ["NODE", "FAULTS", "FOR", "ACTIVITY"], nodes, wide),
        *_section("HELD", ["JOBS", "REASON", "SCOPE"], holds, wide),
        *_notice_lines(status.notices),
    ]


def _section(
    title: str, head: Sequence[str], rows: Sequence[Sequence[Any]], wide: bool
) -> list[str]:
    if not rows:
        return []
    shown = rows if wide else rows[:MOST_ROWS]
    more = [f"… and {len(rows) - len(shown)} more (-o wide)"] if len(shown) < len(rows) else []
    return ["", title, *table(head, shown), *more]


def _notice_lines(notices: Sequence[FleetNotice]) -> list[str]:
    output: list[str] = []
    for notice in notices:
        why = [f"  {notice.why}"] if notice.why else []
        output += ["", notice.title, *why, f"  -> {notice.remedy}"]
    return output


async def status_command(
    kubeconfig: str | None, context: str | None, namespace: str, output: ReportFormat
) -> Exit:
    """Print the status. It is FINE also if nodes have faults: `kubenode doctor` judges."""
    async with connected(kubeconfig, context) as kube:
        status = fleet_status(await read_state(kube, namespace))
    show_report(as_data(status), output, lambda: lines(status, wide=output is ReportFormat.WIDE))
    return Exit.FINE
