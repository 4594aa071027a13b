"""What a Machine says of itself, and what is done, as time passes and things go wrong."""

from datetime import timedelta

import pytest
from support.machine_double import (
    MACHINE,
    NODE,
    Double,
    a_class,
    a_node,
    imported,
    made,
    provisioned,
    running,
)

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machine import REISSUE
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.providers.instances import ErrorCode, InstanceError, InstanceState
from machine.bootstrap.agentready import Lifesign
from machine.bootstrap.controller import need_of
from machine.bootstrap.step import Need

MINUTE = timedelta(minutes=1)
REVISION, NEXT = "1-0000000001", "1-0000000002"
CONFIG = "1-00000000cc"


def ready(double: Double, status: str) -> None:
    double.change(NODE, status={"conditions": [{"type": "Ready", "status": status}]})


def assign(double: Double, revision: str, attempt: int = 1) -> None:
    component = {
        "name": "runc",
        "component": "runc-1",
        "revision": revision,
        "configHash": CONFIG,
        "attempt": attempt,
    }
    double.change(MACHINE, spec={"components": [component]})


def report(double: Double, revision: str, state: str = "Healthy", **more: object) -> None:
    said = {"name": "runc", "revision": revision, "attempt": 1, "configHash": CONFIG}
    double.change(MACHINE, status={"components": [{**said, "state": state, **more}]})


# -- the beginning --------------------------------------------------------------------------------


async def too_late() -> Double:
    """An imported host that did not come in time."""
    double = Double()
    double.put(MACHINE, imported())
    controller = double.controller()
    await double.run(controller, looks=19)
    assert double.there.status.phase == "Importing"
    await double.run(controller, looks=3)
    assert double.there.status.phase == "Failed"
    assert double.reason("Healthy") == "StartupTimeout"
    return double


def want_anew(double: Double) -> None:
    double.clock.step(MINUTE)
    double.change(MACHINE, metadata={"annotations": {REISSUE: format_time(double.clock.now())}})


async def test_an_imported_host_that_did_not_come_in_time_has_failed_until_it_comes() -> None:
    double = await too_late()
    await double.run()
    assert double.there.status.phase == "Failed"
    double.says(AgentReady="True")
    double.put(NODE, a_node())
    await double.run()
    assert double.there.status.phase == "Running"


async def test_a_machine_that_joins_gets_its_components_before_its_node() -> None:
    double = Double()
    double.put(MACHINE, imported(node="Join"))
    await double.run()
    assert double.there.status.phase == "Importing"
    double.says(AgentReady="True")
    await double.run()
    assert double.there.status.phase == "Initializing"
    waiting = double.there.status.condition(MachineConditionType.NODE_READY)
    assert waiting is not None and "no component has started a kubelet" in waiting.message
    double.put(NODE, a_node())
    await double.run()
    assert double.there.status.node_ref is not None
    assert double.there.status.phase == "Running"


async def test_an_imported_host_is_waited_for_anew_once_each_time_a_person_wants_it() -> None:
    double = await too_late()
    double.change(MACHINE, metadata={"annotations": {REISSUE: "please"}})
    await double.run()
    assert double.there.status.phase == "Failed", "what is no time would be wanted for ever"
    want_anew(double)
    await double.run(looks=19)
    assert double.there.status.phase == "Importing"
    assert need_of(double.there, joined=False) is Need.WANTED, "its host may have a token"
    await double.run(looks=4)
    assert double.there.status.phase == "Failed", "once"
    want_anew(double)
    await double.run()
    double.says(AgentReady="True")
    double.put(NODE, a_node())
    await double.run()
    assert double.there.status.phase == "Running"


async def test_no_host_is_given_up_while_it_is_not_known_if_its_agent_lives() -> None:
    """The operator was away for longer than the time to start."""
    double = Double(lifesign=Lifesign.UNKNOWN)
    double.put(MACHINE, imported())
    double.put(NODE, a_node())
    await double.run(looks=1)
    double.clock.step(timedelta(hours=2))
    await double.run(looks=2)
    assert double.there.status.phase == "Importing"
    double.lifesign = Lifesign.FRESH
    double.says(AgentReady="True")
    await double.run()
    assert double.there.status.phase == "Running"


