"""`kubenode explain node NAME`: why is it, or is it not, being repaired?

Asks the cluster once and reads it with the code that decides in production: the same facts, the
same leaves. What only a running operator knows (since when it has seen a condition, which Events
it counted before now) is read from what the cluster says of itself, and said so.
"""

import asyncio
from collections.abc import Mapping
from datetime import datetime
from typing import Any

import typer

from kubenode.api.v1alpha1 import Mode, NodeRemedier, Permit, RemedyOperationJob
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import Event, Node, structs
from remedy.remedier.controller import past_of
from remedy.remedier.facts import FactStore
from rules.explain import explain
from rules.facts import FactSet

LIST_SECONDS = 60.0
NODES_OF = "node"
CLOSED_SHOWN = 3


async def explain_node(name: str, kubeconfig: str | None, context: str | None) -> Exit:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube)
        for line in await lines(kube, name, kube.clock):
            typer.echo(line)
    return Exit.FINE


async def lines(kube: Kube, name: str, clock: Clock) -> list[str]:
    """The whole explanation. Raises Refusal for a node that is not there."""
    try:
        node = await kube.get(paths.node(name), structs(Node))
    except NotFound as error:
        text = f"node {name} is not in the cluster; `kubectl get nodes` lists those that are"
        raise Refusal(text) from error
    facts, jobs, rules = await _read(kube, name, clock)
    permits = await _permits(kube, name)
    return [
        *_of_node(node),
        "",
        *_of_jobs(jobs),
        *(f"permit {p.metadata.name}: class {p.spec.class_}, {_state(p)}" for p in permits),
        "",
        *_of_rules(rules, facts, clock.now()),
    ]


async def _read(
    kube: Kube, name: str, clock: Clock
) -> tuple[FactSet, list[RemedyOperationJob], list[NodeRemedier]]:
    """All nodes are listed once: rules may ask for ratios of the zone or the cluster."""
    nodes = Informer(kube, paths.nodes(), structs(Node), clock=clock)
    about = f"involvedObject.kind=Node,involvedObject.name={name}"
    events = Informer(kube, paths.events(), structs(Event), field_selector=about, clock=clock)
    jobs = Informer(
        kube,
        paths.custom(RemedyOperationJob.resource.plural),
        RemedyOperationJob.from_server,
        field_selector=f"spec.nodeName={name}",
        clock=clock,
    )
    rules = Informer(
        kube, paths.custom(NodeRemedier.resource.plural), NodeRemedier.from_server, clock=clock
    )
    jobs.add_index(NODES_OF, lambda job: (job.spec.node_name,))
    store = FactStore(nodes, events, lambda node: past_of(jobs, node), clock)

    def node_changed(key: str, old: Node | None, new: Node | None) -> None:
        store.node_changed(key, old, new)

    def event_changed(key: str, old: Event | None, new: Event | None) -> None:
        store.event_changed(old, new)

    nodes.add_handler(node_changed)
    await _once(nodes, jobs, rules)
    events.add_handler(event_changed)  # an Event of a node that is not known yet is passed over
    await _once(events)
    facts = store.facts(name)
    if facts is None:
        raise Refusal(f"node {name} went away while it was being read")
    ordered = sorted(rules.cache.values(), key=lambda r: (-r.spec.priority, r.metadata.name))
    return facts, list(jobs.by(NODES_OF, name)), ordered


async def _once(*informers: Informer[Any]) -> None:
    """Let each list once."""
    async with asyncio.TaskGroup() as tasks:
        running = [tasks.create_task(informer.run()) for informer in informers]
        try:
            async with asyncio.timeout(LIST_SECONDS):
                for informer in informers:
                    await informer.synced.wait()
        except TimeoutError as error:
            text = f"the cluster did not list {', '.join(i.path for i in informers)} in time"
            raise Refusal(text, Exit.UNREACHABLE) from error
        finally:
            for task in running:
                task.cancel()


async def _permits(kube: Kube, node: str) -> list[Permit]:
    path = paths.custom(Permit.resource.plural)
    answer: Mapping[str, Any] = await kube.get(
        path, query={"fieldSelector": f"spec.nodeName={node}"}
    )
    return [Permit.model_validate(item, extra="ignore") for item in answer["items"]]


def _state(permit: Permit) -> str:
    state = permit.status.state
    return str(state.value) if state is not None else "being written"


def _of_node(node: Node) -> list[str]:
    ready = next((c.status for c in node.status.conditions if c.type == "Ready"), "not reported")
    by = node.metadata.annotations.get("kubenode.io/cordoned-by")
    cordon = "schedulable"
    if node.spec.unschedulable:
        cordon = f"cordoned by our job {by}" if by else "cordoned, not by us"
    return [f"node {node.metadata.name}: Ready {ready}, {cordon}"]


def _of_jobs(jobs: list[RemedyOperationJob]) -> list[str]:
    """The open job first: what it does or waits for; then the latest closed ones."""
    jobs = sorted(jobs, key=_created, reverse=True)
    told = [line for job in jobs if not job.status.phase.closed for line in _open(job)]
    closed = [job for job in jobs if job.status.phase.closed][:CLOSED_SHOWN]
    told += [f"closed job {j.metadata.name}: {j.status.phase}: {j.status.message}" for j in closed]
    return told or ["no job"]


def _open(job: RemedyOperationJob) -> list[str]:
    status = job.status
    rule = job.spec.remedier.name if job.spec.remedier is not None else "a person"
    told = [
        f"open job {job.metadata.name} of {rule}: {status.phase}, rung {job.rung.name}"
        + (f": {status.message}" if status.message else "")
    ]
    if status.hold is not None:
        scope = f" ({status.hold.scope})" if status.hold.scope else ""
        told.append(f"  held: {status.hold.reason}{scope}: {status.hold.message}")
    return told


def _created(job: RemedyOperationJob) -> str:
    at = job.metadata.creation_timestamp
    return at.isoformat() if at is not None else ""


def _of_rules(rules: list[NodeRemedier], facts: FactSet, now: datetime) -> list[str]:
    if not rules:
        return ["no rules: nothing is repaired; `kubectl apply -f` some, see rules/library"]
    told = []
    for rule in rules:
        if rule.spec.mode is Mode.OFF:
            told.append(f"rule {rule.metadata.name}, mode Off: not evaluated")
        else:
            told += explain(rule, facts, now).splitlines()
    return told
