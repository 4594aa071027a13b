"""How Machines are given up: hooks, drain, volumes, instance, Node; and what a repair asks for."""

from datetime import timedelta
from typing import Any

from support.machine_double import MACHINE, NODE, Double, a_node, imported, made, running

from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.api.v1alpha1.permit import Operation
from kubenode.providers.instances import ErrorCode, InstanceError
from kubenode.runtime.kube import paths
from machine.disruption.port import UNNEEDED, DisruptionHold, DisruptionState, Prepared
from machine.names import LEASES

REVISION, CONFIG = "1-0000000001", "1-00000000cc"
A_SET = {"apiVersion": "v1", "kind": "MachineSet", "name": "s", "uid": "s", "controller": True}
WAITING = Prepared(
    DisruptionState.WAITING, reason="ConcurrencyLimit", message="full", requeue_after=5.0
)


def stage(double: Double) -> str:
    return double.reason("Deletable")


def annotate(double: Double, **annotations: str | None) -> None:
    marks = {f"kubenode.io/{k.replace('_', '-')}": v for k, v in annotations.items()}
    double.change(MACHINE, metadata={"annotations": marks})


async def test_nothing_is_ended_before_kube_defender_and_the_drain_allow_it() -> None:
    double = await made()
    double.prepared = WAITING
    double.ask_to_delete()
    await double.run(looks=10)
    assert stage(double) == "Draining" and double.cloud.instances
    found = double.there.status.condition("Deletable")
    assert found is not None and "ConcurrencyLimit: full" in found.message
    double.prepared = Prepared(
        DisruptionState.DRAINING, "p-1", reason="Draining", requeue_after=5.0
    )
    await double.run(looks=5)
    assert stage(double) == "Draining" and double.cloud.instances
    double.prepared = Prepared(DisruptionState.READY, "p-1")
    await double.run(looks=10)
    assert double.machine is None and not double.cloud.instances
    assert {w.operation for w in double.wishes} == {Operation.DELETE}
    assert {w.class_ for w in double.wishes} == {ChangeClass.REBOOT}
    assert double.wishes[-1].begun and not double.wishes[0].begun


async def test_the_lease_of_its_agent_goes_with_it_and_not_before() -> None:
    double = await made()
    lease = paths.lease(LEASES, "m")
    double.put(lease, {"metadata": {"name": "m"}})
    annotate(double, pre_terminate_disks="y")
    double.ask_to_delete()
    await double.run(looks=10)
    assert double.machine is not None and lease in double.objects
    annotate(double, pre_terminate_disks=None)
    await double.run(looks=10)
    assert double.machine is None and lease not in double.objects


async def test_what_its_set_began_goes_on_under_the_same_operation() -> None:
    double = await made()
    annotate(double, leaving="ScaleIn")
    double.ask_to_delete()
    await double.run(looks=10)
    assert {w.operation for w in double.wishes} == {Operation.SCALE_IN}
    assert {w.holder.kind for w in double.wishes} == {"Machine"}


async def test_a_drain_that_ran_out_of_its_time_goes_on_and_a_persons_word_does_not() -> None:
    double = await made()
    double.prepared = Prepared(
        DisruptionState.FAILED, reason=DisruptionHold.PERSON_UNCORDONED, message="ann"
    )
    double.ask_to_delete()
    await double.run(looks=4)
    assert stage(double) == "Draining" and double.cloud.instances and not double.marks
    double.prepared = Prepared(
        DisruptionState.FAILED, "p-1", reason=DisruptionHold.DRAIN_TIMEOUT, message="PDB x"
    )
    await double.run(looks=20)
    assert double.machine is None


async def test_a_persons_uncordon_holds_the_instance_while_it_is_to_be_deleted() -> None:
    double = await made()
    annotate(double, pre_terminate_disks="y")
    double.ask_to_delete()
    await double.run(looks=10)
    annotate(double, pre_terminate_disks=None)
    double.prepared = Prepared(
        DisruptionState.FAILED, reason=DisruptionHold.PERSON_UNCORDONED, message="ann"
    )
    await double.run(looks=4)
    assert double.cloud.instances and not double.marks
    double.prepared = Prepared(DisruptionState.READY, "p-1")
    await double.run(looks=20)
    assert double.machine is None and not double.cloud.instances


