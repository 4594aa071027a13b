"""The fleet as the dashboard keeps it: one word for each node, tiles that change when it does."""

from datetime import UTC, datetime, timedelta

import msgspec
import pytest
from support.dashboard_world import a_job, a_node

from defender.dashboard.fleet import FleetGrid, Quiet, Tile, zones
from defender.dashboard.natural import natural
from defender.dashboard.node_state import SOMEBODY, Cell, NodeDisplayState, cell_of, leading
from defender.decision.census import member_of
from defender.decision.jobs import ObservedJob
from defender.overview.situation import NodeEvidence
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.site.grid import columns

NOW = datetime(2026, 11, 22, 3, 0, tzinfo=UTC)


def node(**given: object) -> Node:
    body = a_node("n1", **given)  # type: ignore[arg-type]
    body["metadata"]["creationTimestamp"] = "2026-01-01T00:00:00Z"
    return msgspec.convert(body, Node, strict=False)


def job(phase: str, **given: object) -> ObservedJob:
    return msgspec.convert(a_job("n1", phase, **given), ObservedJob, strict=False)  # type: ignore[arg-type]


def notifying() -> ObservedJob:
    body = a_job("n1", "Running")
    body["spec"]["ladder"] = [{"name": "page", "steps": [{"notify": {}}]}]
    return msgspec.convert(body, ObservedJob, strict=False)


def stands(a: Node, *jobs: ObservedJob) -> Cell:
    return cell_of(NodeEvidence(a, member_of(a, NOW, timedelta(minutes=5)), jobs))


HELD = ("ConcurrencyLimit", "cluster", "cluster: 4 of 4 permits are held")


@pytest.mark.parametrize(
    ("jobs", "state"),
    [
        ([], NodeDisplayState.HEALTHY),
        ([job("AwaitingPermit", hold=HELD)], NodeDisplayState.ON_HOLD),
        ([job("AwaitingPermit")], NodeDisplayState.ON_HOLD),
        ([job("Running")], NodeDisplayState.REPAIRING),
        ([job("Running", hold=("PDBBlocked", "", "no"))], NodeDisplayState.ON_HOLD),
        ([job("Verifying")], NodeDisplayState.REPAIRING),
        ([job("AwaitingApproval")], NodeDisplayState.PERSON),
        ([job("NeedsHuman")], NodeDisplayState.PERSON),
        ([job("Pending")], NodeDisplayState.FAULTY),
        ([notifying()], NodeDisplayState.FAULTY),
        ([job("Pending", mode="DryRun"), job("Running")], NodeDisplayState.REPAIRING),
    ],
)
def test_a_node_is_shown_as_what_its_job_says(
    jobs: list[ObservedJob], state: NodeDisplayState
) -> None:
    assert stands(node(), *jobs).state is state


def test_a_node_without_a_job_is_shown_as_it_is() -> None:
    silent = stands(node(ready="Unknown", reason="NodeStatusUnknown"))
    assert (silent.state, silent.why) == (
        NodeDisplayState.FAULTY,
        "Ready is Unknown: NodeStatusUnknown",
    )
    assert stands(node(unschedulable=True)).state is NodeDisplayState.CORDONED


def test_a_cordon_says_whose_it_is() -> None:
    ours = node(unschedulable=True, annotations={"kubenode.io/cordoned-by": "n1-0a1b"})
    assert stands(ours).cordoned_by == "n1-0a1b"
    assert stands(node(unschedulable=True)).cordoned_by == SOMEBODY
    assert stands(node(annotations={"kubenode.io/cordoned-by": "x"})).cordoned_by == ""


def test_of_several_jobs_the_one_that_may_act_leads() -> None:
    acting, planning = job("Running"), job("Running", mode="DryRun", name="shadow")
    assert leading([planning, acting]) is acting
    assert leading([]) is None


def cell(
    name: str, zone: str = "a", rack: str = "r1", state: NodeDisplayState = NodeDisplayState.HEALTHY
) -> Cell:
    return Cell(name, zone, rack, state)


