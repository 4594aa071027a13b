"""The cordon: ours with the marks of our holders, and nobody else's."""

from hypothesis import given
from hypothesis import strategies as st

from kubenode.api.cordon import KEEP_CORDONED
from kubenode.api.v1alpha1.permit import Holder
from machine.disruption.cordon import (
    CORDONED_BY,
    CordonChange,
    Cordoned,
    holder_in,
    joined,
    mark_of,
    remove_mark,
    uncordoned,
)

SET = Holder(kind="MachineComponentSet", name="containerd", uid="u1")
MACHINE = Holder(kind="Machine", name="sh-113", uid="u2")
THIRD = Holder(kind="MachineSet", name="online-a", uid="u3")
HOLDERS = (SET, MACHINE, THIRD)


def after(seen: Cordoned, change: CordonChange | None) -> Cordoned:
    if change is None:
        return seen
    notes = {k: v for k, v in seen.annotations.items() if k != CORDONED_BY}
    if change.mark is not None:
        notes[CORDONED_BY] = change.mark
    return Cordoned(change.unschedulable, notes)


def test_a_mark_says_whose_it_is() -> None:
    assert mark_of(SET) == "MachineComponentSet/containerd/u1"
    assert holder_in(mark_of(SET)) == SET
    assert holder_in("rj-12") is None
    assert holder_in("a//b") is None


def test_f19_what_somebody_else_had_cordoned_gets_no_mark_and_stays() -> None:
    """By a person without any mark; by a job of the Remedy operator with its bare name."""
    for notes in ({}, {CORDONED_BY: "n1-xid-12"}):
        seen = Cordoned(True, notes)
        assert joined(seen, SET) is None
        assert remove_mark(seen, SET) is None


def test_the_last_of_several_holders_uncordons() -> None:
    seen = after(Cordoned(), joined(Cordoned(), SET))
    seen = after(seen, joined(seen, MACHINE))
    assert seen.marks == (mark_of(SET), mark_of(MACHINE))
    seen = after(seen, remove_mark(seen, SET))
    assert seen.unschedulable and seen.marks == (mark_of(MACHINE),)
    assert after(seen, remove_mark(seen, MACHINE)) == Cordoned()


def test_a_persons_uncordon_is_seen_and_not_undone_by_the_end() -> None:
    seen = after(Cordoned(), joined(Cordoned(), SET))
    assert not uncordoned(seen, SET)
    seen = Cordoned(False, seen.annotations)
    assert uncordoned(seen, SET) and not uncordoned(seen, MACHINE)
    assert after(seen, remove_mark(seen, SET)) == Cordoned()


def test_other_annotations_are_no_marks() -> None:
    seen = Cordoned(True, {"example.com/x": mark_of(SET), CORDONED_BY: ",,"})
    assert seen.marks == ()


BEFORE = st.sampled_from(
    [Cordoned(), Cordoned(True), Cordoned(True, {CORDONED_BY: "rj-12"}), Cordoned(True, {"a": "b"})]
)


@given(BEFORE, st.lists(st.tuples(st.booleans(), st.sampled_from(HOLDERS)), max_size=12))
def test_whoever_comes_and_goes_the_node_ends_as_it_began(
    before: Cordoned, moves: list[tuple[bool, Holder]]
) -> None:
    seen, inside = before, set[str]()
    for comes, holder in moves:
        seen = after(seen, joined(seen, holder) if comes else remove_mark(seen, holder))
        (inside.add if comes else inside.discard)(holder.uid)
        assert seen.unschedulable or not inside
        ours = {of.uid for mark in seen.marks if (of := holder_in(mark))}
        assert ours == (set() if before.unschedulable else inside)
        assert joined(seen, holder) is None or not comes  # a second time changes nothing
    for holder in HOLDERS:
        seen = after(seen, remove_mark(seen, holder))
    assert seen == before


def test_the_last_holder_leaves_the_cordon_when_a_person_asked_to_keep_it() -> None:
    seen = Cordoned(True, {CORDONED_BY: mark_of(SET), KEEP_CORDONED: "disk is swapped on Monday"})
    assert remove_mark(seen, SET) == CordonChange(None, True)
    undecided = Cordoned(True, {CORDONED_BY: mark_of(SET), KEEP_CORDONED: "false"})
    assert remove_mark(undecided, SET) == CordonChange(None, False)
    schedulable = Cordoned(False, {CORDONED_BY: mark_of(SET), KEEP_CORDONED: "true"})
    assert remove_mark(schedulable, SET) == CordonChange(None, False)