async def test_volumes_are_waited_for_and_not_for_ever() -> None:
    double = await made()
    double.volumes = 2
    double.ask_to_delete()
    controller = double.controller()
    await double.run(controller, looks=5)
    assert stage(double) == "Detaching" and double.cloud.instances
    double.clock.step(timedelta(minutes=6))
    await double.run(controller, looks=10)
    assert double.machine is None


async def test_hooks_hold_it_before_the_drain_and_before_the_end() -> None:
    double = await made()
    annotate(double, pre_drain_backup="x", pre_terminate_disks="y")
    double.ask_to_delete()
    await double.run(looks=4)
    assert stage(double) == "HookPending" and not double.wishes
    annotate(double, pre_drain_backup=None)
    await double.run(looks=6)
    assert stage(double) == "TerminationHookPending"
    assert double.wishes and double.cloud.instances
    annotate(double, pre_terminate_disks=None)
    await double.run(looks=10)
    assert double.machine is None and not double.cloud.instances


async def test_a_machine_that_is_only_observed_keeps_its_instance() -> None:
    double = await made()
    double.change(MACHINE, spec={"mode": "Observe"})
    double.ask_to_delete()
    await double.run(looks=10)
    assert double.machine is not None and double.cloud.instances and not double.wishes
    double.change(MACHINE, spec={"mode": "Manage"})
    await double.run(looks=20)
    assert double.machine is None and not double.cloud.instances


async def test_an_imported_host_is_released_without_a_drain_and_keeps_its_node() -> None:
    double = await running(nodeTemplate={"labels": {"pool": "a"}})
    double.ask_to_delete()
    await double.run()
    assert double.machine is None and not double.wishes
    node = double.objects[NODE]["metadata"]
    assert not node["labels"] and not node["annotations"]


async def test_uninstall_drains_and_takes_components_off_before_it_lets_go() -> None:
    double = await running(deletion={"imported": "Uninstall"})
    component = {"name": "runc", "component": "runc-1", "revision": REVISION, "configHash": CONFIG}
    double.change(MACHINE, spec={"components": [component]})
    double.ask_to_delete()
    await double.run(looks=4)
    spec = double.objects[MACHINE]["spec"]
    assert spec["components"][0]["desiredState"] == "Absent"
    assert spec["components"][0]["attempt"] == 2
    assert spec["permit"]["components"] == ["runc"] and spec["permit"]["name"] == "p-1"
    assert double.wishes[0].class_ is ChangeClass.DRAIN
    report: dict[str, Any] = {"name": "runc", "revision": REVISION, "state": "Absent"}
    double.change(MACHINE, status={"components": [{**report, "attempt": 1}]})
    await double.run(looks=4)
    assert stage(double) == "Uninstalling", "the report is of the attempt before"
    double.change(MACHINE, status={"components": [{**report, "attempt": 2}]})
    await double.run(looks=4)
    assert double.machine is None and NODE in double.objects and not double.marks


async def test_a_host_outside_kubernetes_needs_no_permit_to_be_uninstalled() -> None:
    double = Double()
    double.put(MACHINE, imported(node="None", deletion={"imported": "Uninstall"}))
    double.says(AgentReady="True")
    await double.run()
    component = {"name": "runc", "component": "runc-1", "revision": REVISION, "configHash": CONFIG}
    double.change(MACHINE, spec={"components": [component]})
    double.prepared = Prepared(DisruptionState.READY, UNNEEDED)
    double.ask_to_delete()
    await double.run(looks=4)
    assert {w.node for w in double.wishes} == {None}
    assert double.objects[MACHINE]["spec"]["permit"]["name"] == UNNEEDED


async def test_no_instance_is_deleted_when_the_permit_is_not_held_at_that_moment() -> None:
    double = await made()
    double.permit = "Released"
    double.ask_to_delete()
    await double.run(looks=20)
    assert stage(double) == "Terminating" and double.cloud.instances
    found = double.there.status.condition("Deletable")
    assert found is not None and "permit p-1 is not held any more" in found.message
    double.permit = "Granted"
    await double.run(looks=20)
    assert double.machine is None and not double.cloud.instances


async def test_no_instance_is_deleted_when_a_node_came_that_nobody_counted() -> None:
    double = await made()
    node = double.objects.pop(NODE)
    double.prepared = Prepared(DisruptionState.READY, UNNEEDED)
    double.ask_to_delete()
    controller = double.controller()
    controller.ground.nodes.get = lambda key: None  # type: ignore[method-assign]
    double.objects[NODE] = node
    await double.run(controller, looks=20)
    assert double.cloud.instances and stage(double) == "Terminating"
    del double.objects[NODE]
    await double.run(controller, looks=20)
    assert double.machine is None and not double.cloud.instances


