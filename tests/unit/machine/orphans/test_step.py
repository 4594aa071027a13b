"""Which instances without a Machine are ended: old ones, seen twice, few of all."""

from datetime import datetime, timedelta

import pytest
from support.clock import T0

from kubenode.providers.instances import Instance, InstanceState, client_token
from machine.orphans.step import AT_ONCE, Claims, step

OLD = T0 - timedelta(hours=1)
NOBODY = Claims(set(), set())


def an_instance(name: str, created: datetime | None = OLD, token: str | None = None) -> Instance:
    asked_with = client_token(f"uid-{name}", 1) if token is None else token
    return Instance(f"x://{name}", asked_with, "c", InstanceState.RUNNING, created_at=created)


def claimed(count: int) -> tuple[list[Instance], Claims]:
    found = [an_instance(f"m{i}") for i in range(count)]
    return found, Claims({f"uid-m{i}" for i in range(count)}, set())


def ended(
    listed: list[Instance], claims: Claims, twice: bool = True, frozen: str = ""
) -> list[str]:
    before = {one.provider_id for one in listed} if twice else set()
    return [one.provider_id for one in step(listed, claims, before, T0, frozen).ended]


def test_invariant_02_an_orphan_is_ended_when_it_is_seen_twice() -> None:
    machines, claims = claimed(9)
    orphan = an_instance("o")
    first = step([*machines, orphan], claims, set(), T0)
    assert first.orphans == {"x://o"} and not first.ended
    again = step([*machines, orphan], claims, first.orphans, T0)
    assert again.ended == (orphan,)


@pytest.mark.parametrize(
    "spared",
    [
        an_instance("young", T0 - timedelta(minutes=29)),
        an_instance("ageless", None),
        an_instance("foreign", token=""),
        an_instance("foreign", token="made by hand"),
    ],
)
def test_invariant_02_what_is_fresh_or_not_in_our_form_is_spared(spared: Instance) -> None:
    assert ended([spared], NOBODY) == []


def test_invariant_02_what_a_machine_claims_is_spared() -> None:
    one = an_instance("o")
    assert ended([one], Claims({"uid-o"}, set())) == []
    assert ended([one], Claims(set(), {"x://o"})) == []
    assert ended([one], NOBODY) == ["x://o"]


def test_where_many_look_orphaned_it_is_we_who_do_not_see() -> None:
    machines, claims = claimed(8)
    two = [an_instance("o1"), an_instance("o2")]
    assert len(ended([*machines, *two], claims)) == 2
    # Young ones count among those that look so.
    three = [*two, an_instance("o3", T0)]
    found = step([*machines, *three], claims, {"x://o1", "x://o2"}, T0)
    assert found.ended == () and "3 of 11 instances have no Machine" in found.spared


def test_few_are_ended_at_once_and_the_oldest_first() -> None:
    machines, claims = claimed(40)
    many = [an_instance(f"o{i}", OLD - timedelta(hours=i)) for i in range(8)]
    names = ended([*machines, *many], claims)
    assert names == [f"x://o{i}" for i in (7, 6, 5, 4, 3)] and len(names) == AT_ONCE


def test_f15_nothing_is_ended_while_frozen() -> None:
    assert ended([an_instance("o")], NOBODY, frozen="Leases stopped") == []
