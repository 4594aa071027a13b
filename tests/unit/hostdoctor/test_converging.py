"""Deliveries in any order, any number of times: the HostEvents come to say the same."""

from collections.abc import Sequence
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.host_doctor import Shelf, alert, at, group, index, node

from remedy.hostdoctor.parsers import PARSERS

NODES = index(node("a", ("InternalIP", "10.0.0.1")))
EPISODE = 20


def life(episodes: int, *, ends: bool) -> list[dict[str, Any]]:
    """An alert that fires `episodes` times; the last one ends or goes on."""
    told = []
    for n in range(episodes):
        begun = n * EPISODE
        told.append(group(alert(starts=begun, instance="10.0.0.1:9100")))
        if ends or n < episodes - 1:
            over = begun + EPISODE // 2
            told.append(group(alert(starts=begun, ends=over, instance="10.0.0.1:9100")))
    return told


def after(deliveries: Sequence[dict[str, Any]]) -> Shelf:
    shelf = Shelf(NODES)
    for n, each in enumerate(deliveries):
        now = at(200 + n)  # all within the time that a delivery may be late
        shelf.tell(PARSERS["alertmanager"](each, now), now)
    return shelf


@st.composite
def shuffled(draw: st.DrawFn) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    told = life(draw(st.integers(1, 4)), ends=draw(st.booleans()))
    again = draw(st.lists(st.sampled_from(told), max_size=8))
    return told, draw(st.permutations([*told, *again]))


@given(shuffled())
def test_order_and_repetition_do_not_matter(
    case: tuple[list[dict[str, Any]], list[dict[str, Any]]],
) -> None:
    told, delivered = case
    wanted, found = after(told).only(), after(delivered).only()
    assert found.metadata.name == wanted.metadata.name
    assert found.status.phase == wanted.status.phase
    assert found.spec == wanted.spec
    assert 1 <= found.status.seen <= max(wanted.status.seen, 1)


@given(st.integers(1, 4), st.booleans())
def test_what_was_told_is_not_written_again(episodes: int, ends: bool) -> None:
    told = life(episodes, ends=ends)
    shelf = after(told)
    before = shelf.writes
    for each in told:
        shelf.tell(PARSERS["alertmanager"](each, at(210)), at(210))
    assert shelf.writes == before
    assert shelf.only().status.seen == episodes, "each time that it fired is counted"
