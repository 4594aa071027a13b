"""`kubenode defender explain NODE`: may a node be disrupted now, and what would have to change?

The answer is computed from the cluster's objects by the production code, with breakers in the state
that the policies' status has. With `--url` the running
Kube Defender is asked too: it knows the queue, and its answer decides the exit code.
"""

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from typing import Any

import typer

from defender.answers import READY
from defender.client import HttpPermits
from defender.decision.budgets import budgets
from defender.decision.control import RiskControl
from defender.decision.limits.case import LimitRefusal as No
from defender.decision.limits.table import BY_NAME
from defender.decision.pauses import lasting, scope_of
from defender.decision.verdict import judge, refusals
from defender.server.eviction import EvictionPreview, read_preview
from kubenode.api.meta import format_time
from kubenode.api.recurrence import inside
from kubenode.api.v1alpha1 import Ask, Disruption, Operation
from kubenode.api.v1alpha1.permit import Holder
from kubenode.cli.cluster import connected
from kubenode.cli.defender_control import risk_control
from kubenode.cli.defender_objects import DefenderObjects, read_objects
from kubenode.cli.defender_source import DefenderAddress, asking
from kubenode.cli.defender_why import lines, remedy
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import Plain

SOMEBODY = Holder(kind="Explanation", name="somebody-new", uid="explanation")
Report = dict[str, Any]


async def explain_command(
    kubeconfig: str | None,
    context: str | None,
    address: DefenderAddress,
    node: str,
    operation: Operation,
    class_: Disruption,
    output: Plain,
) -> Exit:
    """Print the explanation. Return FINDING if the act would be refused."""
    async with connected(kubeconfig, context) as kube, asking(address) as defender:
        objects = await read_objects(kube)
        if node not in objects.nodes:
            text = f"node {node} is not in the cluster; `kubectl get nodes` lists those that are"
            raise Refusal(text)
        now = kube.clock.now()
        control = risk_control(objects, now)
        report = explained(objects, control, node, operation, class_, now)
        report["evictions"] = shown_preview(await read_preview(kube, node))
        if defender is not None:
            report |= await fetch_live_answers(defender, node, operation, class_)
    if output is Plain.JSON:
        typer.echo(json.dumps(report, indent=2, ensure_ascii=False))
    else:
        for line in lines(report):
            typer.echo(line)
    answer = report.get("told") or report["answer"]
    return Exit.FINE if answer["allowed"] else Exit.FINDING


def explained(
    objects: DefenderObjects,
    control: RiskControl,
    node: str,
    operation: Operation,
    class_: Disruption,
    now: datetime,
) -> Report:
    """Explain the answer from objects alone. Pure."""
    member, place = control.census.member(node), control.census.place(node)
    assert member is not None
    assert place is not None
    ask = Ask(operation=operation, class_=class_, node=node, holder=SOMEBODY, dry_run=True)
    objections = refusals(ask, control, now)
    verdict = judge(ask, control, now)
    rulings = place.ruling(operation)
    return {
        "node": node,
        "health": member.health.value,
        "operation": operation.value,
        "class": class_.value,
        "policies": [ruling.policy.name for ruling in rulings],
        "answer": {
            "allowed": verdict.allowed,
            "reason": verdict.reason.value,
            "message": verdict.message,
        },
        "against": [_objection(no, control) for no in objections],
        "limits": list(_limits(control, node, class_, operation, objections, now)),
        "perNode": list(_per_node(control, node, operation, now)),
        "breakers": list(_breakers(control, node, operation)),
        "pauses": list(_pauses(objects, node, now)),
        "windows": list(_windows(control, node, operation, now)),
        "permits": [
            f"{p.name}: class {p.class_}, {p.state}, {p.holder.kind} {p.holder.name}"
            for p in control.ledger.open_on(node)
        ],
        "waiting": _list_waiting_jobs(objects, node),
    }


async def fetch_live_answers(
    defender: HttpPermits, node: str, operation: Operation, class_: Disruption
) -> Report:
    """Return the answers of the running Kube Defender. Raises DefenderUnreachable."""
    explanation = await defender.explain(node)
    queue = await defender.queue()
    report: Report = {
        "ready": explanation.ready,
        "waiting": [
            {
                "holder": f"{each.holder.kind} {each.holder.name}",
                "place": each.place,
                "reason": each.reason.value,
                "scope": each.scope,
                "since": format_time(each.since),
                "severity": each.severity.value,
            }
            for each in queue.waiting
            if each.node == node
        ],
    }
    for answer in explanation.answers:
        if (answer.operation, answer.class_) == (operation, class_):
            verdict = answer.verdict
            report["told"] = {
                "allowed": verdict.allowed and explanation.ready == READY,
                "reason": verdict.reason.value,
                "message": verdict.message if explanation.ready == READY else explanation.ready,
            }
    return report


