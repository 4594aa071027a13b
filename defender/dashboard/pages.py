"""The pages: their names, live parts, and the parameters of their addresses."""

from collections.abc import Sequence

from defender.dashboard.fleet import zones
from defender.dashboard.scene import Scene
from defender.dashboard.views import (
    breakers,
    budgets,
    job,
    jobs,
    machine_sets,
    nodes,
    pauses,
    plots,
    rollout,
    rollouts,
    rule,
    rules,
    would_have,
)
from defender.dashboard.views.attention import first_glance
from kubenode.runtime.site.live_site import Params, SitePage
from kubenode.runtime.site.parts import PagePart, View


def _fleet(scene: Scene, params: Params) -> View:
    fleet_zones, glance = zones(scene.fleet), first_glance(scene)
    view: dict[str, Sequence[PagePart]] = {
        "headline": [glance.headline],
        "attention": glance.rows,
        "plots": plots.view_plots(scene, plots.of_fleet(), params),
    }
    for zone in fleet_zones:
        view[f"head {zone.name}"] = [zone.head]
        view[f"zone {zone.name}"] = zone.tiles
    return view


def _rack(scene: Scene, params: Params) -> View | None:
    page = params.get("page", "")
    return nodes.rack(scene, params.get("zone", ""), params.get("rack", ""), page)


def _zone(scene: Scene, params: Params) -> View | None:
    name = params.get("zone", "")
    view = nodes.zone(scene, name, params.get("page", ""))
    if view is None:
        return None
    return {**view, "plots": plots.view_plots(scene, plots.of_zone(scene, name), params)}


def _nodes(scene: Scene, params: Params) -> View:
    return nodes.search(scene, params.get("q", ""))


def _node(scene: Scene, params: Params) -> View | None:
    name = params["name"]
    view = nodes.view_node(scene, name)
    if view is None:
        return None
    return {**view, "plots": plots.view_plots(scene, plots.of_node(scene, name), params)}


def _budgets(scene: Scene, params: Params) -> View:
    return budgets.view(scene, params.get("limit", ""))


def _breakers(scene: Scene, params: Params) -> View:
    return breakers.view(scene)


def _job(scene: Scene, params: Params) -> View | None:
    return job.view_job(scene, params["name"])


def _rule(scene: Scene, params: Params) -> View | None:
    name = params["name"]
    view = rule.view(scene, name)
    if view is None:
        return None
    return {**view, "plots": plots.view_plots(scene, plots.of_rule(name), params)}


def _rollout(scene: Scene, params: Params) -> View | None:
    return rollout.view(scene, params["name"])


def _machine_set(scene: Scene, params: Params) -> View | None:
    return machine_sets.view_set(scene, params["name"])


def _pauses(scene: Scene, params: Params) -> View:
    return pauses.view(scene)


PAGES: tuple[SitePage[Scene], ...] = (
    SitePage("fleet", "Fleet", "/", _fleet, ("hours",), place="fleet"),
    SitePage("rack", "Rack", "/rack", _rack, ("zone", "rack", "page"), place="fleet"),
    SitePage("zone", "Zone", "/zone", _zone, ("zone", "page", "hours"), place="fleet"),
    SitePage("nodes", "Nodes", "/nodes", _nodes, ("q",), place="fleet"),
    SitePage("node", "Node", "/nodes/{name}", _node, ("hours",), place="fleet"),
    SitePage("budgets", "Budgets", "/budgets", _budgets, ("limit",), place="budgets"),
    SitePage("breakers", "Breakers", "/breakers", _breakers, place="breakers"),
    SitePage("jobs", "Jobs", "/jobs", jobs.view, jobs.FILTERS, place="jobs"),
    SitePage("job", "Job", "/jobs/{name}", _job, place="jobs"),
    SitePage("rules", "Rules", "/rules", rules.view, rules.FILTERS, place="rules"),
    SitePage("rule", "Rule", "/rules/{name}", _rule, ("hours",), place="rules"),
    SitePage("would_have", "Would have", "/would-have", would_have.view, place="would_have"),
    SitePage("rollouts", "Rollouts", "/rollouts", rollouts.view, place="rollouts"),
    SitePage("rollout", "Rollout", "/rollouts/{name}", _rollout, place="rollouts"),
    SitePage(
        "machine_sets", "Machine sets", "/machine-sets", machine_sets.view, place="machine_sets"
    ),
    SitePage(
        "machine_set", "Machine set", "/machine-sets/{name}", _machine_set, place="machine_sets"
    ),
    SitePage("pauses", "Pauses", "/pauses", _pauses, ("scope",), place="pauses"),
)
