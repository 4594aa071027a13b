"""`kubenode defender status`: breakers, pauses, windows, budgets with their use, and the queue.

The report is computed from the cluster's objects by the production code. With `--url` the running
Kube Defender adds what only it knows: its queue, its breakers and its readiness. Without it the
queue consists of the holds that jobs report. Each part of the report names its source.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from defender.answers import READY, Waiting
from defender.client import HttpPermits
from defender.decision.budgets import LimitBudget, budgets
from defender.decision.control import RiskControl
from defender.decision.jobs import ObservedJob
from defender.decision.pauses import lasting, scope_of
from defender.decision.policies import LoadedPolicy
from kubenode.api.meta import format_time
from kubenode.api.recurrence import inside
from kubenode.api.v1alpha1.defenderpolicy import BreakerStatus
from kubenode.api.v1alpha1.permit import Reason
from kubenode.cli.cluster import connected
from kubenode.cli.defender_control import risk_control
from kubenode.cli.defender_objects import DefenderObjects, read_objects
from kubenode.cli.defender_source import DefenderAddress, asking
from kubenode.cli.exits import Exit
from kubenode.cli.options import ReportFormat
from kubenode.cli.tables import show_report, table

FEW = 3
"""Scopes for each label in the table, those with the least room first."""
DEFENDER_REASONS = frozenset(reason.value for reason in Reason)
Row = dict[str, Any]
Report = dict[str, Any]
COLUMNS: Mapping[str, Mapping[str, str]] = {
    "breakers": {"POLICY": "policy", "SCOPE": "scope", "STATE": "state", "SINCE": "since",
                 "WHY": "why"},
    "pauses": {"POLICY": "policy", "SCOPE": "scope", "UNTIL": "until", "BY": "by", "WHY": "why"},
    "windows": {"POLICY": "policy", "WINDOW": "window", "FOR": "for", "NOW": "now",
                "UNTIL": "until"},
    "budgets": {"POLICY": "policy", "SCOPE": "scope", "LIMIT": "kind", "CLASSES": "classes",
                "USED": "used", "OF": "limit", "ROOM": "room"},
    "permits": {"PERMIT": "name", "NODE": "node", "CLASS": "class", "HOLDER": "holder",
                "STATE": "state", "GRANTED": "granted", "EXPIRES": "expires"},
    "queue": {"PLACE": "place", "NODE": "node", "HOLDER": "holder", "SEVERITY": "severity",
              "REASON": "reason", "SCOPE": "scope", "SINCE": "since"},
}  # fmt: skip
EMPTY = {
    "breakers": "no breaker is open",
    "pauses": "nothing is paused",
    "windows": "no windows: acts may start at any time",
    "budgets": "no limits: nothing is bounded",
    "permits": "no permit is open",
    "queue": "nobody waits",
}


async def status_command(
    kubeconfig: str | None, context: str | None, address: DefenderAddress, output: ReportFormat
) -> Exit:
    """Print the status. Return FINDING if Kube Defender was asked and is not ready."""
    async with connected(kubeconfig, context) as kube, asking(address) as defender:
        objects = await read_objects(kube)
        now = kube.clock.now()
        report = reported(objects, risk_control(objects, now), now)
        if defender is not None:
            report |= await fetch_live_status(defender)
    show_report(report, output, lambda: lines(report, wide=output is ReportFormat.WIDE))
    return Exit.FINE if report["ready"] in (READY, "not asked") else Exit.FINDING


def reported(objects: DefenderObjects, control: RiskControl, now: datetime) -> Report:
    """Build the report from objects alone. Pure."""
    policies = objects.policies or [control.fallback]
    return {
        "ready": "not asked",
        "from": {"queue": "jobs", "breakers": "policies", "budgets": "objects"},
        "nodes": {health.value: count for health, count in control.census.counts().items()},
        "unreadable": unreadable_permits(control, objects.unreadable),
        "problems": {p.name: p.problems for p in policies if p.problems},
        "breakers": [_breaker(p.name, b) for p in policies for b in p.status.breaker],
        "pauses": [row for policy in policies for row in _pauses(policy, now)],
        "windows": [row for policy in policies for row in _windows(policy, now)],
        "budgets": [_budget(budget) for budget in budgets(control, now)],
        "permits": _permits(control),
        "queue": _list_waiting_jobs(objects),
    }


async def fetch_live_status(defender: HttpPermits) -> Report:
    """Return the parts that a running Kube Defender knows better. Raises DefenderUnreachable."""
    status, breakers, queue = (
        await defender.status(),
        await defender.breakers(),
        await defender.queue(),
    )
    return {
        "ready": status.ready,
        "from": {"queue": "Kube Defender", "breakers": "Kube Defender", "budgets": "objects"},
        "breakers": [_breaker(p.policy, b) for p in breakers.policies for b in p.breakers],
        "queue": [_waiting(each) for each in queue.waiting],
    }


def _breaker(policy: str, status: BreakerStatus) -> Row:
    return {
        "policy": policy,
        "scope": status.scope,
        "state": status.state.value,
        "since": format_time(status.since),
        "why": status.why,
    }


def _pauses(policy: LoadedPolicy, now: datetime) -> list[Row]:
    active_pauses = lasting(policy.spec.pauses, now) if policy.spec is not None else ()
    return [
        {
            "policy": policy.name,
            "scope": str(scope_of(pause)),
            "until": format_time(pause.until) if pause.until is not None else "resumed",
            "by": pause.by,
            "why": pause.why,
            "now": pause.now,
        }
        for pause in active_pauses
    ]


def _windows(policy: LoadedPolicy, now: datetime) -> list[Row]:
    rows = []
    for window in policy.spec.windows if policy.spec is not None else ():
        is_open, until = inside(window, now)
        days = ",".join(day.value for day in window.days) or "every day"
        rows.append(
            {
                "policy": policy.name,
                "window": f"{days} {window.from_}-{window.to} {window.time_zone}",
                "for": ",".join(o.value for o in window.for_) if window.for_ else "all",
                "now": "open" if is_open else "closed",
                "until": format_time(until) if until is not None else "for ever",
            }
        )
    return rows


def _budget(budget: LimitBudget) -> Row:
    return {
        "policy": budget.policy,
        "index": budget.index,
        "scope": budget.scope,
        "kind": budget.kind,
        "classes": ",".join(sorted(class_.value for class_ in budget.classes)),
        "used": budget.used,
        "limit": budget.limit,
        "room": budget.room,
    }


def _permits(control: RiskControl) -> list[Row]:
    return [
        {
            "name": permit.name,
            "node": permit.node,
            "class": permit.class_.value,
            "holder": f"{permit.holder.kind}/{permit.holder.name}",
            "state": permit.state.value,
            "granted": format_time(permit.granted_at),
            "expires": format_time(permit.expires_at),
        }
        for permit in sorted(
            control.ledger.open(), key=lambda permit: (permit.granted_at, permit.name)
        )
    ]


def unreadable_permits(control: RiskControl, why: Mapping[str, str]) -> list[Row]:
    """List the permits that this version cannot read, as they are counted: open ones first."""
    permits = (control.ledger.get(name) for name in why)
    return [
        {"name": h.name, "node": h.node, "state": h.state.value, "why": why[h.name]}
        for h in sorted((h for h in permits if h is not None), key=lambda h: (not h.open, h.name))
    ]


def _list_waiting_jobs(objects: DefenderObjects) -> list[Row]:
    """List jobs whose hold names a reason of Kube Defender.

    Only Kube Defender knows their order.
    """
    return [
        {
            "place": None,
            "node": job.spec.node_name,
            "holder": f"RemedyOperationJob/{job.metadata.name}",
            "severity": job.spec.severity,
            "reason": job.status.hold.reason,
            "scope": job.status.hold.scope,
            "since": format_time(at) if (at := waits_since(job)) else None,
            "message": job.status.hold.message,
        }
        for job in sorted(objects.jobs, key=lambda job: job.metadata.name)
        if job.open and job.status.hold is not None and job.status.hold.reason in DEFENDER_REASONS
    ]


def waits_since(job: ObservedJob) -> datetime | None:
    """Return when the job began to be held; of a job without that time, its creation."""
    hold = job.status.hold
    return (hold.since if hold is not None else None) or job.metadata.creation_timestamp


def _waiting(each: Waiting) -> Row:
    return {
        "place": each.place,
        "node": each.node,
        "holder": f"{each.holder.kind}/{each.holder.name}",
        "severity": each.severity.value,
        "reason": each.reason.value,
        "scope": each.scope,
        "since": format_time(each.since),
        "message": each.message,
    }


# -- for people -------------------------------------------------------------------------------


def lines(report: Report, *, wide: bool) -> list[str]:
    """Render the report as text.

    wide: show every scope of every limit, and the open permits.
    """
    ready = {READY: "Kube Defender is ready", "not asked": "Kube Defender was not asked (--url)"}
    nodes = ", ".join(f"{count} {health}" for health, count in report["nodes"].items())
    output = [
        ready.get(report["ready"], f"Kube Defender is not ready: {report['ready']}"),
        f"nodes: {nodes}",
    ]
    for policy, problems in report["problems"].items():
        output += [f"policy {policy} refuses what it covers: {problem}" for problem in problems]
    for row in report["unreadable"]:
        state = "counts in rates" if row["state"] == "Released" else "open: its node is refused"
        where = row["node"] or "an unknown node"
        output.append(f"permit {row['name']} on {where} cannot be read ({row['why']}); {state}")
    shown = ["breakers", "pauses", "windows", "budgets", *(["permits"] if wide else []), "queue"]
    for part in shown:
        rows: Sequence[Row] = report[part]
        if part == "budgets" and not wide:
            rows = tightest(rows)
        output += ["", *_part(part, rows, report["from"].get(part, ""))]
    return output


def _part(part: str, rows: Sequence[Row], source: str) -> list[str]:
    if not rows:
        return [EMPTY[part]]
    columns = COLUMNS[part]
    by = f" (as {source} say)" if source in ("jobs", "policies") else ""
    head = [f"{part.upper()}{by}"]
    return head + table(list(columns), [[row[key] for key in columns.values()] for row in rows])


def tightest(rows: Sequence[Row]) -> list[Row]:
    """Return the scopes with the least room for each limit and label, and a row that counts the
    others.
    """
    lots: dict[tuple[Any, ...], list[Row]] = {}
    for row in rows:
        label = row["scope"].partition("=")[0]
        lots.setdefault((row["policy"], row["index"], row["kind"], label), []).append(row)
    shown: list[Row] = []
    for (*_, label), lot in lots.items():
        by_room = sorted(lot, key=lambda row: (row["room"], -row["used"], row["scope"]))
        shown += by_room[:FEW]
        if rest := by_room[FEW:]:
            least = rest[0]
            more = f"{label}: {len(rest)} more"
            shown.append(
                {**least, "scope": more, "used": "", "limit": "", "room": f">={least['room']}"}
            )
    return shown
