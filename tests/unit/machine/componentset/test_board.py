"""What sets want of machines, between two looks."""

from datetime import UTC, datetime, timedelta

from kubenode.api.v1alpha1.machinework import AssignedComponent
from machine.componentset.board import Assignments, SetIntent

T0 = datetime(2026, 1, 1, tzinfo=UTC)


def entry(revision: str = "1-aaaaaaaaaa", at: datetime = T0) -> AssignedComponent:
    return AssignedComponent(
        name="containerd",
        component="containerd-2",
        set="runtime",
        revision=revision,
        config_hash="1-bbbbbbbbbb",
        assigned_at=at,
    )


def test_what_a_look_has_no_room_for_any_more_is_taken_back_before_anything_is_awaited() -> None:
    board = Assignments()
    board.put("runtime", {"a": SetIntent(entry()), "b": SetIntent(entry())})

    board.narrow("runtime", {"b": SetIntent(entry()), "c": SetIntent(entry())})

    assert board.machines("runtime") == ["b"]


def test_a_look_that_plans_the_same_again_takes_nothing_back_and_wakes_nobody() -> None:
    woken: list[str] = []
    board = Assignments(wake=woken.append)
    board.put("runtime", {"a": SetIntent(entry())})
    later = {"a": SetIntent(entry(at=T0 + timedelta(seconds=1)))}
    woken.clear()

    board.narrow("runtime", later)
    assert board.machines("runtime") == ["a"]
    board.put("runtime", later)

    assert woken == []
    assert board.of("a")["runtime"].entry == later["a"].entry


def test_another_revision_takes_the_one_before_back() -> None:
    woken: list[str] = []
    board = Assignments(wake=woken.append)
    board.put("runtime", {"a": SetIntent(entry())})
    woken.clear()
    other = {"a": SetIntent(entry("1-cccccccccc"))}

    board.narrow("runtime", other)
    assert board.machines("runtime") == []
    board.put("runtime", other)

    assert woken == ["a"]
