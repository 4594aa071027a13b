"""Which blows fall on whom: a plan that its seed makes anew."""

from itertools import pairwise

import pytest
from chaos.blows import EVERYBODY, Sort, Target, blows

TARGETS = {
    "remedy-0": Target(),
    "remedy-1": Target(),
    "redis": Target(0.5, {Sort.KILL: 5.0}),
}
SEEDS = range(20)


def test_a_seed_makes_the_same_plan_anew() -> None:
    one, other = (list(blows(7, 600, TARGETS, 5)) for _ in range(2))
    assert one == other
    assert one != list(blows(8, 600, TARGETS, 5))


@pytest.mark.parametrize("seed", SEEDS)
def test_all_blows_are_over_when_the_run_is_and_come_in_order(seed: int) -> None:
    found = list(blows(seed, 600, TARGETS, 5))
    assert found
    assert all(blow.at >= 0 and blow.over <= 600 for blow in found)
    assert all(a.at <= b.at for a, b in pairwise(found))


@pytest.mark.parametrize("seed", SEEDS)
def test_nobody_is_struck_while_an_earlier_blow_lasts(seed: int) -> None:
    busy = dict.fromkeys(TARGETS, 0.0)
    for blow in blows(seed, 600, TARGETS, 5):
        struck = list(TARGETS) if blow.victim == EVERYBODY else [blow.victim]
        assert all(busy[name] <= blow.at for name in struck)
        busy |= dict.fromkeys(struck, blow.over)


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_done_to_a_target_that_it_does_not_name_nor_for_longer(seed: int) -> None:
    for blow in blows(seed, 600, TARGETS, 5):
        if blow.victim != EVERYBODY:
            assert blow.lasts <= TARGETS[blow.victim].longest[blow.sort]


def test_a_long_run_has_every_sort_of_blow_on_everybody() -> None:
    found = list(blows(7, 6000, TARGETS, 5))
    seen = {(blow.victim, blow.sort) for blow in found}
    each = {(name, sort) for name, target in TARGETS.items() for sort in target.longest}
    assert seen == {*each, (EVERYBODY, Sort.CUT)}
    assert max(blow.lasts for blow in found if blow.sort is Sort.FREEZE) > 50
