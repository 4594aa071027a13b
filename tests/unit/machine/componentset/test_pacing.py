"""Which changes of a set's status may wait a second."""

from dataclasses import replace

from support.clock import T0

from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import MachineComponentSetStatus, RolloutPhase
from machine.componentset.rollout import Batch, Counts, Plan, Reason, Rollout, Said
from machine.componentset.status import only_counts, status_after


def a_set() -> MachineComponentSet:
    spec = {"selector": {"matchLabels": {"a": "b"}}, "component": "c-1"}
    return MachineComponentSet.model_validate({"metadata": {"name": "s"}, "spec": spec})


def test_what_is_only_counted_or_worded_may_wait_and_nothing_else() -> None:
    def status(
        rollout: Rollout | None = None, told: Said | None = None, **more: object
    ) -> MachineComponentSetStatus:
        said = (True, told or Said(RolloutPhase.UPDATING))
        plan = replace(Plan(progressing=said), **more)  # type: ignore[arg-type]
        return status_after(a_set(), rollout or Rollout(), plan, [], [], T0)

    before = status()
    assert only_counts(before, status(counts=Counts(machines=9, updated=3)))
    assert only_counts(before, status(told=Said(Reason.WAITING_FOR_PERMIT, "m1: Rate")))
    assert not only_counts(before, status(Rollout(batch=Batch(index=2))))
    assert not only_counts(before, status(degraded=Said(Reason.MACHINES_FAILED, "m1")))
    one, two = (status(paused=Said(Reason.AUTO_PAUSED, why)) for why in ("m1", "m2"))
    assert not only_counts(one, two)
