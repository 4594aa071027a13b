"""What becomes of a set's machines: who is made, chosen, kept and given up."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0

from kubenode.api.v1alpha1.machineset import ScaleInOrder
from machine.machineset.members import RemovalReason, SetMember, SetObservation, SetTarget
from machine.machineset.step import AT_ONCE, SetPlan, step

SCALE_IN, REPLACE = RemovalReason.SCALE_IN, RemovalReason.REPLACE


def a_member(name: str, **facts: Any) -> SetMember:
    """One that runs, unless said otherwise."""
    well = {"initialized": True, "ready": True, "available": True, "created": T0}
    return SetMember(name, **{**well, **facts})


def new(name: str, **facts: Any) -> SetMember:
    return a_member(name, **{"initialized": False, "ready": False, "available": False, **facts})


def members(count: int, **facts: Any) -> list[SetMember]:
    return [a_member(f"m{i}", **facts) for i in range(count)]


def plan(
    found: list[SetMember], replicas: int, seen: dict[str, Any] | None = None, **w: Any
) -> SetPlan:
    return step(SetTarget(replicas, **w), SetObservation(T0, found, **(seen or {})))


def test_as_many_as_wanted_is_nothing_to_do() -> None:
    assert plan(members(3), 3) == SetPlan()


def test_what_is_missing_is_made() -> None:
    assert plan(members(3), 5) == SetPlan(create=2)


def test_no_more_are_made_than_the_class_has_room_for() -> None:
    assert plan(members(3), 50, {"room": 10}).create == 10
    assert plan(members(3), 50, {"blocked": "no such class"}).create == 0


def test_one_on_its_way_out_leaves_its_place_to_another_as_far_as_the_surge_goes() -> None:
    found = [*members(3), *(a_member(f"d{i}", deleting=True) for i in range(2))]
    assert plan(found, 5, max_surge=1).create == 1
    assert plan(found, 5, max_surge=0).create == 0
    assert plan(found, 5, max_surge="40%").create == 2


# -- scale in -------------------------------------------------------------------------------------


def chosen(found: list[SetMember], replicas: int, **wanted: Any) -> list[str]:
    return list(plan(found, replicas, **wanted).mark)


def test_scale_in_takes_first_what_is_to_be_deleted_first_then_the_failed_then_the_not_ready() -> (
    None
):
    found = [
        *members(3),
        a_member("unready", ready=False),
        a_member("failed", failed=True, ready=False, unhealthy="Failed"),
        a_member("first", delete_first=True),
    ]
    assert [chosen(found, 6 - n) for n in (1, 2, 3)] == [
        ["first"],
        ["first", "failed"],
        ["first", "failed", "unready"],
    ]


def test_a_machine_that_the_spec_names_is_chosen_also_while_others_are_missing() -> None:
    named = frozenset({"m0"})
    assert plan(members(3), 2, chosen=named) == SetPlan(mark={"m0": SCALE_IN})
    assert plan(members(3), 5, chosen=named) == SetPlan(mark={"m0": SCALE_IN})


def test_a_named_machine_leaves_for_good_and_counts_for_no_replica() -> None:
    found = [a_member("m0", leaving=SCALE_IN), a_member("m1", leaving=SCALE_IN), *members(4)[2:]]
    assert plan(found, 2, chosen=frozenset({"m0", "m1"})) == SetPlan(remove=("m0", "m1"))
    grown = plan(found, 3, chosen=frozenset({"m0", "m1"}))
    assert grown == SetPlan(remove=("m0", "m1"), create=0)
    assert plan(found, 3, chosen=frozenset({"m0"})) == SetPlan(unmark=("m1",))


def test_no_other_machine_leaves_in_place_of_a_named_one_that_hands_are_kept_off() -> None:
    found = [a_member("m0", hands_off=True), *members(3)[1:]]
    assert plan(found, 2, chosen=frozenset({"m0"})) == SetPlan()


def test_scale_in_takes_from_the_fullest_zone_before_age_decides() -> None:
    old, young = T0 - timedelta(days=1), T0
    found = [
        a_member("a1", zone="a", created=old),
        a_member("a2", zone="a", created=old),
        a_member("b1", zone="b", created=young),
    ]
    assert chosen(found, 2) == ["a1"]
    assert chosen(found, 1) == ["a1", "b1"]
    assert chosen(found, 1, order=ScaleInOrder.OLDEST) == ["a1", "a2"]


@pytest.mark.parametrize(("order", "first"), [("Newest", "m2"), ("Oldest", "m0")])
def test_scale_in_takes_the_newest_or_the_oldest(order: str, first: str) -> None:
    found = [a_member(f"m{i}", created=T0 + timedelta(hours=i)) for i in range(3)]
    assert chosen(found, 2, order=ScaleInOrder(order)) == [first]


def test_scale_in_never_takes_what_hands_are_kept_off() -> None:
    found = [a_member("keep", hands_off=True, delete_first=True, ready=False), *members(2)]
    assert chosen(found, 1) == ["m0", "m1"]
    assert chosen(found, 0) == ["m0", "m1"]


def test_scale_in_goes_in_turns() -> None:
    found = members(30)
    first = plan(found, 5)
    assert len(first.mark) == AT_ONCE
    marked = [replace(m, leaving=first.mark.get(m.name)) for m in found]
    again = plan(marked, 5)
    assert not again.mark and sorted(again.remove) == sorted(first.mark)


def test_scaling_out_again_keeps_whom_it_can() -> None:
    found = [*members(3), a_member("x", leaving=SCALE_IN), a_member("y", leaving=SCALE_IN)]
    assert plan(found, 4).unmark == ("y",)
    assert plan(found, 9) == SetPlan(unmark=("x", "y"))


def test_frozen_gives_nobody_up_and_still_makes_what_is_missing() -> None:
    found = [*members(2), a_member("x", leaving=REPLACE, unhealthy="NotReady")]
    frozen = plan(found, 4, {"frozen": "Leases stopped"}, max_unhealthy=3)
    assert frozen == SetPlan(create=2)


# -- the unhealthy --------------------------------------------------------------------------------


def sick(name: str, **facts: Any) -> SetMember:
    bad = {"unhealthy": "Ready is Unknown", "ready": False, "available": False}
    return a_member(name, **{**bad, **facts})


def test_an_unhealthy_machine_is_replaced_once_the_other_is_there() -> None:
    found = members(9)
    assert plan([*found, sick("x")], 10).mark == {"x": REPLACE}
    leaving = sick("x", leaving=REPLACE)
    assert plan([*found, leaving], 10) == SetPlan(create=1)
    assert plan([*found, leaving, new("n")], 10) == SetPlan()
    assert plan([*found, leaving, a_member("n")], 10) == SetPlan(remove=("x",))


def test_without_surge_the_unhealthy_machine_goes_first() -> None:
    leaving = sick("x", leaving=REPLACE)
    assert plan([*members(9), leaving], 10, max_surge=0) == SetPlan(remove=("x",))
    going = replace(leaving, deleting=True)
    assert plan([*members(9), going], 10, max_surge=0) == SetPlan()
    assert plan(members(9), 10, max_surge=0) == SetPlan(create=1)


def test_over_max_unhealthy_none_is_replaced() -> None:
    found = [*members(7), sick("x"), sick("y"), sick("z")]
    assert plan(found, 10) == SetPlan()
    assert plan(found, 10, max_unhealthy="30%").mark == {"x": REPLACE}
    marked = [*found[:-1], sick("z", leaving=REPLACE), a_member("n")]
    assert plan(marked, 10).unmark == ("z",)


def test_machines_under_repair_count_as_unhealthy_and_are_not_replaced() -> None:
    found = [*members(7), sick("x"), a_member("r", repair="job-1"), a_member("s", repair="job-2")]
    assert plan(found, 10).mark == {}
    assert plan([*members(9), sick("r", repair="job-1")], 10) == SetPlan()


def test_a_job_that_opens_on_a_chosen_machine_has_it_first() -> None:
    found = [*members(9), sick("x", leaving=REPLACE, repair="job-1")]
    assert plan(found, 10).unmark == ("x",)


def test_max_replacing_counts_those_that_come_and_go() -> None:
    two = [sick("x"), sick("y")]
    for busy in (a_member("d", deleting=True), new("n"), sick("z", leaving=REPLACE)):
        assert plan([*members(17), *two, busy], 20).mark == {}
    assert plan([*members(18), *two], 20, max_replacing=2).mark == {"x": REPLACE, "y": REPLACE}


def test_one_that_gets_well_stays() -> None:
    assert plan([*members(9), a_member("x", leaving=REPLACE)], 10).unmark == ("x",)


def test_a_chosen_machine_whose_wait_began_anew_stays_chosen_and_waits() -> None:
    ailing = a_member("x", leaving=REPLACE, ailing=True, ready=False, available=False)
    other = new("n")
    assert plan([*members(9), ailing, other], 10) == SetPlan()
    assert plan([*members(9), ailing, a_member("n")], 10) == SetPlan(), "not before it is unhealthy"
    outdated = replace(ailing, outdated=True)
    two = [outdated, a_member("y", outdated=True, leaving=REPLACE)]
    assert plan([*members(8), *two], 10, replace_outdated=True).unmark == ()


def test_hands_are_kept_off_the_unhealthy_too() -> None:
    assert plan([*members(9), sick("x", hands_off=True)], 10) == SetPlan()
    chosen_before = sick("x", hands_off=True, leaving=REPLACE)
    assert plan([*members(9), chosen_before], 10).unmark == ("x",)


def test_more_to_replace_than_the_surge_holds_does_not_wait_for_ever() -> None:
    found = [*members(18), sick("x", leaving=REPLACE), sick("y", leaving=REPLACE), a_member("n")]
    assert plan(found, 20, max_replacing=2).remove == ("x", "y")


# -- failed and kept ------------------------------------------------------------------------------


def failed(name: str, **facts: Any) -> SetMember:
    return sick(name, **{"failed": True, "unhealthy": "Failed", "initialized": False, **facts})


def test_a_failed_machine_is_kept_for_people_and_another_made() -> None:
    kept = plan([*members(9), failed("x")], 10)
    assert kept == SetPlan(preserve={"x": T0 + timedelta(hours=24)})
    beside = failed("x", preserved=T0 + timedelta(hours=24))
    assert plan([*members(9), beside], 10) == SetPlan(create=1)


def test_no_more_are_kept_than_asked_for_nor_where_nothing_is_left() -> None:
    beside = failed("k", preserved=T0 + timedelta(hours=24))
    assert plan([*members(9), failed("x"), beside], 10).mark == {"x": REPLACE}
    assert plan([*members(9), failed("x")], 10, preserve_max=0).mark == {"x": REPLACE}
    assert plan([*members(9), failed("x", gone=True)], 10).mark == {"x": REPLACE}


def test_what_was_kept_goes_when_its_time_is_over_or_fewer_are_to_be_kept() -> None:
    old, young = (failed(n, preserved=T0 + timedelta(hours=h)) for n, h in (("o", 0), ("y", 1)))
    assert plan([*members(10), old], 10).mark == {"o": REPLACE}
    assert plan([*members(10), young], 10) == SetPlan()
    more = failed("z", preserved=T0 + timedelta(hours=2))
    assert plan([*members(10), young, more], 10).mark == {"y": REPLACE}
    assert plan([*members(10), replace(old, leaving=REPLACE)], 10).remove == ("o",)


# -- the outdated ---------------------------------------------------------------------------------


def test_a_new_class_replaces_machines_only_where_that_is_asked_for() -> None:
    found = members(3, outdated=True)
    assert plan(found, 3) == SetPlan()
    assert plan(found, 3, replace_outdated=True).mark == {"m0": REPLACE}


def test_an_outdated_machine_that_works_waits_until_all_are_well() -> None:
    leaving = a_member("x", outdated=True, leaving=REPLACE)
    settings: dict[str, Any] = {"replace_outdated": True}
    assert plan([*members(2), leaving], 3, **settings) == SetPlan(create=1)
    assert plan([*members(2), leaving, new("n")], 3, **settings) == SetPlan()
    assert plan([*members(2), leaving, a_member("n")], 3, **settings).remove == ("x",)
    # What came in its place failed: the one that works stays.
    assert "x" not in plan([*members(2), leaving, failed("n")], 3, **settings).remove


def test_the_unhealthy_go_before_the_outdated() -> None:
    found = [*members(8, outdated=True), sick("x")]
    assert plan(found, 9, replace_outdated=True).mark == {"x": REPLACE}
    leaving = a_member("o", outdated=True, leaving=REPLACE)
    assert plan([*found, leaving], 10, replace_outdated=True).unmark == ("o",)


def test_no_more_outdated_are_chosen_than_the_surge_holds() -> None:
    found = members(20, outdated=True)
    wide: dict[str, Any] = {"replace_outdated": True, "max_replacing": 5}
    assert len(plan(found, 20, max_surge=2, **wide).mark) == 2
    marked = [replace(m, leaving=REPLACE) if m.name in ("m1", "m2") else m for m in found]
    assert plan(marked, 20, max_surge=1, **wide).unmark == ("m2",)
