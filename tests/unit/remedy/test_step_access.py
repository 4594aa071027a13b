"""What kinds of steps read and do: who is asked, when, and that no act of any kind is left out."""

from enum import StrEnum
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.clock import FakeClock
from support.remedy_builders import a_job, a_record, running, seen
from support.remedy_engine import a_diagnoser

from defender.service import Defender
from kubenode.api.v1alpha1 import Step
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.plain import PlainTransport
from remedy.job.metrics import JobMetrics
from remedy.job.model import Job, JobAct, JobActResult, JobObservation, NodeObservation, StepAct
from remedy.job.power_record import PowerAct
from remedy.job.stepaccess import StepAccess
from remedy.job.steps.rollback import RollbackAct
from remedy.job.steps.table import STEP_ACTS, STEPS
from remedy.operator import RemedyOperator

ROLLBACK: dict[str, Any] = {
    "name": "r",
    "steps": [{"rollbackComponent": {"component": "kubelet"}}, {"wait": {"for": "1s"}}],
}
BEGUN = a_record(0, "rollbackComponent")


class Recorder:
    def __init__(self) -> None:
        self.calls: list[str] = []

    async def observe(self, job: Job, node: NodeObservation | None) -> str:
        self.calls.append("observe")
        return "read"

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        self.calls.append(what)
        return JobActResult(what)


async def test_step_that_runs_is_read_by_its_kind() -> None:
    access = StepAccess(readers={"rollbackComponent": Recorder()})
    assert await access.observe(a_job(ROLLBACK, status=running(0, BEGUN)), None) == "read"


@pytest.mark.parametrize(
    "status",
    [
        running(0),
        running(0, a_record(0, "rollbackComponent", "Done")),
        running(0, BEGUN) | {"phase": "Verifying"},
        running(1, a_record(1, "wait")),
    ],
    ids=["not begun", "done", "another phase", "another kind"],
)
async def test_nothing_is_read_unless_a_step_of_the_kind_runs(
    status: dict[str, Any],
) -> None:
    reader = Recorder()
    job = a_job(ROLLBACK, status=status)
    assert await StepAccess(readers={"rollbackComponent": reader}).observe(job, None) is None
    assert reader.calls == []


async def test_nothing_is_read_for_a_job_that_ends() -> None:
    reader = Recorder()
    closing = {"type": "Closing", "status": "True", "reason": "GaveUp"}
    closing |= {"lastTransitionTime": "2026-01-01T00:00:00Z"}
    job = a_job(ROLLBACK, status=running(0, BEGUN) | {"conditions": [closing]})
    assert await StepAccess(readers={"rollbackComponent": reader}).observe(job, None) is None
    assert reader.calls == []


async def test_act_is_done_by_the_actor_of_its_kind() -> None:
    power, rollback = Recorder(), Recorder()
    access = StepAccess(actors={PowerAct: power, RollbackAct: rollback})
    result = await access.act(a_job(ROLLBACK), RollbackAct.ROLL_BACK, seen())
    assert result.act is RollbackAct.ROLL_BACK
    assert (power.calls, rollback.calls) == ([], [RollbackAct.ROLL_BACK])


async def test_act_without_an_actor_is_an_error_that_names_it() -> None:
    with pytest.raises(LookupError, match=r"act PowerOff: add it to StepAccess\.actors"):
        await StepAccess().act(a_job(ROLLBACK), PowerAct.POWER_OFF, seen())


def test_each_step_of_the_api_has_a_handler() -> None:
    fields = Step.model_fields.values()
    assert set(STEPS) == {field.alias for field in fields}


def test_operator_can_do_all_acts_of_all_steps() -> None:
    clock, fence, registry = FakeClock(), AlwaysLeader(), CollectorRegistry()
    kube = Kube(PlainTransport("http://127.0.0.1:1"), clock=clock)
    defender = Defender(kube, fence, clock, CollectorRegistry())
    operator = RemedyOperator(kube, defender, a_diagnoser(), fence, clock, registry)
    assert set(operator.step_access.actors) == STEP_ACTS
    assert set(operator.step_access.readers) <= set(STEPS)


def test_no_two_acts_share_a_name() -> None:
    kinds: list[type[StrEnum]] = [JobAct, *STEP_ACTS]
    names = [str(act) for kind in kinds for act in kind]
    assert len(names) == len(set(names))


def test_acts_of_steps_start_at_zero_in_metrics() -> None:
    registry = CollectorRegistry()
    JobMetrics(registry)
    for kind in STEP_ACTS:
        for act in kind:
            assert registry.get_sample_value("kubenode_job_acts_total", {"act": act}) == 0
