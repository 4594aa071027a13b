"""One rack or zone with its nodes, a search, and one node with its details. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import ClassVar

from defender.dashboard.fleet import Counts, count
from defender.dashboard.natural import natural
from defender.dashboard.node_state import POOL, Cell, NodeDisplayState, born, leading
from defender.dashboard.scene import Scene
from defender.dashboard.views.job import hold_of, moments
from defender.dashboard.views.jobs import JobRow, row_of
from defender.decision.census import CensusMember
from defender.decision.ledger import LedgerPermit
from defender.decision.policies import covering
from defender.decision.verdict import judge, refusals
from defender.overview.faults import GOOD_SUFFIXES
from defender.overview.records import current_dry_runs
from kubenode.api.v1alpha1 import Ask, Disruption, Operation
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.hosttime import as_written
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.site.parts import PagePart, Summary

PAGE = 200
RECENT = 8
CLASSES = (Disruption.HOST, Disruption.PODS, Disruption.NODE)
SOMEBODY = Holder(kind="Dashboard", name="a-new-holder", uid="dashboard")
"""Holder of the asks for preview. It holds nothing and waits for nothing."""


@dataclass(frozen=True, slots=True)
class PartHead:
    """A rack or a zone, with one page of its nodes."""

    template: ClassVar[str] = "parts/part_head.html"
    title: str
    zone: str
    nodes: int
    counts: Counts
    page: int
    pages: int
    key: str = "part"


@dataclass(frozen=True, slots=True)
class NodeRow:
    template: ClassVar[str] = "parts/node_row.html"
    cell: Cell

    @property
    def key(self) -> str:
        return self.cell.name


def rack(
    scene: Scene, zone: str, name: str, page: str = ""
) -> dict[str, Sequence[PagePart]] | None:
    """Return the nodes of a rack, those in trouble first. None if there is no such rack."""
    title = f"Rack {name}" if name else "Nodes without a rack"
    return _part(scene.fleet.rack(zone, name), title, zone, page)


def zone(scene: Scene, name: str, page: str = "") -> dict[str, Sequence[PagePart]] | None:
    return _part(scene.fleet.zone(name), f"Zone {name}" if name else "No zone", name, page)


def _part(
    cells: Sequence[Cell], title: str, zone: str, page: str
) -> dict[str, Sequence[PagePart]] | None:
    if not cells:
        return None
    pages = -(-len(cells) // PAGE)
    at = min(pages, max(1, int(page[:6]))) if page.isdecimal() else 1
    head = PartHead(title, zone, len(cells), count(cells), at, pages)
    shown = _in_trouble_first(cells)[(at - 1) * PAGE : at * PAGE]
    return {"part": [head], "nodes": [NodeRow(cell) for cell in shown]}


def search(scene: Scene, text: str) -> dict[str, Sequence[PagePart]]:
    """Return the nodes whose name contains `text`."""
    names = [name for name in scene.fleet.names() if text in name]
    cells = [cell for name in names if (cell := scene.fleet.get(name)) is not None]
    many = len(cells)
    subject = "No node has" if not many else f"{many} {'node has' if many == 1 else 'nodes have'}"
    sentence = f"{subject} “{text}” in the name."
    if many > PAGE:
        sentence += f" The first {PAGE} are shown."
    shown = _in_trouble_first(cells)[:PAGE]
    return {
        "search": [Summary(sentence, True, "search")],
        "nodes": [NodeRow(cell) for cell in shown],
    }


def _in_trouble_first(cells: Iterable[Cell]) -> list[Cell]:
    order = list(NodeDisplayState)
    return sorted(cells, key=lambda cell: (order.index(cell.state), natural(cell.name)))


# -- one node -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NodeHead:
    """Head of a node's page. health: as limits count it."""

    template: ClassVar[str] = "parts/node_head.html"
    cell: Cell
    health: str
    pool: str
    control_plane: bool
    policies: tuple[str, ...]
    job: str
    kubelet: str
    os: str
    faults: tuple[tuple[str, datetime | None], ...] = ()
    dry_runs: tuple[str, ...] = ()
    key: str = "node"


@dataclass(frozen=True, slots=True)
class ConditionRow:
    template: ClassVar[str] = "parts/condition.html"
    key: str
    status: str
    good: bool
    reason: str
    message: str
    since: datetime | None