def test_only_the_tile_of_a_rack_that_changed_is_another_one() -> None:
    fleet = FleetGrid()
    for number in range(4):
        fleet.put(cell(f"n{number}", rack=f"r{number % 2}"))
    before = [fleet.tile(key) for key in fleet.racks()]
    version = fleet.version
    fleet.put(cell("n1", rack="r1"))
    assert fleet.version == version, "nothing has changed"
    fleet.put(cell("n1", rack="r1", state=NodeDisplayState.FAULTY))
    after = [fleet.tile(key) for key in fleet.racks()]
    assert after[0] is before[0]
    assert after[1] != before[1]
    assert after[1].states == "fh"
    assert after[1].troubled


def test_a_node_that_moves_leaves_its_rack_and_an_empty_rack_goes() -> None:
    fleet = FleetGrid()
    fleet.put(cell("n1"))
    fleet.put(cell("n1", rack="r2"))
    assert fleet.racks() == [("a", "r2")]
    fleet.remove("n1")
    fleet.remove("n1")
    assert (len(fleet), fleet.racks(), fleet.get("n1")) == (0, [], None)


def test_racks_and_nodes_stand_as_people_number_them() -> None:
    assert sorted(["r10", "r2", "r1"], key=natural) == ["r1", "r2", "r10"]
    fleet = FleetGrid()
    for name in ("n10", "n9", "n2"):
        fleet.put(cell(name))
    assert [c.name for c in fleet.rack("a", "r1")] == ["n2", "n9", "n10"]


def test_counts_of_the_fleet_are_those_of_its_nodes() -> None:
    fleet = FleetGrid()
    for number, state in enumerate(NodeDisplayState):
        fleet.put(cell(f"n{number}", zone=f"z{number % 3}", state=state))
    assert dict(fleet.counts()) == {state.value: 1 for state in NodeDisplayState}
    assert sum(zone.head.nodes for zone in zones(fleet)) == len(NodeDisplayState)


def test_too_many_racks_are_summed_up_and_those_in_trouble_are_drawn() -> None:
    fleet = FleetGrid()
    for number in range(50):
        state = NodeDisplayState.FAULTY if number == 47 else NodeDisplayState.HEALTHY
        fleet.put(cell(f"n{number}", rack=f"r{number}", state=state))
    (zone,) = zones(fleet, most=10)
    drawn = [tile for tile in zone.tiles if isinstance(tile, Tile)]
    assert len(drawn) == 10
    assert "r47" in [tile.rack for tile in drawn]
    (quiet,) = [tile for tile in zone.tiles if isinstance(tile, Quiet)]
    assert (quiet.racks, quiet.counts) == (40, (("Healthy", 40),))


def test_every_zone_has_its_share_of_what_is_drawn() -> None:
    fleet = FleetGrid()
    for number in range(60):
        fleet.put(cell(f"n{number}", zone=f"z{number % 3}", rack=f"r{number}"))
    found = zones(fleet, most=12)
    assert [sum(isinstance(tile, Tile) for tile in zone.tiles) for zone in found] == [4, 4, 4]


def test_a_tile_draws_each_node_once_in_its_place() -> None:
    fleet = FleetGrid()
    for number in range(12):
        fleet.put(
            cell(
                f"n{number}",
                state=NodeDisplayState.ON_HOLD if number == 11 else NodeDisplayState.HEALTHY,
            )
        )
    tile = fleet.tile(("a", "r1"))
    paths = dict(tile.paths)
    assert (tile.wide, tile.high) == (10, 2)
    assert paths["h"] == "M0.2 0.5h9.6M0.2 1.5h0.6"
    assert paths["w"].startswith("M1 1m")


@pytest.mark.parametrize(("nodes", "wide"), [(1, 10), (40, 10), (200, 20), (10_000, 50)])
def test_large_racks_grow_square_as_far_as_a_screen_is_wide(nodes: int, wide: int) -> None:
    assert columns(nodes) == wide


def test_every_letter_is_another_one() -> None:
    assert len({state.letter for state in NodeDisplayState}) == len(NodeDisplayState)