def _objection(no: No, control: RiskControl) -> Report:
    return {
        "reason": no.reason.value,
        "scope": no.scope,
        "message": no.message,
        "used": no.used,
        "limit": no.limit,
        "lookAgainAt": format_time(no.requeue_at),
        "remedy": remedy(no, control),
    }


def _limits(
    control: RiskControl,
    node: str,
    class_: Disruption,
    operation: Operation,
    objections: Sequence[No],
    now: datetime,
) -> Iterator[Report]:
    """Yield every limit that applies to the operation and the disruption class.

    objections: refusals of the same request; they decide whether a limit says no.
    """
    place = control.census.place(node)
    assert place is not None
    keys = {bound.key for ruling in place.ruling(operation) for bound in ruling.bounds}
    for budget in budgets(control, now, fallback=True):
        if (budget.policy, budget.index, budget.scope) not in keys or class_ not in budget.classes:
            continue
        reason = BY_NAME[budget.kind].reason
        no = any(each.reason is reason and each.scope == budget.scope for each in objections)
        yield {
            "policy": budget.policy,
            "scope": budget.scope,
            "kind": budget.kind,
            "used": budget.used,
            "limit": budget.limit,
            "says": "no" if no else "yes",
        }


def _per_node(
    control: RiskControl, node: str, operation: Operation, now: datetime
) -> Iterator[Report]:
    place = control.census.place(node)
    assert place is not None
    for ruling in place.ruling(operation):
        if ruling.spec is None:
            continue
        rule = ruling.spec.per_node
        recent = {
            permit.holder.uid
            for permit in control.ledger.on_node(node)
            if permit.granted_at > now - rule.within
        }
        yield {"policy": ruling.policy.name, "used": len(recent), "limit": rule.max_acts}


def _breakers(control: RiskControl, node: str, operation: Operation) -> Iterator[Report]:
    """Yield the breakers of the policies that rule the node."""
    member, place = control.census.member(node), control.census.place(node)
    assert member is not None and place is not None
    ruling = {each.policy.name for each in place.ruling(operation)}
    for watch in control.breakers.watches():
        if watch.policy.name not in ruling:
            continue
        for scope in watch.scopes(member.labels):
            group = watch.group(scope)
            yield {
                "policy": watch.policy.name,
                "scope": scope,
                "state": watch.state(scope).state.value,
                "since": format_time(at) if (at := watch.state(scope).since) else None,
                "faults": group.unhealthy,
                "nodes": group.members,
            }


def _pauses(objects: DefenderObjects, node: str, now: datetime) -> Iterator[Report]:
    labels = objects.nodes[node].metadata.labels
    for policy in objects.policies:
        active_pauses = lasting(policy.spec.pauses, now) if policy.spec is not None else ()
        for pause in active_pauses:
            if scope_of(pause).has(node, labels):
                until = format_time(pause.until) if pause.until is not None else "resumed"
                yield {
                    "policy": policy.name,
                    "scope": str(scope_of(pause)),
                    "until": until,
                    "by": pause.by,
                    "why": pause.why,
                }


def _windows(
    control: RiskControl, node: str, operation: Operation, now: datetime
) -> Iterator[Report]:
    place = control.census.place(node)
    assert place is not None
    for ruling in place.ruling(operation):
        for window in ruling.spec.windows if ruling.spec is not None else ():
            if window.for_ is not None and operation not in window.for_:
                continue
            is_open, until = inside(window, now)
            yield {
                "policy": ruling.policy.name,
                "window": f"{window.from_}-{window.to} {window.time_zone}",
                "now": "open" if is_open else "closed",
                "until": format_time(until) if until is not None else "for ever",
            }


def _list_waiting_jobs(objects: DefenderObjects, node: str) -> list[Report]:
    return [
        {
            "holder": f"RemedyOperationJob {job.metadata.name}",
            "place": None,
            "reason": job.status.hold.reason,
            "scope": job.status.hold.scope,
            "since": format_time(at) if (at := job.status.hold.since) else "",
            "severity": job.spec.severity,
        }
        for job in objects.jobs
        if job.spec.node_name == node and job.open and job.status.hold is not None
    ]


def shown_preview(preview: EvictionPreview) -> Report:
    return {
        "problem": preview.problem,
        "pods": len(preview.pods),
        "stay": preview.stay,
        "blocked": [
            {
                "pod": f"{pod.namespace}/{pod.name}",
                "budget": pod.budget,
                "why": pod.why,
            }
            for pod in preview.blocked
        ],
    }
