"""The contract of a cordon's owners: jobs and holders share it, and a person's stays."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kubenode.api.cordon import (
    CORDONED_BY,
    KEEP_CORDONED,
    CordonChange,
    CordonState,
    add_mark,
    holder_in,
    mark_of,
    remove_mark,
    replace_mark,
    was_uncordoned,
)
from kubenode.api.v1alpha1.permit import Holder

JOB, OTHER_JOB = "n1-xid-12", "n1-xid-13"
SET = Holder(kind="MachineComponentSet", name="containerd", uid="u1")
MACHINE = Holder(kind="Machine", name="sh-113", uid="u2")
A, B = mark_of(SET), mark_of(MACHINE)
MARKS = (JOB, OTHER_JOB, A, B)
PERSONS = CordonState(True)


def marked(value: str, unschedulable: bool = True) -> CordonState:
    return CordonState(unschedulable, {CORDONED_BY: value})


def after(state: CordonState, change: CordonChange | None) -> CordonState:
    if change is None:
        return state
    annotations = {k: v for k, v in state.annotations.items() if k != CORDONED_BY}
    if change.mark is not None:
        annotations[CORDONED_BY] = change.mark
    return CordonState(change.unschedulable, annotations)


def test_mark_of_a_holder_names_its_kind_name_and_uid() -> None:
    assert A == "MachineComponentSet/containerd/u1"
    assert holder_in(A) == SET


@pytest.mark.parametrize("mark", [JOB, "a//b", "a/b", "a/b/c/d", "//", "k" * 64 + "/n/u", ""])
def test_other_marks_name_no_holder(mark: str) -> None:
    assert holder_in(mark) is None
    assert marked(mark).holders == ()


@pytest.mark.parametrize(
    ("stored", "jobs", "holders"),
    [
        (JOB, (JOB,), ()),
        (A, (), (SET,)),
        (f"{A},{B}", (), (SET, MACHINE)),
        (f"{JOB},{A}", (JOB,), (SET,)),
        (f" {JOB} ,, {A},{JOB}", (JOB,), (SET,)),
        ("", (), ()),
        (",,", (), ()),
    ],
)
def test_stored_marks_of_every_version_are_read(
    stored: str, jobs: tuple[str, ...], holders: tuple[Holder, ...]
) -> None:
    """Earlier versions wrote a single job's name, or holders only."""
    assert marked(stored).jobs == jobs
    assert marked(stored).holders == holders


@pytest.mark.parametrize("mark", [JOB, A])
def test_single_owner_writes_what_earlier_versions_read(mark: str) -> None:
    assert add_mark(CordonState(), mark) == CordonChange(mark, True)
    assert remove_mark(marked(mark), mark) == CordonChange(None, False)


@pytest.mark.parametrize(
    ("stored", "joins", "both"), [(JOB, A, f"{JOB},{A}"), (f"{A},{B}", JOB, f"{A},{B},{JOB}")]
)
def test_job_and_holder_share_a_cordon_and_neither_undoes_the_others(
    stored: str, joins: str, both: str
) -> None:
    shared = add_mark(marked(stored), joins)
    assert shared == CordonChange(both, True)
    assert remove_mark(marked(both), joins) == CordonChange(stored, True)
    state = marked(both)
    for mark in stored.split(","):
        state = after(state, remove_mark(state, mark))
    assert state == marked(joins), "the last owner still has the cordon"


@pytest.mark.parametrize("mark", MARKS)
def test_f19_cordon_of_a_person_gets_no_mark_and_stays(mark: str) -> None:
    assert add_mark(PERSONS, mark) is None
    assert remove_mark(PERSONS, mark) is None


def test_owner_joins_once() -> None:
    assert add_mark(marked(f"{JOB},{A}"), A) is None


def test_owner_that_is_not_listed_removes_nothing() -> None:
    assert remove_mark(marked(f"{JOB},{A}"), B) is None
    assert remove_mark(marked(f"{JOB}-2"), JOB) is None


def test_malformed_marks_of_others_are_left_in_place() -> None:
    assert remove_mark(marked(f"a//b,{A}"), A) == CordonChange("a//b", True)


def test_uncordon_by_a_person_is_noticed_by_each_owner_and_not_undone() -> None:
    state = marked(f"{JOB},{A}", unschedulable=False)
    assert was_uncordoned(state, JOB) and was_uncordoned(state, A)
    assert not was_uncordoned(state, B)
    assert not was_uncordoned(marked(A), A)
    state = after(state, remove_mark(state, JOB))
    assert after(state, remove_mark(state, A)) == CordonState()


def test_obsolete_marks_of_an_uncordoned_node_are_replaced() -> None:
    assert add_mark(marked(f"{JOB},{A}", unschedulable=False), B) == CordonChange(B, True)


def test_successor_takes_the_place_of_the_superseded_job() -> None:
    assert replace_mark(marked(JOB), JOB, OTHER_JOB) == CordonChange(OTHER_JOB, True)
    shared = replace_mark(marked(f"{A},{JOB}"), JOB, OTHER_JOB)
    assert shared == CordonChange(f"{A},{OTHER_JOB}", True)
    again = replace_mark(marked(f"{JOB},{OTHER_JOB}"), JOB, OTHER_JOB)
    assert again == CordonChange(OTHER_JOB, True)


@pytest.mark.parametrize("state", [PERSONS, marked(A), marked(JOB, unschedulable=False)])
def test_successor_takes_nothing_from_others(state: CordonState) -> None:
    assert replace_mark(state, JOB, OTHER_JOB) is None


@pytest.mark.parametrize(
    ("answer", "stays"), [("disk is swapped on Monday", True), ("false", False), ("", True)]
)
def test_last_owner_leaves_the_cordon_that_a_person_keeps(answer: str, stays: bool) -> None:
    state = CordonState(True, {CORDONED_BY: JOB, KEEP_CORDONED: answer})
    assert remove_mark(state, JOB) == CordonChange(None, stays)
    schedulable = CordonState(False, {CORDONED_BY: JOB, KEEP_CORDONED: answer})
    assert remove_mark(schedulable, JOB) == CordonChange(None, False)


BEFORE = st.sampled_from([CordonState(), PERSONS, CordonState(True, {"a": "b"}), marked("rj-1")])


@given(BEFORE, st.lists(st.tuples(st.booleans(), st.sampled_from(MARKS)), max_size=12))
def test_whoever_comes_and_goes_the_node_ends_as_it_began(
    before: CordonState, moves: list[tuple[bool, str]]
) -> None:
    state, inside = before, set[str]()
    for comes, mark in moves:
        state = after(state, add_mark(state, mark) if comes else remove_mark(state, mark))
        (inside.add if comes else inside.discard)(mark)
        assert state.unschedulable or not inside
        shares = bool(before.marks) or not before.unschedulable
        assert set(state.marks) == {*before.marks, *(inside if shares else ())}
        assert not comes or add_mark(state, mark) is None  # a second time changes nothing
    for mark in MARKS:
        state = after(state, remove_mark(state, mark))
    assert state == before