async def test_nothing_is_asked_of_a_provider_before_its_token_is_written_and_its_class_known() -> (
    None
):
    double = Double()
    double.put(MACHINE, provisioned())
    await double.run(looks=2)
    assert double.cloud.calls == 0 and double.there.status.phase == "Pending"
    assert "MachineClass small" in (double.there.status.conditions[0].message)
    double.classes["small"] = a_class()
    await double.run()
    assert double.there.status.provisioning is not None
    assert double.there.status.provisioning.client_token == "u-m-1"
    assert double.cloud.made == ["u-m-1"]
    assert "abcdef.secret" in double.cloud.user_data["u-m-1"]
    assert double.there.spec.addresses == ["10.3.0.1"]


@pytest.mark.parametrize(
    "code", [ErrorCode.INVALID_ARGUMENT, ErrorCode.NOT_FOUND, ErrorCode.FAILED_PRECONDITION]
)
async def test_a_final_refusal_fails_the_machine_with_the_providers_words(code: ErrorCode) -> None:
    double = Double()
    double.classes["small"] = a_class()
    double.cloud.refuses = InstanceError("fake", code, "no such image")
    double.put(MACHINE, provisioned())
    await double.run()
    assert double.there.status.phase == "Failed"
    found = double.there.status.condition("InstanceReady")
    assert found is not None and found.reason == "CreateFailed" and "no such image" in found.message


async def test_a_quota_is_waited_for_and_shown() -> None:
    double = Double()
    double.classes["small"] = a_class(createTimeout="2h")
    double.cloud.refuses = InstanceError("fake", ErrorCode.RESOURCE_EXHAUSTED, "no room")
    double.put(MACHINE, provisioned())
    controller = double.controller()
    await double.run(controller, looks=8)
    assert double.reason("InstanceReady") == "QuotaExceeded"
    assert double.cloud.calls <= 4, "asked again after 600 s, not sooner"
    double.cloud.refuses = None
    await double.run(controller, looks=16)
    assert double.there.status.phase == "Provisioned"


async def test_an_instance_that_the_cloud_accepted_and_could_not_make_has_failed() -> None:
    double = Double()
    double.classes["small"] = a_class()
    double.cloud.state = InstanceState.FAILED
    double.put(MACHINE, provisioned())
    await double.run()
    assert double.there.status.phase == "Failed"
    double.ask_to_delete()
    await double.run(looks=20)
    assert double.machine is None and not double.cloud.instances


def a_set(**spec: object) -> MachineComponentSet:
    raw = {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "MachineComponentSet",
        "metadata": {"name": "runc-set"},
        "spec": {"selector": {"matchLabels": {"pool": "a"}}, "component": "runc-1", **spec},
    }
    return MachineComponentSet.model_validate(raw)


async def test_it_is_not_whole_before_every_set_that_selects_it_has_given_its_component() -> None:
    double = Double(sets=[a_set()])
    double.put(MACHINE, imported())
    double.change(MACHINE, metadata={"labels": {"pool": "a"}})
    double.put(NODE, a_node())
    double.says(AgentReady="True")
    await double.run()
    assert double.there.status.phase == "Initializing"
    assert double.reason("ComponentsReady") == "Missing"
    component = {"name": "runc", "component": "runc-1", "revision": REVISION, "configHash": CONFIG}
    given = {**component, "set": "runc-set"}
    double.change(MACHINE, spec={"components": [given]})
    await double.run()
    assert double.reason("ComponentsReady") == "Installing"
    report(double, REVISION)
    await double.run()
    assert double.there.status.phase == "Running"


async def test_components_that_want_one_file_are_named_whatever_else_goes_on() -> None:
    double = await running()
    others = {"component": "c-1", "revision": REVISION, "configHash": CONFIG}
    names = ("cni", "registry", "runc")
    double.change(MACHINE, spec={"components": [{**others, "name": name} for name in names]})
    told = "/etc/x.toml is runc's too: leave it to one of them"
    blocked = {"state": "Blocked", "reason": "FileConflict", "message": told}
    said = [
        {"name": name, "revision": REVISION, "attempt": 1, **more}
        for name, more in (("cni", {"state": "Staging"}), ("registry", blocked))
    ]
    double.change(MACHINE, status={"components": said})
    await double.run()
    found = double.there.status.condition("ComponentsReady")
    assert found is not None and (found.status, found.reason) == ("False", "FileConflict")
    assert found.message == f"registry: {told}"


