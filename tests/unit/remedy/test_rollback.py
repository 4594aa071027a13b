"""Step rollbackComponent: over every combination of what it remembers and sees; what is written."""

from collections.abc import Iterator
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from support.clock import T0, FakeClock
from support.defender_world import MemoryApi
from support.remedy_builders import FAULTY, JOB, PERMIT, a_job, granted, seen

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from kubenode.runtime.components.rollback import PREFIX, Rollback, rollback_in
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeObservation
from remedy.job.step import step
from remedy.job.steps.rollback import RollbackAct
from remedy.machines import MACHINES
from remedy.power.observation import RequestOutcome
from remedy.rollback.access import SETS, Rollbacks, far
from remedy.rollback.observation import Back, RollbackObservation
from rules.truth import Truth

A, B, C = "1-000000000a", "1-000000000b", "1-000000000c"
LATE = timedelta(minutes=11)
FARS = [RollbackObservation(state, "m1", B, A, "so it is") for state in Back]
WORLDS: tuple[dict[str, Any], ...] = (
    {},
    {"permit": None},
    {"fault": FAULTY.__class__(Truth.UNKNOWN, Truth.FALSE, True)},
    {"fault": FAULTY.__class__(Truth.TRUE, Truth.TRUE, True)},
    {"fresh": False},
)


def a_case(asked: bool = False, told: str = "", class_: str = "Host") -> Job:
    record: dict[str, Any] = {
        "rung": 0,
        "index": 0,
        "name": "rollbackComponent",
        "state": "Running",
        "attempts": 1,
        "startedAt": T0.isoformat(),
        "expiresAt": (T0 + timedelta(minutes=10)).isoformat(),
    }
    if asked:
        output = {"asked": "rollback", "of": "m1", "from": B, "to": A}
        record |= {
            "by": "Provider",
            "requestID": "r0s0a1",
            "askedAt": T0.isoformat(),
            "output": output | ({"heard": told} if told else {}),
        }
    rung = {"name": "r", "steps": [{"rollbackComponent": {"component": "kubelet"}}]}
    status = {"phase": "Running", "steps": [record], "permit": PERMIT | {"class": class_}}
    return a_job(rung, status=status)


def every_case() -> Iterator[tuple[Job, JobObservation]]:
    for asked, far_, at in product((False, True), (*FARS, None), (timedelta(0), LATE)):
        for told in ("", "taken", "unclear") if asked else ("",):
            outcomes = [
                JobActResult(RollbackAct.ROLL_BACK, outcome=o, error=f"api: {o}")
                for o in RequestOutcome
            ]
            for heard in (None, *(outcomes if asked and not told else ())):
                for world in WORLDS:
                    given = {"permit": granted(life=timedelta(hours=2)), **world}
                    look = seen(
                        now=T0 + at,
                        node=NodeObservation(),
                        rollback=far_,
                        act_result=heard,
                        **given,
                    )
                    yield a_case(asked, told), look


def state_of(job: Job) -> StepState:
    return next(r.state for r in job.status.steps if r.index == 0)


def test_every_case_keeps_the_promises() -> None:
    for job, look in every_case():
        after, act = step(job, look)
        there, record = look.step, job.record
        assert there is None or isinstance(there, RollbackObservation)
        assert record is not None
        if state_of(after) is StepState.DONE:
            assert there is not None and there.state is Back.DONE and record.asked_at is not None
        if there is not None and there.state is Back.FAILED and act is JobAct.NONE:
            assert state_of(after) in (StepState.FAILED, StepState.RUNNING)
        if act is RollbackAct.ROLL_BACK:
            assert record.asked_at is not None, "written down before it is asked for"
            assert look.permit is not None and look.fresh
            assert look.fault.guards is not Truth.TRUE
        assert act in (
            JobAct.NONE,
            RollbackAct.ROLL_BACK,
            JobAct.RENEW_PERMIT,
            JobAct.RELEASE_PERMIT,
        )


def test_it_is_written_down_then_asked_for_then_awaited() -> None:
    ready = RollbackObservation(Back.READY, "m1", B, A)
    look = seen(node=NodeObservation(), rollback=ready, permit=granted(life=timedelta(hours=2)))
    job, act = step(a_case(), look)
    assert act is JobAct.NONE and job.record is not None
    assert job.record.output == {"asked": "rollback", "of": "m1", "from": B, "to": A}
    job, act = step(job, look)
    assert act is RollbackAct.ROLL_BACK


def test_nothing_to_go_back_to_fails_with_the_sentence() -> None:
    nothing = RollbackObservation(Back.FAILED, "m1", why="set s has no revision before it")
    after, act = step(a_case(), seen(node=NodeObservation(), rollback=nothing, permit=granted()))
    assert act is JobAct.NONE and state_of(after) is StepState.FAILED
    assert "no revision before" in after.status.steps[0].message


# -- what the objects say --------------------------------------------------------------------


