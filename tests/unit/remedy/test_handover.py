"""Steps that hand over: a receiver takes it, an object is made once, seen, and taken back."""

from itertools import count
from typing import Any

import pytest
from support.outside_world import PATH
from support.remedy_builders import a_job, a_record, an_object, running, seen
from support.remedy_world import FakeWorld, closed

from kubenode.api.v1alpha1 import JobPhase
from remedy.handover.access import state_of
from remedy.handover.observation import Handed, HandoverObservation
from remedy.handover.render import JOB_LABEL, UID, render, values
from remedy.handover.settings import ObjectTemplate
from remedy.job.created_objects import HandoverAct
from remedy.job.model import Job, JobAct, JobActResult, NodeObservation
from remedy.job.step import step
from remedy.notify.texts import BadTemplate
from remedy.power.observation import RequestOutcome

CREATE: dict[str, Any] = {"createObject": {"template": "repair", "timeout": "10m"}}
CALL: dict[str, Any] = {"webhook": {"receiver": "remediator", "timeout": "5m"}}


def rung(*steps: dict[str, Any], name: str = "hand-over") -> dict[str, Any]:
    verify = {"for": "1m", "timeout": "5m"}
    return {"name": name, "disruption": "Node", "steps": list(steps), "verify": verify}


def done(world: FakeWorld) -> bool:
    return world.outside.made > 0 and world.obj.status.phase is JobPhase.RUNNING


async def to_the_end(world: FakeWorld) -> None:
    """The other remediator does its work once it has its object; that cures the fault."""
    await world.run(lambda w: done(w) or w.obj.status.phase.closed, 2)
    world.outside.object_state, world.needs = Handed.DONE, 0
    await world.run(closed)


# -- createObject ----------------------------------------------------------------------------------


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
async def test_an_object_is_made_once_and_taken_back_wherever_we_die(applied: bool) -> None:
    for die_at in count(1):
        world = FakeWorld(an_object(rung(CREATE)), die_at=die_at, applied=applied)
        await to_the_end(world)
        assert world.obj.status.phase is JobPhase.SUCCEEDED, world.writes
        assert world.outside.made == 1 and world.outside.object_of == ""
        assert world.permits == {}
        if len(world.writes) < die_at:
            return


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
async def test_a_cancelled_job_takes_its_object_back_wherever_we_die(applied: bool) -> None:
    for die_at in count(1):
        world = FakeWorld(an_object(rung(CREATE)), die_at=die_at, applied=applied)
        await world.run(done, 2)
        spec = world.obj.spec.model_copy(update={"cancel": True})
        world.obj = world.obj.model_copy(update={"spec": spec})
        await world.run(closed)
        assert world.obj.status.phase is JobPhase.CANCELLED
        assert world.outside.object_of == "" and world.permits == {}
        if len(world.writes) < die_at:
            return


async def test_an_object_that_is_to_stay_stays() -> None:
    world = FakeWorld(an_object(rung(CREATE)))
    world.outside.keep = True
    await to_the_end(world)
    assert world.obj.status.phase is JobPhase.SUCCEEDED
    assert world.outside.object_of == world.obj.metadata.uid


@pytest.mark.parametrize("how", ["Failed", "late"])
async def test_what_failed_is_taken_back_before_the_next_rung_acts(how: str) -> None:
    second = rung({"agent": {"action": "RestartUnit", "unit": "a.service"}}, name="restart")
    world = FakeWorld(an_object(rung(CREATE), second))
    await world.run(done, 2)
    if how == "Failed":
        world.outside.object_state = Handed.FAILED
    await world.run(lambda w: bool(w.restarts))
    assert world.outside.object_of == "", "two would repair one node"
    assert "take back" in world.writes


async def test_anothers_object_of_that_name_is_left_alone() -> None:
    world = FakeWorld(an_object(rung(CREATE), onGiveUp="Release"))
    world.outside.object_of = "another"
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.FAILED
    assert "not ours" in world.obj.status.steps[0].message
    assert world.outside.object_of == "another"


async def test_an_object_that_is_gone_says_that_the_work_is_done() -> None:
    world = FakeWorld(an_object(rung(CREATE)))
    await world.run(done, 2)
    world.outside.object_of, world.needs = "", 0
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.SUCCEEDED and world.outside.made == 1