@pytest.mark.parametrize("spec", [{"frozen": True}, {"selector": {"matchLabels": {"pool": "b"}}}])
async def test_a_set_that_gives_nothing_now_is_not_waited_for(spec: dict[str, object]) -> None:
    double = Double(sets=[a_set(**spec)])
    double.put(MACHINE, imported())
    double.change(MACHINE, metadata={"labels": {"pool": "a"}})
    double.put(NODE, a_node())
    double.says(AgentReady="True")
    await double.run()
    assert double.there.status.phase == "Running"


# -- in service -----------------------------------------------------------------------------------


async def test_f31_the_old_revisions_health_is_no_success_of_the_new_one() -> None:
    double = await running()
    assign(double, REVISION)
    await double.run(looks=2)
    assert double.there.status.phase == "Updating"
    report(double, REVISION)
    await double.run(looks=2)
    assert double.there.status.phase == "Running"
    assign(double, NEXT)
    await double.run(looks=2)
    assert double.there.status.phase == "Updating"
    assert double.reason("UpToDate") == "Updating"
    report(double, NEXT)
    await double.run(looks=2)
    assert (double.there.status.phase, double.reason("UpToDate")) == ("Running", "UpToDate")


async def test_a_revision_that_was_undone_leaves_the_machine_in_service_and_says_so() -> None:
    double = await running()
    assign(double, REVISION)
    report(double, REVISION, "RolledBack", message="service did not start")
    await double.run(looks=2)
    assert double.there.status.phase == "Running"
    found = double.there.status.condition("UpToDate")
    assert found is not None and found.reason == "RolledBack"
    assert "did not start" in found.message


async def test_a_bad_component_degrades_whatever_revision_it_is_of() -> None:
    double = await running()
    assign(double, NEXT)
    report(double, REVISION, "Failed")
    await double.run(looks=2)
    assert double.there.status.phase == "Degraded"
    assert double.reason("Available") == "NotHealthy"


@pytest.mark.parametrize(
    ("agent", "node", "phase"),
    [
        ("True", "False", "Degraded"),
        ("True", "Unknown", "Degraded"),
        ("False", "True", "Degraded"),
        ("False", "Unknown", "Unreachable"),
    ],
)
async def test_degraded_and_unreachable_are_told_apart_and_left_after_min_ready(
    agent: str, node: str, phase: str
) -> None:
    double = await running(minReady="5m")
    double.says(AgentReady=agent)
    ready(double, node)
    await double.run(looks=2)
    assert double.there.status.phase == phase
    double.says(AgentReady="True")
    ready(double, "True")
    await double.run(looks=4)
    assert double.there.status.phase == "Degraded", "not before it was well for minReady"
    await double.run(looks=4)
    assert double.there.status.phase == "Running"
    assert double.reason("Available") == "Available"


async def test_a_node_that_comes_anew_is_the_machines_node_again() -> None:
    double = await running(nodeTemplate={"labels": {"pool": "a"}})
    del double.objects[NODE]
    await double.run(looks=2)
    assert double.there.status.phase == "Degraded"
    double.put(NODE, a_node(uid="n-2"))
    await double.run()
    ref = double.there.status.node_ref
    assert ref is not None and ref.uid == "n-2"
    assert double.objects[NODE]["metadata"]["labels"] == {"pool": "a"}


async def test_a_node_of_another_machine_is_a_conflict_and_left_alone() -> None:
    double = Double()
    double.put(MACHINE, imported(nodeTemplate={"labels": {"pool": "a"}}))
    double.objects[MACHINE[:-1] + "other"] = {"metadata": {"name": "other"}}
    double.put(NODE, a_node(annotations={"kubenode.io/machine": "other"}))
    double.says(AgentReady="True")
    await double.run(looks=2)
    assert double.reason("NodeReady") == "NodeConflict"
    assert double.there.status.phase == "Importing"
    assert "labels" not in double.objects[NODE]["metadata"]


