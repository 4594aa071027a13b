"""What is counted of nodes: dark scopes leave the ratios of wider groups."""

from support.defender_core import CONTROL_PLANE, POOL, ZONE, Core, a_node, a_policy

from defender.decision import census
from defender.decision.census import CLUSTER

LIMITS = [
    {"scope": "Cluster", "maxConcurrent": "10%", "minHealthy": "80%"},
    {"scope": "Label", "label": POOL, "maxConcurrent": 1},
    {"scope": "ControlPlane", "maxConcurrent": 1, "othersHealthy": True},
]


def three_zones() -> Core:
    """30 nodes, the last of each zone in the control plane, pool p over all zones."""
    core = Core(a_policy(limits=LIMITS))
    for zone in "abc":
        core.fleet(8, {ZONE: zone}, zone)
        core.nodes(a_node(f"{zone}-p", {ZONE: zone, POOL: "p"}))
        core.nodes(a_node(f"{zone}-cp", {ZONE: zone} | CONTROL_PLANE))
    return core


def members(core: Core, scope: str) -> int:
    return core.census.tally(("default", scope)).members


def test_nodes_of_a_dark_scope_leave_wider_groups_and_stay_in_their_own() -> None:
    core = three_zones()
    core.census.darken("default", frozenset({f"{ZONE}=b"}))
    assert (members(core, CLUSTER), members(core, f"{POOL}=p")) == (20, 2)
    assert members(core, f"{ZONE}=b") == 10
    assert members(core, census.CONTROL_PLANE) == 3  # a quorum is no ratio
    core.census.darken("default", frozenset())
    assert members(core, CLUSTER) == 30


def test_a_group_that_lies_in_the_dark_as_a_whole_is_counted_as_before() -> None:
    core = three_zones()
    core.census.darken("default", frozenset({CLUSTER}))
    assert members(core, CLUSTER) == 30
    assert members(core, f"{ZONE}=b") == 10


def test_of_several_dark_scopes_each_leaves() -> None:
    core = three_zones()
    core.census.darken("default", frozenset({f"{ZONE}=b", f"{ZONE}=c"}))
    assert members(core, CLUSTER) == 10


def test_darkness_follows_the_nodes() -> None:
    core = three_zones()
    core.census.darken("default", frozenset({f"{ZONE}=b"}))
    core.nodes(a_node("b0", {ZONE: "a"}))
    assert members(core, CLUSTER) == 21
    core.census.remove("b1")
    assert (members(core, CLUSTER), members(core, f"{ZONE}=b")) == (21, 8)
    core.fail("b2", "a0")
    assert core.census.tally(("default", CLUSTER)).healthy == 20
    core.control.govern([a_policy(limits=LIMITS)], core.now)
    assert members(core, CLUSTER) == 21


def test_darkness_of_one_policy_is_not_that_of_another() -> None:
    core = Core(a_policy(limits=LIMITS), a_policy("second", limits=LIMITS))
    core.fleet(5, {ZONE: "a"}, "a")
    core.fleet(5, {ZONE: "b"}, "b")
    core.census.darken("second", frozenset({f"{ZONE}=b"}))
    assert members(core, CLUSTER) == 10
    assert core.census.tally(("second", CLUSTER)).members == 5
