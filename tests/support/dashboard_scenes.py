"""Scenes of the dashboard that are put together by hand, without an API server."""

from datetime import UTC, datetime
from typing import Any

import msgspec
from support.dashboard_world import a_node, some_jobs, some_rules

from defender.dashboard.fleet import FleetGrid
from defender.dashboard.node_state import cell_of
from defender.dashboard.rule import RuleView
from defender.dashboard.scene import Scene
from defender.dashboard.views.attention import AttentionRow, Headline, first_glance
from defender.decision.control import RiskControl
from defender.decision.jobs import ObservedJob
from defender.decision.policies import read_policy
from defender.overview.faults import FaultConditions
from defender.overview.records import RecordView, current_dry_runs
from defender.overview.situation import NodeEvidence
from kubenode.api.v1alpha1 import default_policy
from kubenode.api.v1alpha1.defenderpolicy import Pause
from kubenode.runtime.kube.objects import Node

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


def a_scene(
    node_bodies: list[dict[str, Any]],
    job_bodies: list[dict[str, Any]] | None = None,
    rule_bodies: list[dict[str, Any]] | None = None,
    pauses_: list[Pause] | None = None,
    **given: Any,
) -> Scene:
    control, fleet = RiskControl(), FleetGrid()
    policy = default_policy()
    spec = policy.spec.model_copy(update={"pauses": pauses_ or []})
    made_policy = policy.model_copy(update={"spec": spec})
    kept = read_policy(msgspec.json.encode(made_policy.to_dict()))
    control.govern([kept], NOW)
    for body in job_bodies or []:
        body["metadata"]["uid"] = f"uid of {body['metadata']['name']}"
    found = [msgspec.convert(body, ObservedJob, strict=False) for body in job_bodies or []]
    open_jobs: dict[str, dict[str, ObservedJob]] = {}
    for each in found:
        control.job_changed(None, each, NOW)
        if each.open:
            open_jobs.setdefault(each.spec.node_name, {})[each.metadata.name] = each
    made = [
        msgspec.json.decode(msgspec.json.encode(body), type=RuleView) for body in rule_bodies or []
    ]
    conditions = FaultConditions.of(made)
    loaded = {rule.metadata.name: rule for rule in made}
    records: dict[str, RecordView] = given.get("records", {})
    nodes_ = {}
    for body in node_bodies:
        body["metadata"].setdefault("creationTimestamp", "2026-01-01T00:00:00Z")
        node = msgspec.convert(body, Node, strict=False)
        name = node.metadata.name
        nodes_[name] = node
        control.node_changed(name, node, NOW)
        jobs_here = tuple(open_jobs.get(name, {}).values())
        runs = tuple(current_dry_runs(records.get(name), node, loaded))
        here = NodeEvidence(node, control.census.member(name), jobs_here, (), runs)
        fleet.put(cell_of(here, conditions))
    return Scene(
        control,
        fleet,
        nodes_,
        {each.metadata.name: each for each in found},
        {kept.name: kept},
        loaded,
        open_jobs,
        NOW,
        **given,
    )


def busy() -> Scene:
    names = sorted({body["spec"]["nodeName"] for body in some_jobs()})
    return a_scene([a_node(name) for name in names], some_jobs(), some_rules())


def rows(scene: Scene, kind: str) -> list[AttentionRow]:
    return [row for row in first_glance(scene).rows if row.kind == kind]


def headline(scene: Scene) -> Headline:
    return first_glance(scene).headline