async def test_a_node_that_stands_for_another_instance_by_now_is_not_deleted() -> None:
    double = await made()
    del double.objects[NODE]
    double.put(NODE, a_node(uid="n-9"))
    double.ask_to_delete()
    await double.run(looks=20)
    assert double.machine is None and NODE in double.objects


# -- operations of repairs ------------------------------------------------------------------------


def ask(double: Double, type_: str, id_: str = "rj-1") -> None:
    wanted = {"id": id_, "type": type_, "permit": "p-81"}
    double.change(MACHINE, spec={"operation": wanted})


async def test_an_operation_is_asked_for_once_and_answered() -> None:
    double = await made()
    ask(double, "Redeploy")
    await double.run(looks=6)
    last = double.there.status.last_operation
    assert last is not None and (last.id, last.state, last.code) == ("rj-1", "Succeeded", "OK")
    assert double.cloud.operated == [("fake:///u-m-1", "Redeploy", "rj-1")]
    ask(double, "Redeploy", "rj-2")
    await double.run(looks=6)
    assert len(double.cloud.operated) == 2


async def test_an_operation_that_the_provider_has_not_fails_with_its_code() -> None:
    double = await made()
    ask(double, "Reimage")
    await double.run(looks=4)
    last = double.there.status.last_operation
    assert last is not None and (last.state, last.code) == ("Failed", "UNIMPLEMENTED")


async def test_a_provider_that_is_busy_is_asked_again_under_the_same_id() -> None:
    double = await made()
    ask(double, "Redeploy")
    double.cloud.failing = InstanceError("fake", ErrorCode.UNAVAILABLE, "later")
    controller = double.controller()
    await double.run(controller, looks=4)
    last = double.there.status.last_operation
    assert last is not None and (last.state, last.code) == ("Running", "UNAVAILABLE")
    double.cloud.failing = None
    await double.run(controller, looks=8)
    assert [request for *_, request in double.cloud.operated] == ["rj-1"]
    last = double.there.status.last_operation
    assert last is not None and last.state == "Succeeded"


async def test_what_is_imported_or_nobodys_is_not_replaced() -> None:
    for double in (await running(), await made()):
        ask(double, "Replace")
        await double.run(looks=4)
        last = double.there.status.last_operation
        assert last is not None
        assert (last.state, last.code) == ("Failed", "FAILED_PRECONDITION")
        assert double.there.metadata.deletion_timestamp is None


async def test_replace_gives_it_up_under_the_jobs_permit_without_one_of_its_own() -> None:
    double = await made()
    double.change(MACHINE, metadata={"ownerReferences": [A_SET]})
    ask(double, "Replace")
    await double.run(looks=20)
    assert double.machine is None and not double.cloud.instances
    assert not double.wishes, "the job holds the node: we would be refused"


async def test_invariant_02_the_finalizer_is_on_before_anybody_may_make_something() -> None:
    """A component set begins with a Machine that is Initializing."""
    double = Double()
    double.put(MACHINE, imported(node="None"))
    double.says(AgentReady="True")
    real, phases = double.patch, []

    async def patch(path: str, body: Any, *more: Any, decode: Any = None) -> Any:
        if "phase" in body.get("status", {}):
            on = bool(double.objects[MACHINE]["metadata"].get("finalizers"))
            phases.append((body["status"]["phase"], on))
        return await real(path, body, *more, decode=decode)

    double.patch = patch  # type: ignore[method-assign]
    await double.run()
    assert phases == [("Importing", False), ("Initializing", True), ("Running", True)]


async def test_no_operation_is_asked_for_when_the_permit_of_its_job_is_not_held() -> None:
    double = await made()
    double.permit = ""
    ask(double, "Redeploy")
    await double.run(looks=10)
    assert not double.cloud.operated
    double.permit = "Granted"
    await double.run(looks=10)
    assert [one[1:] for one in double.cloud.operated] == [("Redeploy", "rj-1")]


async def test_no_machine_is_given_up_for_a_job_whose_permit_is_not_held() -> None:
    double = await made()
    double.change(MACHINE, metadata={"ownerReferences": [A_SET]})
    double.permit = "Revoked"
    ask(double, "Replace")
    await double.run(looks=10)
    assert double.machine is not None and double.machine.metadata.deletion_timestamp is None
    double.permit = "Granted"
    await double.run(looks=30)
    assert double.machine is None
