"""The contract of set_condition: the semantics of metav1.Condition."""

from datetime import UTC, datetime, timedelta

import pytest

from kubenode.api.conditions import (
    CUT,
    MESSAGE_LENGTH,
    ConditionUpdate,
    find_condition,
    set_condition,
    set_conditions,
)
from kubenode.api.meta import Condition, ConditionStatus

T0 = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
LATER = T0 + timedelta(minutes=5)
TRUE, FALSE, UNKNOWN = ConditionStatus.TRUE, ConditionStatus.FALSE, ConditionStatus.UNKNOWN


def _known(type_: str = "Ready", status: ConditionStatus = TRUE) -> Condition:
    return Condition(
        type=type_,
        status=status,
        reason="Before",
        message="as it was",
        observed_generation=1,
        last_transition_time=T0,
    )


def _set(conditions: list[Condition], update: ConditionUpdate, type_: str = "Ready") -> Condition:
    after = set_condition(conditions, type_, update, generation=2, now=LATER)
    condition = find_condition(after, type_)
    assert condition is not None
    return condition


def test_new_condition_begins_now_with_the_observed_generation() -> None:
    new = _set([], ConditionUpdate(FALSE, "Waiting", "for the host"))
    assert new == Condition(
        type="Ready",
        status=FALSE,
        reason="Waiting",
        message="for the host",
        observed_generation=2,
        last_transition_time=LATER,
    )


@pytest.mark.parametrize("before", list(ConditionStatus))
@pytest.mark.parametrize("after", list(ConditionStatus))
@pytest.mark.parametrize("reason", ["Before", "After"])
@pytest.mark.parametrize("message", ["as it was", "changed"])
def test_transition_time_moves_with_the_status_alone(
    before: ConditionStatus, after: ConditionStatus, reason: str, message: str
) -> None:
    new = _set([_known(status=before)], ConditionUpdate(after, reason, message))
    assert new.last_transition_time == (T0 if before is after else LATER)
    assert (new.status, new.reason, new.message) == (after, reason, message)
    assert new.observed_generation == 2


def test_repeated_update_changes_nothing() -> None:
    before = [_known("Other"), _known()]
    update = ConditionUpdate(TRUE, "Before", "as it was")
    assert set_condition(before, "Ready", update, generation=1, now=LATER) == before


def test_condition_keeps_its_place_and_a_new_type_is_appended() -> None:
    before = [_known("C"), _known("A"), _known("B")]
    update = ConditionUpdate.of(False, "After")
    changed = set_condition(before, "A", update, generation=1, now=LATER)
    assert [c.type for c in changed] == ["C", "A", "B"]
    assert [changed[0], changed[2]] == [before[0], before[2]]
    appended = set_condition(changed, "0", update, generation=1, now=LATER)
    assert [c.type for c in appended] == ["C", "A", "B", "0"]


def test_given_conditions_are_not_changed() -> None:
    before = [_known()]
    set_condition(before, "Ready", ConditionUpdate.of(False, "After"), generation=2, now=LATER)
    assert before == [_known()]


def test_stored_duplicates_of_a_type_become_a_single_condition() -> None:
    before = [_known(), _known("Other"), _known(status=FALSE)]
    after = set_condition(before, "Ready", ConditionUpdate.of(True, "R"), generation=1, now=LATER)
    assert [c.type for c in after] == ["Ready", "Other"]


@pytest.mark.parametrize("length", [MESSAGE_LENGTH - 1, MESSAGE_LENGTH])
def test_message_up_to_the_bound_is_stored_whole(length: int) -> None:
    assert _set([], ConditionUpdate.of(True, "R", "x" * length)).message == "x" * length


def test_longer_message_is_cut_visibly() -> None:
    message = _set([], ConditionUpdate.of(True, "R", "x" * 100_000)).message
    assert len(message) == MESSAGE_LENGTH
    assert message.endswith(f"x{CUT}")


def test_kind_without_observed_generation_stores_none() -> None:
    update = ConditionUpdate.of(True, "R")
    (new,) = set_condition([], "Ready", update, generation=None, now=T0)
    assert "observedGeneration" not in new.to_dict()


def test_update_of_a_boolean_is_true_or_false() -> None:
    assert ConditionUpdate.of(True, "R").status is TRUE
    assert ConditionUpdate.of(False, "R").status is FALSE
    assert ConditionUpdate(UNKNOWN, "R").message == ""


def test_several_updates_are_set_in_their_order_and_none_leaves_a_condition() -> None:
    before = [_known("A"), _known("B")]
    updates = {"C": ConditionUpdate.of(True, "R"), "A": None, "B": ConditionUpdate.of(False, "R")}
    after = set_conditions(before, updates.items(), generation=2, now=LATER)
    assert [(c.type, c.status) for c in after] == [("A", TRUE), ("B", FALSE), ("C", TRUE)]
    assert after[0] == before[0]
    assert set_conditions(before, [], generation=2, now=LATER) == before
