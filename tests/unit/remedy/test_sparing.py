"""A rung that has healed the node does no more to it, unless something that it did needs more.

Every kind of step and every act of an agent is here by name, as done before, as next, or as still
to come: which are complete in themselves is written down once more in COMPLETE, by hand.
"""

from dataclasses import replace
from datetime import timedelta
from itertools import count
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import (
    FAULTY,
    HEALED,
    JOB,
    PERMIT,
    a_job,
    a_record,
    an_object,
    running,
    seen,
)
from support.remedy_world import FakeWorld, closed

from kubenode.api.v1alpha1 import Disruption, JobPhase, Step
from kubenode.api.v1alpha1.ladder import AgentAction
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from remedy.job.early_end import SPARED, WHOLE_ACTIONS
from remedy.job.marks import MARKS
from remedy.job.model import FaultAssessment, Job, JobAct, NodeObservation
from remedy.job.moves import SETTLES
from remedy.job.step import step
from remedy.job.steps.table import SUPPORTED
from rules.truth import Truth

NODE = NodeObservation(unschedulable=True, cordoned_by=JOB, boot_id="boot-1", annotations=MARKS)
GONE = FaultAssessment(Truth.FALSE, Truth.FALSE, agreed=True, gone=Truth.TRUE)

NEEDED: dict[str, dict[str, Any]] = {
    "label": {"key": "a/b"},
    "annotate": {"key": "a/b"},
    "wait": {"for": "1s"},
    "rollbackComponent": {"component": "containerd"},
    "waitForEvent": {"until": ["Completed"]},
    "webhook": {"receiver": "r"},
    "createObject": {"template": "t"},
}


def an_act(action: AgentAction) -> dict[str, Any]:
    given: dict[str, Any] = {"action": str(action)}
    if action.endswith("Unit"):
        given["unit"] = "a.service"
    if action is AgentAction.RUN_CHECK:
        given["check"] = "c"
    if action is AgentAction.RUN_SCRIPT:
        given["script"] = "s"
    return {"agent": given}


KINDS: dict[str, dict[str, Any]] = {
    name: {name: NEEDED.get(name, {})} for name in sorted(SUPPORTED - {"agent"})
} | {str(action): an_act(action) for action in AgentAction}
RESTART = KINDS["RestartUnit"]
COMPLETE = {
    *("collect", "notify", "label", "annotate", "wait", "waitForApproval", "uncordon"),
    *("cordon", "migrate", "reboot", "powerCycle", "powerOn"),
    *("RunCheck", "RestartUnit", "StartUnit", "ReloadUnit", "RestartNetwork"),
}
OF_OTHERS = {"waitForEvent", "approveEvent", "webhook", "createObject"}
ONLY_LOOK = COMPLETE - {"cordon", "migrate", "reboot", "powerCycle", "powerOn"} - WHOLE_ACTIONS | {
    "RunCheck"
}


def of(kind: dict[str, Any]) -> Step:
    return Step.model_validate(kind)


def disrupts(kind: str) -> bool:
    return of(KINDS[kind]).disruption is not Disruption.NONE


def a_rung(
    *steps: dict[str, Any], states: tuple[str, ...] = (), verify: dict[str, Any] | None = None
) -> Job:
    """At the first step that has no state; the others are over."""
    records = []
    for index, (kind, state) in enumerate(zip(steps, states, strict=False)):
        record = a_record(index, next(iter(kind)), state)
        if of(kind).irreversible:
            record |= {"by": "Agent", "requestID": f"r0s{index}a1", "askedAt": T0.isoformat()}
        records.append(record)
    rung: dict[str, Any] = {"name": "r", "steps": list(steps), "disruption": "Node"}
    if verify is not None:
        rung["verify"] = verify
    status = running(len(states), *records, permit=PERMIT | {"class": "Node"})
    return replace(a_job(rung, status=status), finalizer=True)


def is_spared(job: Job, **changes: Any) -> bool:
    """Whether the next step is skipped, after which the rung goes on."""
    index = job.status.step
    after, act = step(job, seen(**{"node": NODE, "fault": GONE, **changes}))
    record = next((r for r in after.status.steps if r.index == index), None)
    if record is None or record.state is not StepState.SKIPPED:
        return False
    assert act is JobAct.NONE and record.message == SPARED
    assert after.phase is JobPhase.RUNNING and after.status.step == index + 1
    return True


@pytest.mark.parametrize("kind", KINDS)
def test_what_was_done_decides_whether_the_next_act_is_spared(kind: str) -> None:
    """Beside a restart, so that something was done that cannot be undone."""
    next_ = KINDS["reboot"]
    for steps in ((KINDS[kind], RESTART), (RESTART, KINDS[kind])):
        job = a_rung(*steps, next_, states=("Done", "Done"))
        assert is_spared(job) is (kind in COMPLETE)


@pytest.mark.parametrize("kind", KINDS)
def test_what_disrupts_is_spared_whatever_it_is_and_what_does_not_goes_on(kind: str) -> None:
    job = a_rung(RESTART, KINDS[kind], states=("Done",))
    assert is_spared(job) is disrupts(kind)


@pytest.mark.parametrize("kind", KINDS)
def test_what_is_still_to_come_hinders_only_if_others_do_it(kind: str) -> None:
    job = a_rung(RESTART, KINDS["reboot"], KINDS[kind], states=("Done",))
    assert is_spared(job) is (kind not in OF_OTHERS)


@pytest.mark.parametrize("kind", KINDS)
def test_what_failed_may_have_left_anything_unless_it_only_looks(kind: str) -> None:
    job = a_rung(RESTART, KINDS[kind], KINDS["reboot"], states=("Done", "Failed"))
    assert is_spared(job) is (kind in ONLY_LOOK)


