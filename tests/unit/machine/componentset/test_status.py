"""What a rollout remembers comes back from the status as it went in."""

from dataclasses import replace
from datetime import timedelta

from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0

from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import MachineComponentSetStatus, RolloutPhase
from machine.componentset import messages
from machine.componentset.events import list_messages
from machine.componentset.rollout import BatchState, ConditionMessage, RolloutPlan, RolloutState
from machine.componentset.status import remembered, report_deletion, status_after, unsure

TIMES = st.none() | st.integers(0, 10**6).map(lambda s: T0 + timedelta(seconds=s))
BATCHES = st.builds(
    BatchState,
    index=st.integers(1, 50),
    size=st.integers(1, 50),
    started_at=TIMES,
    succeeded_at=TIMES,
    bake_until=TIMES,
    failed=st.lists(st.sampled_from(["m1", "m2"]), unique=True).map(tuple),
    inconclusive=st.integers(0, 5),
    inspected_at=TIMES,
    active_since=TIMES,
    active_before=st.integers(0, 10**5).map(lambda s: timedelta(seconds=s)),
    ended_at=TIMES,
)
ROLLOUTS = st.builds(
    RolloutState,
    phase=st.sampled_from(RolloutPhase),
    current=st.sampled_from(["", "1-0000000001"]),
    update=st.sampled_from(["", "1-0000000002"]),
    rejected=st.sampled_from(["", "1-0000000002"]),
    batch=BATCHES,
    stop=st.none() | st.just(ConditionMessage(RolloutReason.AUTO_PAUSED, "m1 failed")),
)


def a_set(status: MachineComponentSetStatus | None = None) -> MachineComponentSet:
    return MachineComponentSet.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineComponentSet",
            "metadata": {"name": "s", "generation": 3},
            "spec": {"selector": {"matchLabels": {"a": "b"}}, "component": "c-1"},
            "status": status.to_dict() if status is not None else {},
        }
    )


@given(ROLLOUTS)
def test_nothing_is_lost_over_a_restart(rollout: RolloutState) -> None:
    status = status_after(a_set(), rollout, RolloutPlan(paused=rollout.stop), [], [], T0)
    text = status.model_dump_json(by_alias=True)
    assert remembered(MachineComponentSetStatus.model_validate_json(text)) == rollout
    assert (
        status_after(a_set(status), rollout, RolloutPlan(paused=rollout.stop), [], [], T0) == status
    )


def test_a_pause_by_a_person_is_no_stop_of_its_own() -> None:
    plan = RolloutPlan(paused=ConditionMessage(RolloutReason.USER, "spec.paused"))
    assert remembered(status_after(a_set(), RolloutState(), plan, [], [], T0)).stop is None


def test_people_are_told_of_changes_once() -> None:
    before = RolloutState(current="1-0000000001", update="1-0000000002")
    stop = ConditionMessage(RolloutReason.AUTO_PAUSED, "m1 failed")
    started = replace(before, batch=BatchState(index=1, size=2, started_at=T0))
    assert [said.reason for _, said in list_messages(before, started, RolloutPlan())] == [
        "BatchStarted"
    ]
    stopped = replace(started, stop=stop)
    assert list_messages(started, stopped, RolloutPlan()) == [(True, stop)]
    assert list_messages(stopped, stopped, RolloutPlan()) == []


def test_a_deleted_set_says_what_cannot_be_removed_and_when_it_can() -> None:
    assert report_deletion(a_set(), None, T0) == a_set().status, "nothing is written for nothing"
    stuck = report_deletion(a_set(), ConditionMessage(RolloutReason.MACHINES_FAILED, "m1"), T0)
    degraded = stuck.conditions[0]
    assert (degraded.type, degraded.status, degraded.message) == ("Degraded", "True", "m1")
    assert (
        report_deletion(a_set(stuck), ConditionMessage(RolloutReason.MACHINES_FAILED, "m1"), T0)
        == stuck
    )
    after = report_deletion(a_set(stuck), None, T0).conditions[0]
    assert after.status == "False"


def test_a_set_that_waits_until_it_is_known_which_agents_live_says_so_once() -> None:
    said = messages.unsure(120.0)
    rests = status_after(
        a_set(), RolloutState(phase=RolloutPhase.COMPLETED), RolloutPlan(), [], [], T0
    )
    assert unsure(a_set(rests), "", said, T0) == rests, "it waits for nothing"
    for waits, target in (
        (rests.model_copy(update={"phase": RolloutPhase.UPDATING}), ""),
        (rests.model_copy(update={"observed_generation": 2}), ""),
        (rests, "1-0000000002"),
    ):
        found = unsure(a_set(waits), target, said, T0)
        told = next(c for c in found.conditions if c.type == "Progressing")
        assert (told.status, told.reason) == ("False", "AgentsUnknown")
        assert "120 s" in told.message
        assert remembered(found) == remembered(waits), "nothing is forgotten"
        later = unsure(a_set(found), target, said, T0 + timedelta(seconds=5))
        assert later == found, "each look again says the same"