def a_machine(revision: str = B, wish: Rollback | None = None, **status: Any) -> Machine:
    entry = {"name": "kubelet", "component": "k-1", "set": "s", "revision": revision}
    said = {"name": "kubelet", "revision": revision, "attempt": 1, "state": "Healthy"}
    told = {"configHash": revision} | status
    marks = {PREFIX + "kubelet": wish.text} if wish is not None else {}
    return Machine.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "Machine",
            "metadata": {"name": "m1", "uid": "uid-m1", "annotations": marks},
            "spec": {
                "addresses": ["10.0.0.1"],
                "nodeName": "n1",
                "mode": "Manage",
                "components": [entry | {"configHash": revision}],
            },
            "status": {
                "nodeRef": {"name": "n1", "uid": "uid-n1"},
                "components": [said | told],
            },
        }
    )


def a_set(current: str = A, update: str = B, rejected: str = "", made: str = "") -> Any:
    names = [A, B, C] if not made else [made]
    revisions = [
        {"name": n, "number": i, "component": "k-1", "createdAt": T0.isoformat()}
        for i, n in enumerate(names, 1)
    ]
    return MachineComponentSet.model_validate(
        {
            "apiVersion": "kubenode.io/v1alpha1",
            "kind": "MachineComponentSet",
            "metadata": {"name": "s", "uid": "uid-s"},
            "spec": {"selector": {"matchLabels": {"pool": "a"}}, "component": "k-1"},
            "status": {
                "currentRevision": current,
                "updateRevision": update,
                "rejectedRevision": rejected,
                "revisions": revisions,
            },
        }
    )


def wish(job: str = JOB, up_to: str = "Restart") -> Rollback:
    return Rollback(job=job, permit="p", up_to=up_to, from_=B, to=A)


def test_wish_is_read_as_it_was_written_and_what_is_none_is_none() -> None:
    assert rollback_in({PREFIX + "kubelet": wish().text}, "kubelet") == wish()
    assert rollback_in({}, "kubelet") is None
    assert rollback_in({PREFIX + "kubelet": "{"}, "kubelet") is None


@pytest.mark.parametrize(
    ("at", "set_", "to"),
    [
        (B, a_set(), A),
        (B, a_set(current=B), A),
        (C, a_set(current=A, update=C), A),
        (C, a_set(current=C, update=C), B),
        (C, a_set(current=C, update=C, rejected=B), A),
        (B, a_set(current=C, update=B), C),
    ],
)
def test_it_goes_back_to_the_revision_before(at: str, set_: Any, to: str) -> None:
    found = far(a_case(), a_machine(at), set_)
    assert (found.state, found.from_, found.to) == (Back.READY, at, to)


@pytest.mark.parametrize(
    ("machine", "set_", "why"),
    [
        (a_machine(B), None, "no MachineComponentSet gives"),
        (a_machine(A), a_set(current=A, update=A), "nothing to go back to"),
        (a_machine(B), a_set(current="", made=B), "nothing to go back to"),
        (a_machine(A, wish("another")), a_set(current=B), "taken back from"),
        (a_machine(A, wish(), state="Failed", reason="Crashed"), a_set(), "Crashed"),
        (a_machine(A, wish(), state="Staged", needs="Drain"), a_set(), "put migrate before it"),
    ],
)
def test_why_it_cannot_go_back(machine: Machine, set_: Any, why: str) -> None:
    found = far(a_case(), machine, set_)
    assert found.state is Back.FAILED and why in found.why


def test_it_is_done_when_its_agent_says_so_of_this_revision() -> None:
    assert far(a_case(), a_machine(B, wish()), a_set()).state is Back.GOING
    assert far(a_case(), a_machine(A, wish(), attempt=2), a_set()).state is Back.GOING
    assert far(a_case(), a_machine(A, wish(), state="Applying"), a_set()).state is Back.GOING
    assert far(a_case(), a_machine(A, wish()), a_set()).state is Back.DONE


class Api(MemoryApi):
    """Whose writes reach annotations."""

    def _write(self, method: str, path: str, body: Any) -> Any:
        old = super()._write(method, path, body)
        old["metadata"]["annotations"] = body["metadata"]["annotations"]
        return old


async def test_the_wish_is_written_at_the_machine_of_the_node() -> None:
    api = Api(FakeClock())
    api.readable |= {MACHINES, SETS}
    job = a_case(asked=True)
    rollbacks = Rollbacks(api)
    assert "no Machine of kubenode.io" in (await rollbacks.observe(job, None)).why
    body = a_machine().model_dump(mode="json", by_alias=True, exclude_none=True)
    body["status"]["nodeRef"]["uid"] = job.spec.node_uid
    body["spec"]["nodeName"] = job.spec.node_name
    api.put(MACHINES, body)
    api.put(SETS, a_set().model_dump(mode="json", by_alias=True, exclude_none=True))
    assert (await rollbacks.observe(job, None)).state is Back.READY
    heard = await rollbacks.act(job, RollbackAct.ROLL_BACK, seen())
    assert heard.outcome is RequestOutcome.TAKEN, heard
    written = api.objects[MACHINES]["m1"]["metadata"]["annotations"]
    said = rollback_in(written, "kubelet")
    assert said is not None
    assert (said.job, said.up_to, said.from_, said.to) == (job.name, "Restart", B, A)
    assert (await rollbacks.observe(job, None)).state is Back.GOING
