"""The list of jobs, and what a person's commands refuse before they write."""

from datetime import timedelta

import pytest
from support.job_stories import a_job

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.job_access import Unsigned, refusals
from kubenode.cli.job_decisions import rung_number
from kubenode.cli.job_list import order
from kubenode.cli.lengths import length
from kubenode.runtime.kube.errors import Conflict, Forbidden, KubeError, NotFound, ServerUnreachable


@pytest.mark.parametrize(
    ("seconds", "said"),
    [
        (0, "0s"),
        (-5, "0s"),
        (1.5, "1.5s"),
        (42, "42s"),
        (60, "1m"),
        (190, "3m10s"),
        (7200 + 300 + 9, "2h5m"),
        (3600 + 9, "1h"),
        (86_400 * 3 + 3600 * 4, "3d4h"),
    ],
)
def test_a_length_has_two_units_at_most(seconds: float, said: str) -> None:
    assert length(timedelta(seconds=seconds)) == said


def test_jobs_that_wait_for_a_person_stand_first_and_those_that_are_over_last() -> None:
    phases = ["Succeeded", "Running", "NeedsHuman", "Shadowed", "AwaitingApproval", "Pending"]
    jobs = [RemedyOperationJob.model_validate(a_job(phase)) for phase in phases]
    found = [str(job.status.phase) for job in sorted(jobs, key=order)]
    assert found[:2] == ["NeedsHuman", "AwaitingApproval"]
    assert set(found[-2:]) == {"Succeeded", "Shadowed"}


@pytest.mark.parametrize(("text", "number"), [("restart", 0), ("replace", 2), ("1", 1)])
def test_a_rung_has_a_name_and_a_number(text: str, number: int) -> None:
    assert rung_number(a_job("NeedsHuman"), text) == number


def test_a_rung_that_is_not_there_is_a_mistake_of_usage() -> None:
    with pytest.raises(Refusal, match=r"restart \(0\), reboot \(1\), replace \(2\)") as raised:
        rung_number(a_job("NeedsHuman"), "3")
    assert raised.value.code is Exit.USAGE


@pytest.mark.parametrize(
    ("error", "told"),
    [
        (NotFound(404, "NotFound", "x"), "there is no job j1; `kubenode job list`"),
        (Forbidden(403, "Forbidden", "user bob"), "ClusterRole kubenode-approver of"),
        (Conflict(409, "Conflict", "changed"), "the API server refused it: changed"),
        (KubeError(422, "Invalid", 'webhook "w" denied the request: too late'), "too late"),
        (KubeError(500, "InternalError", "failed calling webhook: refused"), "remedy operator up"),
    ],
)
def test_what_the_server_refuses_is_a_sentence(error: KubeError, told: str) -> None:
    with pytest.raises(Refusal) as raised, refusals("patch", "j1"):
        raise error
    assert told in str(raised.value)
    assert raised.value.code is Exit.FINDING
    assert isinstance(raised.value, Unsigned) == ("failed calling" in error.message)


def test_a_read_that_is_forbidden_names_the_viewer() -> None:
    with (
        pytest.raises(Refusal, match=r"you may not list remedyoperationjobs.*kubenode-viewer of"),
        refusals("list", ""),
    ):
        raise Forbidden(403, "Forbidden", "user bob")


def test_a_server_that_does_not_answer_is_no_refusal() -> None:
    with pytest.raises(ServerUnreachable), refusals("get", "j1"):
        raise ServerUnreachable("timeout")