@dataclass(frozen=True, slots=True)
class AnswerRow:
    """The verdict for a new holder that asks now for an act of the class."""

    template: ClassVar[str] = "parts/answer.html"
    key: str
    allowed: bool
    against: tuple[tuple[str, str], ...]
    """(reason, message) of all refusals, the most important first."""


@dataclass(frozen=True, slots=True)
class PermitRow:
    template: ClassVar[str] = "parts/permit.html"
    key: str
    state: str
    class_: str
    operation: str
    holder: str
    job: str
    granted: datetime
    expires: datetime | None
    released: datetime | None


def view_node(scene: Scene, name: str) -> dict[str, Sequence[PagePart]] | None:
    node, cell = scene.nodes.get(name), scene.fleet.get(name)
    if node is None or cell is None:
        return None
    member = scene.control.census.member(name)
    job = leading(scene.open_jobs.get(name, {}).values())
    return {
        "node": [_head(scene, node, cell, member)],
        "hold": list(hold_of(scene, job)) if job else [],
        "moments": moments(job) if job else [],
        "answers": _answers(scene, name) if member else [],
        "conditions": _conditions(node),
        "permits": _permits(scene.control.ledger.on_node(name)),
        "jobs": _jobs(scene, name),
    }


def _head(scene: Scene, node: Node, cell: Cell, member: CensusMember | None) -> NodeHead:
    labels = node.metadata.labels
    control = scene.control
    ruling = covering(control.policies, labels, Operation.REPAIR, control.fallback)
    info = node.status.node_info
    return NodeHead(
        cell=cell,
        health=member.health if member else "Unknown",
        pool=labels.get(POOL, ""),
        control_plane=member.control_plane if member else False,
        policies=tuple(policy.name for policy in ruling),
        job=cell.job,
        kubelet=info.kubelet_version,
        os=" ".join(filter(None, (info.os_image, info.kernel_version))),
        faults=tuple((fault.name, fault.since) for fault in cell.situation.faults),
        dry_runs=tuple(
            f"{run.remedier} {run.sentence}"
            for run in current_dry_runs(scene.records.get(cell.name), node, scene.rules)
        ),
    )


def _conditions(node: Node) -> list[ConditionRow]:
    """Return the conditions, bad ones first. Ready and its like are good if True, others if
    False.
    """
    rows = [
        ConditionRow(
            c.type,
            c.status,
            c.status == ("True" if c.type.endswith(GOOD_SUFFIXES) else "False"),
            c.reason,
            c.message,
            None if c.last_transition_time is None else as_written(c.last_transition_time),
        )
        for c in node.status.conditions
    ]
    return sorted(rows, key=lambda row: (row.good, row.key != "Ready", row.key))


def _answers(scene: Scene, name: str) -> list[AnswerRow]:
    return [_answer(scene, name, class_) for class_ in CLASSES]


def _answer(scene: Scene, name: str, class_: Disruption) -> AnswerRow:
    ask = Ask(operation=Operation.REPAIR, class_=class_, node=name, holder=SOMEBODY, dry_run=True)
    verdict = judge(ask, scene.control, scene.now)
    denial = [(str(verdict.reason), verdict.message)] if not verdict.allowed else []
    more = [(str(no.reason), no.message) for no in refusals(ask, scene.control, scene.now)]
    return AnswerRow(class_, verdict.allowed, tuple(dict.fromkeys(denial + more)))


def _permits(permits: Iterable[LedgerPermit]) -> list[PermitRow]:
    """Return the permits held now, then the latest released ones."""
    ordered = sorted(permits, key=lambda permit: (permit.open, permit.granted_at), reverse=True)
    return [
        PermitRow(
            permit.name,
            permit.state,
            permit.class_,
            permit.operation,
            f"{permit.holder.kind} {permit.holder.name}",
            permit.holder.name if permit.holder.kind == "RemedyOperationJob" else "",
            permit.granted_at,
            permit.expires_at if permit.open else None,
            permit.released_at,
        )
        for permit in ordered[:RECENT]
    ]


def _jobs(scene: Scene, name: str) -> list[JobRow]:
    jobs = [job for job in scene.jobs.values() if job.spec.node_name == name]
    jobs.sort(key=lambda job: (job.open, born(job)), reverse=True)
    return [row_of(scene, job) for job in jobs[:RECENT]]
