"""Variables of pages that are computed for one visit and not updated: choices of forms, live
reads.
"""

from collections.abc import Mapping
from typing import Any

from defender.dashboard.forms import LENGTHS
from defender.dashboard.node_state import POOL
from defender.dashboard.scene import SceneBuilder
from defender.dashboard.views import jobs, rules
from defender.dashboard.views.plots import SPANS, hours_of
from defender.server import eviction
from defender.server.excerpts import read_excerpts
from defender.server.node_events import read_node_events
from kubenode.runtime.kube.client import Kube

MOST_SUGGESTED = 200


async def extra(
    page: str, board: SceneBuilder, kube: Kube, params: Mapping[str, str]
) -> dict[str, Any]:
    """Return the variables for the template `page`."""
    match page:
        case "node":
            preview = await eviction.read_preview(kube, params["name"])
            events = await read_node_events(kube, params["name"])
            every_job = board.scene().jobs.values()
            own = [job for job in every_job if job.spec.node_name == params["name"]]
            excerpts = await read_excerpts(kube, own)
            return {
                "eviction": preview,
                "events": events,
                "excerpts": excerpts,
                **_plots(params),
            }
        case "fleet" | "zone" | "rule":
            return _plots(params)
        case "jobs":
            return {"choices": jobs.choices(board.scene()), "shows": jobs.SHOWS}
        case "rules":
            return {"shows": rules.SHOWS, "choices": {"mode": list(rules.MODES)}}
        case "pauses":
            return {"lengths": LENGTHS, "scopes": _scopes(board)}
        case _:
            return {}


def _plots(params: Mapping[str, str]) -> dict[str, Any]:
    """Return the lengths that plots may have, and the chosen one."""
    return {"hours": hours_of(params), "spans": tuple(SPANS)}


def _scopes(board: SceneBuilder) -> list[str]:
    """Return scopes to suggest for a pause: the cluster, zones, pools and racks."""
    racks = board.fleet.racks()
    zones = dict.fromkeys(f"zone={zone}" for zone, _ in racks if zone)
    labels = (node.metadata.labels for node in board.scene().nodes.values())
    pools = sorted({f"pool={each[POOL]}" for each in labels if each.get(POOL)})
    scopes = ["cluster", *zones, *pools, *(f"rack={rack}" for _, rack in racks if rack)]
    return scopes[:MOST_SUGGESTED]