def creating(output: dict[str, str] | None = None, **status: Any) -> Job:
    record = a_record(0, "createObject", output=output or {})
    return a_job(rung(CREATE), status=running(0, record, **status))


def test_an_object_is_written_down_and_guarded_before_it_is_made() -> None:
    there = HandoverObservation(Handed.ABSENT, PATH)
    job = creating()
    assert step(job, seen(handed=there))[1] is JobAct.ADD_FINALIZER
    guarded = Job(**{**_fields(job), "finalizer": True})
    after, act = step(guarded, seen(handed=there))
    assert (
        act is JobAct.NONE and after.record is not None and after.record.output == {"object": PATH}
    )
    assert step(after, seen(handed=there))[1] is HandoverAct.START_HANDOVER


def _fields(job: Job) -> dict[str, Any]:
    return {name: getattr(job, name) for name in job.__slots__}


def test_settings_that_name_no_such_template_fail_the_step_at_once() -> None:
    there = HandoverObservation(Handed.UNKNOWN, why="template repair is not there", final=True)
    after, _ = step(creating(), seen(handed=there))
    assert after.phase is JobPhase.NEEDS_HUMAN and "not there" in after.status.message


def test_without_the_permit_nothing_is_handed_over() -> None:
    job = Job(**{**_fields(creating({"object": PATH})), "finalizer": True})
    _, act = step(job, seen(handed=HandoverObservation(Handed.ABSENT, PATH), permit=None))
    assert act is JobAct.RENEW_PERMIT


# -- webhook ---------------------------------------------------------------------------------------


async def test_a_receiver_that_fails_for_a_while_gets_the_same_id_again() -> None:
    world = FakeWorld(an_object(rung(CALL)), needs=1)
    world.outside.says = [
        (RequestOutcome.LATER, "it answered 503"),
        (RequestOutcome.UNCLEAR, "no answer"),
    ]
    await world.run(lambda w: len(w.outside.posted) == 2, 1)
    assert len(set(world.outside.posted)) == 1
    world.needs = 0
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.SUCCEEDED


@pytest.mark.parametrize("how", [RequestOutcome.REFUSED, RequestOutcome.LATER])
async def test_a_receiver_that_never_takes_it_fails_the_step_and_is_named(
    how: RequestOutcome,
) -> None:
    world = FakeWorld(an_object(rung(CALL), onGiveUp="Release"))
    world.outside.says = [(how, "remediator: it answered 500")] * 1000
    await world.run(closed)
    assert world.obj.status.phase is JobPhase.FAILED
    assert "remediator" in world.obj.status.steps[0].message
    assert "it answered 500" in world.obj.status.steps[0].message


def test_a_receiver_that_is_away_is_not_asked_all_the_time() -> None:
    job = a_job(rung(CALL), status=running(0, a_record(0, "webhook")))
    said = JobActResult(
        HandoverAct.START_HANDOVER, outcome=RequestOutcome.LATER, error="it answered 503"
    )
    held, _ = step(job, seen(act_result=said))
    assert held.status.hold is not None and held.status.hold.reason == "ReceiverUnreachable"
    assert step(held, seen())[1] is JobAct.NONE


# -- what stands in an object ----------------------------------------------------------------------


def a_template(**changes: Any) -> ObjectTemplate:
    given = {
        "apiVersion": "self-node-remediation.medik8s.io/v1alpha1",
        "kind": "SelfNodeRemediation",
        "plural": "selfnoderemediations",
        "namespace": "remedy",
        "name": "{{ node }}",
        "spec": {"remediationStrategy": "Automatic", "retries": 3, "of": ["{{ providerID }}"]},
        "doneWhen": {"condition": {"type": "Succeeded"}},
        "failedWhen": {"condition": {"type": "Succeeded", "status": "False"}},
    }
    return ObjectTemplate.model_validate({**given, **changes})


def known(**node: Any) -> dict[str, Any]:
    return values(creating(), NodeObservation(provider_id="aws:///eu-1a/i-0abc", **node))