@pytest.mark.parametrize("kind", KINDS)
def test_what_an_earlier_round_of_the_rung_did_counts_too(kind: str) -> None:
    job = a_rung(RESTART, KINDS["reboot"], KINDS[kind], states=("Done",))
    waits = a_record(2, next(iter(KINDS[kind])), "Waiting")
    old = type(job.status).model_validate(job.status.to_dict() | {"steps": [waits]}).steps
    job = job.having(steps=[*job.status.steps, *old])
    assert is_spared(job) is (kind in COMPLETE - OF_OTHERS)


@pytest.mark.parametrize("gone", Truth)
@pytest.mark.parametrize("evidence", Truth)
def test_only_a_fault_that_is_proven_gone_by_fresh_reports_spares_anything(
    gone: Truth, evidence: Truth
) -> None:
    job = a_rung(RESTART, KINDS["reboot"], states=("Done",))
    fault = replace(FAULTY, evidence=evidence, gone=gone)
    assert is_spared(job, fault=fault) is (gone is Truth.TRUE)
    assert not is_spared(job, fault=fault, fresh=False)


def test_a_rung_with_checks_of_its_own_is_not_proven_by_reports_alone() -> None:
    verify = {"for": "1m", "timeout": "5m", "checks": [KINDS["RunCheck"]]}
    assert not is_spared(a_rung(RESTART, KINDS["reboot"], states=("Done",), verify=verify))


def test_a_rung_that_has_done_nothing_yet_is_ended_as_before() -> None:
    job = a_rung(KINDS["cordon"], KINDS["reboot"], states=("Done",))
    job = job.having(evidence_false_since=T0 - SETTLES)
    after, _ = step(job, seen(node=NODE, fault=HEALED))
    assert after.close_reason == "FaultGone"


@pytest.mark.parametrize("kind", [kind for kind in KINDS if disrupts(kind)])
def test_once_one_step_was_skipped_none_that_disrupts_follows_in_this_rung(kind: str) -> None:
    """A drain must not follow whose cordon was left out, though the fault is there again."""
    job = a_rung(RESTART, KINDS["cordon"], KINDS[kind], states=("Done", "Skipped"))
    assert is_spared(job, fault=FAULTY)
    after, _ = step(job.having(step=3), seen(node=NODE, fault=FAULTY))
    assert after.phase is JobPhase.VERIFYING


@pytest.mark.parametrize("kind", [kind for kind in KINDS if disrupts(kind)])
def test_nothing_that_was_asked_of_anybody_is_abandoned(kind: str) -> None:
    """A step under way is left out only while it has done nothing at all."""
    job = a_rung(RESTART, KINDS[kind], states=("Done",))
    name = next(iter(KINDS[kind]))

    def under_way(**changes: Any) -> Job:
        record = a_record(1, name, **changes)
        read = type(job.status).model_validate(job.status.to_dict() | {"steps": [record]}).steps
        return job.having(steps=[*job.status.steps, *read])

    asked = {"by": "Agent", "requestID": "r0s1a1", "askedAt": T0.isoformat(), "bootID": "boot-1"}
    assert not is_spared(under_way(**asked))
    assert not is_spared(under_way(output={"Agent": "refused"}))
    asks_later = kind not in ("cordon", "migrate", "fence")
    assert is_spared(under_way()) is asks_later


# -- dying between two steps -----------------------------------------------------------------------

BOTH: dict[str, Any] = {
    "name": "restart-with-runtime",
    "steps": [
        {"agent": {"action": "RestartUnit", "unit": "containerd.service"}},
        {"agent": {"action": "RestartUnit", "unit": "kubelet.service"}},
    ],
    "verify": {"for": "1m", "timeout": "5m"},
}


class Reporting(FakeWorld):
    """A node that reports half a minute after what was done to it; who dies is away for longer."""

    died = False

    async def fault(self, job: Job) -> FaultAssessment:
        known = await super().fault(job)
        return known if self.reported else replace(known, evidence=Truth.TRUE, gone=Truth.FALSE)

    @property
    def reported(self) -> bool:
        return self.report_at is not None and self.clock.now() >= self.report_at

    def others(self) -> None:
        before = len(self.restarts)
        record = self.job.record
        if self.job.awaits_agent and self.reported and not self.faulty:
            asked = record.asked_at if record is not None else None
            healthy = asked is not None and self.report_at is not None and asked >= self.report_at
            assert not healthy, "an act on a node that is known to be well"
        super().others()
        if len(self.restarts) > before:
            self.report_at = self.clock.now() + timedelta(seconds=30)
        if 0 < self.die_at <= len(self.writes) and not self.died:
            self.died = True
            self.clock.step(timedelta(minutes=1))


@pytest.mark.parametrize("applied", [False, True])
@pytest.mark.parametrize("needs", [1, 2])
async def test_whoever_dies_between_two_steps_does_not_do_the_second_on_a_healed_node(
    needs: int, applied: bool
) -> None:
    spared = 0
    for die_at in count(1):
        world = Reporting(an_object(BOTH), die_at=die_at, applied=applied, needs=needs)
        await world.run(closed)
        assert world.obj.status.phase is JobPhase.SUCCEEDED, world.writes
        assert needs <= len(world.restarts) <= 2
        assert not world.unschedulable and world.permits == {}
        spared += len(world.restarts) < 2
        if len(world.writes) < die_at:
            break
    assert (spared > 0) is (needs == 1), "it happens, and only where the first step healed"
