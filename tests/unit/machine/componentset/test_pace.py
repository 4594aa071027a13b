"""How soon sets look, and which changes of a status may wait a second."""

from dataclasses import replace

from support.clock import T0

from kubenode.api.rollouts import RolloutReason
from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import MachineComponentSetStatus, RolloutPhase
from machine.componentset.pace import ObservationPace
from machine.componentset.rollout import (
    BatchState,
    ConditionMessage,
    MachineCounts,
    RolloutPlan,
    RolloutState,
)
from machine.componentset.status import only_counts, status_after


def a_set() -> MachineComponentSet:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "component": "c-1"}
    return MachineComponentSet.model_validate({"metadata": {"name": "s"}, "spec": spec})


def test_what_is_only_counted_or_worded_may_wait_and_nothing_else() -> None:
    def status(
        rollout: RolloutState | None = None, told: ConditionMessage | None = None, **more: object
    ) -> MachineComponentSetStatus:
        said = (True, told or ConditionMessage(RolloutPhase.UPDATING))
        plan = replace(RolloutPlan(progressing=said), **more)  # type: ignore[arg-type]
        return status_after(a_set(), rollout or RolloutState(), plan, [], [], T0)

    before = status()
    assert only_counts(before, status(counts=MachineCounts(machines=9, updated=3)))
    assert only_counts(
        before, status(told=ConditionMessage(RolloutReason.WAITING_FOR_PERMIT, "m1: Rate"))
    )
    assert not only_counts(before, status(RolloutState(batch=BatchState(index=2))))
    assert not only_counts(
        before, status(degraded=ConditionMessage(RolloutReason.MACHINES_FAILED, "m1"))
    )
    one, two = (
        status(paused=ConditionMessage(RolloutReason.AUTO_PAUSED, why)) for why in ("m1", "m2")
    )
    assert not only_counts(one, two)


def test_looks_of_many_sets_at_many_machines_are_spread() -> None:
    pace = ObservationPace()
    first, *_, last = [pace.delay(f"set-{n}", 10_000, 100.0) for n in range(12)]
    assert first < 2.0, "who looks alone does so soon"
    assert 10.0 < last < 20.0
    assert pace.delay("set-11", 10_000, 105.0) == last - 5.0, "more changes do not put it off"
    assert pace.delay("set-0", 10_000, 105.0) > first, "it has looked, the others have not"
    assert pace.delay("alone", 3, 200.0) < 0.3