def test_an_object_carries_our_mark_and_the_fields_of_the_node() -> None:
    made = render(a_template(), known())
    assert made.path == (
        "/apis/self-node-remediation.medik8s.io/v1alpha1/namespaces/remedy/selfnoderemediations/n1"
    )
    assert made.collection == made.path.removesuffix("/n1")
    assert made.body["spec"] == {
        "remediationStrategy": "Automatic",
        "retries": 3,
        "of": ["aws:///eu-1a/i-0abc"],
    }
    metadata = made.body["metadata"]
    assert metadata["labels"] == {JOB_LABEL: "n1-0123456789"}
    assert metadata["annotations"] == {UID: "uid-of-n1-0123456789"}


def test_a_name_of_its_own_is_the_same_for_the_same_step() -> None:
    template = a_template(name="{{ job }}-{{ rung }}-{{ step }}")
    assert render(template, known()).path.endswith("/n1-0123456789-0-0")


@pytest.mark.parametrize(
    "value", ["x}}\nspec: {evil: true}", "../../secrets/a", "A", "", "x" * 254, "{{ 7 * 7 }}"]
)
def test_nothing_that_a_node_says_can_make_another_object(value: str) -> None:
    with pytest.raises(BadTemplate, match=r"name|control"):
        render(a_template(name="{{ labels['x'] }}"), known(labels={"x": value}))


def test_a_value_stays_one_text_and_is_not_evaluated() -> None:
    template = a_template(spec={"a": "{{ labels['x'] }}"})
    told = render(template, known(labels={"x": "{{ 7 * 7 }}, b: c"})).body["spec"]
    assert told == {"a": "{{ 7 * 7 }}, b: c"}
    with pytest.raises(BadTemplate, match="control"):
        render(template, known(labels={"x": "a\nb"}))


def test_a_template_that_asks_for_what_is_not_there_makes_nothing() -> None:
    with pytest.raises(BadTemplate, match="no-such"):
        render(a_template(spec={"a": "{{ labels['no-such'] }}"}), known())


@pytest.mark.parametrize(
    ("status", "state"),
    [
        ({}, Handed.GOING),
        ({"conditions": "none"}, Handed.GOING),
        ({"conditions": [{"type": "Succeeded", "status": "Unknown"}]}, Handed.GOING),
        ({"conditions": [{"type": "Succeeded", "status": "True"}]}, Handed.DONE),
        ({"conditions": [{"type": "Succeeded", "status": "False"}]}, Handed.FAILED),
    ],
)
def test_how_an_object_stands(status: dict[str, Any], state: Handed) -> None:
    obj = {"metadata": {"annotations": {UID: "uid-1"}}, "status": status}
    assert state_of(obj, "uid-1", a_template()) is state
    assert state_of(obj, "uid-2", a_template()) is Handed.FOREIGN


def test_an_object_can_say_by_its_phase_how_it_stands() -> None:
    template = a_template(doneWhen={"phase": "Waiting"}, failedWhen={"phase": "Failed"})
    for phase, state in (("Waiting", Handed.DONE), ("Failed", Handed.FAILED), ("", Handed.GOING)):
        obj = {"metadata": {"annotations": {UID: "uid-1"}}, "status": {"phase": phase}}
        assert state_of(obj, "uid-1", template) is state
    with pytest.raises(ValueError, match="either condition or phase"):
        a_template(doneWhen={})


def test_an_object_can_belong_to_the_nodes_machine() -> None:
    machine = {
        "apiVersion": "cluster.x-k8s.io/v1beta1",
        "kind": "Machine",
        "plural": "machines",
        "namespace": "metal",
        "name": "{{ annotations['cluster.x-k8s.io/machine'] }}",
    }
    noted = {"cluster.x-k8s.io/machine": "worker-7"}
    made = render(a_template(owner=machine), known(annotations=noted))
    assert made.owner == "/apis/cluster.x-k8s.io/v1beta1/namespaces/metal/machines/worker-7"
    (reference,) = made.body["metadata"]["ownerReferences"]
    assert (reference["kind"], reference["name"]) == ("Machine", "worker-7")
    with pytest.raises(BadTemplate, match=r"machine"):
        render(a_template(owner=machine), known())


def test_nothing_of_ours_can_be_forged_by_a_template() -> None:
    for field in ("labels", "annotations"):
        with pytest.raises(ValueError, match="KubeNode's own"):
            a_template(**{field: {"kubenode.io/job": "x"}})
