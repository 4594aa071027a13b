"""`kubenode explain node NAME`: why is a node, or is it not, being repaired?

Reads the cluster once and evaluates it with the production code: the same facts and the same leaves
of rules (kubenode.cli.live).
"""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import msgspec
import typer

from defender.answers import Waiting
from defender.decision.pauses import describe_scope
from defender.decision.permit_reader import read_permit
from kubenode.api.cordon import CORDONED_BY, KEEP_CORDONED, keeps_cordon, owners_in
from kubenode.api.meta import format_time
from kubenode.api.step_text import would_have
from kubenode.api.v1alpha1 import Mode, Permit, RemedyOperationJob
from kubenode.api.v1alpha1.noderecord import DryRunResults, NodeRecordSpec
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.defender_source import NOBODY, DefenderAddress, asking
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.live import Live, read_node
from kubenode.cli.rules_outlook import lines as lines_of
from kubenode.cli.rules_outlook import of_live
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import Node, structs
from remedy.job.initialwait import waits_until
from remedy.job.model import Job
from rules.explain import RuleExplanation, explained
from rules.truth import Truth

CLOSED_SHOWN = 3
FEW_RULES = 12
"""Up to this number of rules, each is explained in full, even if none of its evidence is true."""


async def explain_node(
    name: str, kubeconfig: str | None, context: str | None, address: DefenderAddress = NOBODY
) -> Exit:
    async with connected(kubeconfig, context) as kube, asking(address) as defender:
        await require_crds(kube)
        waiting = (await defender.explain(name)).waiting if defender is not None else ()
        for line in await lines(kube, name, kube.clock, waiting):
            typer.echo(line)
    return Exit.FINE


async def lines(kube: Kube, name: str, clock: Clock, waiting: Sequence[Waiting] = ()) -> list[str]:
    """Return the whole explanation. Raises Refusal if the node does not exist.

    waiting: requests for a permit of the node, as Kube Defender's queue has them.
    """
    try:
        node = await kube.get(paths.node(name), structs(Node))
    except NotFound as error:
        text = f"node {name} is not in the cluster; `kubectl get nodes` lists those that are"
        raise Refusal(text) from error
    live = await read_node(kube, name, clock)
    permits = await _permits(kube, name)
    return [
        *_of_node(node),
        "",
        *_of_jobs(live.jobs),
        *_of_dry_runs(live.record),
        *(_in_line(each) for each in waiting),
        *(f"permit {p.metadata.name}: class {p.spec.class_}, {_state(p)}" for p in permits),
        "",
        *_of_rules(live, clock.now()),
    ]


async def _permits(kube: Kube, node: str) -> list[Permit]:
    path = paths.custom(Permit.resource.plural)
    answer: Mapping[str, Any] = await kube.get(
        path, query={"fieldSelector": f"spec.nodeName={node}"}
    )
    return [read_permit(msgspec.json.encode(item)) for item in answer["items"]]


def _in_line(each: Waiting) -> str:
    scope = f" of {describe_scope(each.scope)}" if each.scope else ""
    return (
        f"  in Kube Defender's queue since {format_time(each.since)}: place {each.place} of those"
        f" that wait for {each.reason}{scope}"
    )


def _state(permit: Permit) -> str:
    state = permit.status.state
    return str(state.value) if state is not None else "being written"


def _of_node(node: Node) -> list[str]:
    condition = node.ready_condition
    ready = condition.status if condition is not None else "not reported"
    by = " and ".join(owners_in(node.metadata.annotations.get(CORDONED_BY, "")))
    cordon = "schedulable"
    if node.spec.unschedulable:
        cordon = f"cordoned by {by}" if by else "cordoned, not by us"
        if by and keeps_cordon(node.metadata.annotations):
            cordon += f"; the cordon stays after it ({KEEP_CORDONED})"
    return [f"node {node.metadata.name}: Ready {ready}, {cordon}"]


def _of_jobs(jobs: Sequence[RemedyOperationJob]) -> list[str]:
    """Describe the open job, what it does or waits for, and then the latest closed jobs."""
    jobs = sorted(jobs, key=_created, reverse=True)
    output = [line for job in jobs if not job.status.phase.closed for line in _open(job)]
    closed = [job for job in jobs if job.status.phase.closed][:CLOSED_SHOWN]
    output += [
        f"closed job {j.metadata.name}: {j.status.phase}: {j.status.message}" for j in closed
    ]
    return output or ["no job"]


def _of_dry_runs(record: NodeRecordSpec) -> list[str]:
    """Describe each rule in mode DryRun that would have started a repair, the latest first.

    Dry runs have no job.
    """
    runs = sorted((r for r in record.dry_runs if r.recent), key=lambda r: r.recent[-1].at)
    return [_dry_run(run) for run in reversed(runs)]


def _dry_run(run: DryRunResults) -> str:
    last = run.recent[-1]
    times = "once" if run.count == 1 else f"{run.count} times"
    text = would_have(last.steps, last.said)
    verdict = f": {text}" if text else ""
    return (
        f"dry run of {run.remedier}: would have begun {times}, the last time at"
        f" {format_time(last.at)} with rung {last.rung}{verdict}"
    )


def _open(job: RemedyOperationJob) -> list[str]:
    status = job.status
    rule = job.spec.remedier.name if job.spec.remedier is not None else "a person"
    output = [
        f"open job {job.metadata.name} of {rule}: {status.phase}, rung {job.rung.name}"
        + (f": {status.message}" if status.message else "")
    ]
    if status.hold is not None:
        scope = f" ({describe_scope(status.hold.scope)})" if status.hold.scope else ""
        output.append(f"  held: {status.hold.reason}{scope}{_until(job)}: {status.hold.message}")
    return output


def _until(job: RemedyOperationJob) -> str:
    """Return the end of the job's initial wait as text; "" once the job has begun."""
    at = waits_until(Job.of(job))
    return "" if at is None else f" until {format_time(at)}"


def _created(job: RemedyOperationJob) -> str:
    at = job.metadata.creation_timestamp
    return at.isoformat() if at is not None else ""


def _of_rules(live: Live, now: datetime) -> list[str]:
    """Explain each rule in full; if there are many, only those with true evidence."""
    if not live.rules:
        return ["no rules: nothing is repaired; `kubenode rules install` installs some"]
    output, silent = [], 0
    standing = of_live(live, now)
    for rule in live.rules:
        if rule.spec.mode is Mode.OFF:
            output.append(f"rule {rule.metadata.name}, mode Off: not evaluated")
            continue
        explanation = explained(rule, live.facts, now, live.program)
        if len(live.rules) > FEW_RULES and not _says_something(explanation):
            silent += 1
        else:
            output += [
                *explanation.text().splitlines(),
                *lines_of(standing.get(rule.metadata.name)),
            ]
    if silent:
        name = live.facts.node
        output.append(f"{silent} further rules: nothing of their evidence is true of this node;")
        output.append(f"  `kubenode rules explain --node {name} --rule RULE` explains one")
    return output


def _says_something(explanation: RuleExplanation) -> bool:
    """Return whether a leaf of the rule's evidence is true, or its fault only has to last."""
    pending = [explanation.evidence] if explanation.evidence is not None else []
    while pending:
        tree = pending.pop()
        reading = tree.reading
        if reading is not None and (tree.truth is Truth.TRUE or reading.holds_at is not None):
            return True
        pending += tree.members
    return False
