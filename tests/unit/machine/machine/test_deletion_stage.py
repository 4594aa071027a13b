"""The time of a deletion stage, as recorded now and as older versions stored it."""

from datetime import datetime, timedelta

from support.machine_double import MACHINE, Double, made

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1.machinestatus import MachineConditionType

HOOK = "kubenode.io/pre-drain-backup"


async def _detaching(double: Double, waited_for_a_hook: timedelta) -> datetime:
    """Delete the Machine, hold it by a hook, then let it wait for volumes; return since when."""
    double.volumes = 2
    double.change(MACHINE, metadata={"annotations": {HOOK: "x"}})
    double.ask_to_delete()
    await double.run(looks=4)
    assert double.reason("Deletable") == "HookPending"
    double.clock.step(waited_for_a_hook)
    double.change(MACHINE, metadata={"annotations": {HOOK: None}})
    await double.run(looks=5)
    assert double.reason("Deletable") == "Detaching"
    since = double.there.status.deletion_stage_since
    assert since is not None
    return since


def _condition_since(double: Double) -> datetime:
    condition = double.there.status.condition(MachineConditionType.DELETABLE)
    assert condition is not None
    return condition.last_transition_time


async def test_stage_is_timed_apart_from_the_transition_of_deletable() -> None:
    double = await made()
    since = await _detaching(double, timedelta(minutes=20))
    assert since - _condition_since(double) >= timedelta(minutes=20)
    double.clock.step(timedelta(minutes=4))
    await double.run(looks=5)
    assert double.reason("Deletable") == "Detaching", "its volumes have five minutes"
    double.clock.step(timedelta(minutes=2))
    await double.run(looks=10)
    assert double.machine is None


async def test_stage_that_an_older_version_entered_keeps_its_time() -> None:
    double = await made()
    since = await _detaching(double, timedelta(minutes=20))
    conditions = [condition.to_dict() for condition in double.there.status.conditions]
    for condition in conditions:
        if condition["type"] == MachineConditionType.DELETABLE:
            condition["lastTransitionTime"] = format_time(since)
    older = {"deletionStageSince": None, "conditions": conditions}
    double.change(MACHINE, status=older)
    double.clock.step(timedelta(minutes=4))
    await double.run(looks=5)
    assert double.reason("Deletable") == "Detaching"
    double.clock.step(timedelta(minutes=2))
    await double.run(looks=10)
    assert double.machine is None
