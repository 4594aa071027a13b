"""A simulation is the same each time, and entries of one instant may come in any order of nodes."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.replay_world import a_rule

from simulation.replay.timeline import Entry, entry
from simulation.replay.world import World, heals

NODES = ("a", "b", "c", "d")
ZONE = "topology.kubernetes.io/zone"
RULES = [
    a_rule("sick", groupWait="10s"),
    a_rule(
        "worse",
        when={"any": [{"condition": {"type": "Worse"}}, {"event": {"reason": "Oops", "count": 2}}]},
        unless={"fact": {"name": "zone.dark"}},
        priority=700,
    ),
    a_rule("many", when={
        "all": [{"condition": {"type": "Worse"}}, {"fact": {"name": "zone.sameFault", "above": 1}}]
    }, priority=100),
    a_rule(
        "dark",
        when={"condition": {"type": "Ready", "status": "Unknown"}},
        infer={"fact": "zone.dark", "scope": "Zone", "value": True, "for": "5m"},
    ),
]  # fmt: skip
SIGNALS: list[dict[str, Any]] = [
    {"condition": {"type": "Sick", "status": "True"}},
    {"condition": {"type": "Sick", "status": "False"}},
    {"condition": {"type": "Worse", "status": "True"}},
    {"condition": {"type": "Ready", "status": "Unknown"}},
    {"condition": {"type": "Ready", "status": "True"}},
    {"event": {"reason": "Oops"}},
    {"cordon": True},
    {"boot": {}},
    {"silent": True},
    {"lifecycle": "deleted"},
]
happenings = st.lists(
    st.tuples(
        st.integers(min_value=0, max_value=20).map(lambda n: n * 30),
        st.sampled_from(NODES),
        st.sampled_from(SIGNALS),
    ),
    max_size=12,
)


def jobs(entries: Sequence[Entry]) -> list[dict[str, Any]]:
    world = World(RULES, heals=heals)
    for name in NODES:
        world.add_node(name, labels={ZONE: "z"})
    world.feed(*entries)
    world.run_until(world.start + timedelta(hours=1))
    return [job.to_dict() for job in world.jobs]


@settings(max_examples=20, deadline=None)
@given(happenings, st.randoms(use_true_random=False))
def test_the_order_of_nodes_within_an_instant_does_not_matter(
    told: list[tuple[int, str, dict[str, Any]]], luck: Any
) -> None:
    entries = [entry(at=timedelta(seconds=at), node=n, **signal) for at, n, signal in told]
    first = jobs(entries)
    assert jobs(entries) == first
    mixed = list(range(len(told)))
    luck.shuffle(mixed)
    # Of one node the order counts: what is said last holds.
    places: dict[tuple[int, str], list[int]] = {}
    for place in range(len(told)):
        places.setdefault(told[place][:2], []).append(place)
    shuffled = []
    for place in mixed:
        at, node, _ = told[place]
        shuffled.append(entries[places[at, node].pop(0)])
    assert jobs(shuffled) == first