async def test_a_label_that_another_has_set_otherwise_keeps_it_from_running() -> None:
    double = Double()
    double.put(MACHINE, imported(nodeTemplate={"labels": {"pool": "a"}}))
    double.put(NODE, a_node(labels={"pool": "b"}))
    double.says(AgentReady="True")
    await double.run()
    assert double.there.status.phase == "Initializing"
    assert double.reason("NodeSynced") == "LabelConflict"
    double.change(NODE, metadata={"labels": {"pool": None}})
    await double.run()
    assert double.there.status.phase == "Running"


async def test_invariant_12_a_second_writer_of_a_label_ends_in_drift_fight() -> None:
    double = await running(nodeTemplate={"labels": {"pool": "a"}})
    controller = double.controller()
    for _ in range(6):
        double.change(NODE, metadata={"labels": {"pool": "theirs"}})
        await double.run(controller, looks=2)
    assert double.reason("NodeSynced") == "DriftFight"
    assert double.objects[NODE]["metadata"]["labels"]["pool"] == "theirs"
    await double.run(looks=2)
    assert double.objects[NODE]["metadata"]["labels"]["pool"] == "theirs", "after a restart too"
    double.change(MACHINE, metadata={"generation": 2})
    await double.run(looks=3)
    assert double.objects[NODE]["metadata"]["labels"]["pool"] == "a"


async def test_f29_a_taint_written_in_between_is_a_conflict_and_both_survive() -> None:
    taint = {"key": "ours", "effect": "NoSchedule"}
    double = Double()
    double.put(MACHINE, imported(nodeTemplate={"taints": [taint]}))
    double.put(NODE, a_node())
    double.says(AgentReady="True")
    real, stolen = double.patch, False

    async def patch(path: str, body: object, *more: object, decode: object = None) -> object:
        nonlocal stolen
        if path == NODE and not stolen:
            stolen = True
            theirs = {"key": "theirs", "effect": "NoExecute"}
            double.change(NODE, spec={"taints": [theirs]})
        return await real(path, body, *more, decode=decode)

    double.patch = patch  # type: ignore[method-assign]
    await double.run()
    assert stolen
    keys = {t["key"] for t in double.objects[NODE]["spec"]["taints"]}
    assert keys == {"ours", "theirs"}


async def test_an_instance_that_is_gone_fails_its_machine_after_two_looks_a_resync_apart() -> None:
    double = await made()
    double.cloud.instances.clear()
    controller = double.controller()
    await double.run(controller, looks=1)
    assert double.reason("InstanceReady") == "Absent"
    assert double.there.status.phase == "Running"
    double.clock.step(timedelta(seconds=450))
    await double.run(controller, looks=2)
    assert double.reason("InstanceReady") == "InstanceGone"
    assert double.there.status.phase == "Failed"


async def test_invariant_13_while_our_sight_is_in_doubt_no_instance_is_gone_or_deleted() -> None:
    double = await made()
    double.frozen = "the cache is silent"
    kept = dict(double.cloud.instances)
    double.cloud.instances.clear()
    for _ in range(3):
        double.clock.step(timedelta(seconds=450))
        await double.run(looks=1)
    assert double.there.status.phase == "Running"
    double.cloud.instances.update(kept)
    double.ask_to_delete()
    await double.run(looks=30)
    assert double.cloud.instances and double.there.status.phase == "Deleting"
    double.frozen = ""
    await double.run(looks=30)
    assert not double.cloud.instances and double.machine is None


async def test_a_class_that_has_changed_only_marks_its_machines() -> None:
    double = await made()
    double.classes["small"] = a_class().model_copy(
        update={"status": a_class().status.model_copy(update={"class_hash": "1-9999999999"})}
    )
    await double.run(looks=2)
    assert double.reason("UpToDate") == "ClassChanged"
    assert double.there.status.phase == "Running"


async def test_invariant_11_a_look_that_finds_nothing_new_writes_nothing() -> None:
    double = await made(nodeTemplate={"labels": {"pool": "a"}})
    controller = double.controller()
    await double.run(controller, looks=4)
    before = double.version
    double.clock.step(timedelta(hours=3))
    await double.run(controller, looks=4)
    await double.run(looks=4)
    assert double.version == before
