"""Jobs of inspections: what is made, under which name, and what their end says."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from support.clock import T0

from machine.inspection.jobs import BadJob, InspectionJob, ended, job_name, job_of
from machine.inspection.port import PASSED, Inspected, InspectionResult

WHAT = Inspected("containerd", "uid-1", "1-90d2c7e1fa/3/1", ["n1"])
TEXT = """
apiVersion: batch/v1
kind: Job
metadata: {name: anything, namespace: elsewhere}
spec:
  ttlSecondsAfterFinished: 1
  template: {spec: {restartPolicy: Never, containers: [{name: smoke, image: "x"}]}}
"""
TIMEOUT = timedelta(minutes=5)


def job(*conditions: dict[str, Any]) -> InspectionJob:
    found = {
        "metadata": {"name": "smoke", "creationTimestamp": T0.isoformat()},
        "status": {"conditions": list(conditions)},
    }
    return msgspec.convert(found, InspectionJob)


def test_the_same_inspection_has_the_same_job_and_another_another() -> None:
    others = [
        Inspected("containerd", "uid-2", WHAT.run, []),
        Inspected("containerd", "uid-1", "1-90d2c7e1fa/3/2", []),
    ]
    names = {job_name("smoke", each) for each in [WHAT, *others]} | {job_name("other", WHAT)}
    assert len(names) == 4
    again = Inspected("containerd", "uid-1", WHAT.run, ["n2"])
    assert job_name("smoke", again) == job_name("smoke", WHAT)


@pytest.mark.parametrize("name", ["a" * 253, "a.b" * 20, "x"])
def test_a_jobs_name_is_a_label_whatever_the_set_is_called(name: str) -> None:
    found = job_name("smoke", Inspected(name, "u", "r", []))
    assert len(found) <= 63
    assert found.replace("-", "").isalnum()


def test_the_job_belongs_to_its_set_ends_in_time_and_is_taken_away() -> None:
    made = job_of(TEXT, "smoke", WHAT, TIMEOUT)
    assert made["metadata"]["namespace"] == "kubenode-components"
    assert made["metadata"]["name"] == job_name("smoke", WHAT)
    (owner,) = made["metadata"]["ownerReferences"]
    assert (owner["kind"], owner["name"], owner["uid"]) == (
        "MachineComponentSet",
        "containerd",
        "uid-1",
    )
    assert made["spec"]["activeDeadlineSeconds"] == 300
    assert made["spec"]["ttlSecondsAfterFinished"] == 3600
    assert made["spec"]["template"]["spec"]["restartPolicy"] == "Never"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("{", "no YAML"),
        ("just words", "no object"),
        ("kind: Job\napiVersion: batch/v1", "no object with a spec"),
        ("kind: Pod\napiVersion: v1\nspec: {}", "is Pod, not a batch/v1 Job"),
    ],
)
def test_what_is_no_job_is_refused_with_a_reason(text: str, says: str) -> None:
    with pytest.raises(BadJob, match=says):
        job_of(text, "smoke", WHAT, TIMEOUT)


def test_how_a_job_ended_is_what_it_says() -> None:
    assert ended(job(), TIMEOUT, T0).judged is InspectionResult.PENDING
    assert ended(job({"type": "Complete", "status": "True"}), TIMEOUT, T0) == PASSED
    failed = job({"type": "Failed", "status": "True", "message": "BackoffLimitExceeded"})
    answer = ended(failed, TIMEOUT, T0)
    assert answer.judged is InspectionResult.FAILED and "BackoffLimitExceeded" in answer.message
    suspended = job({"type": "Suspended", "status": "True"}, {"type": "Failed", "status": "False"})
    assert ended(suspended, TIMEOUT, T0).judged is InspectionResult.PENDING


def test_a_job_that_nobody_runs_says_nothing_after_its_time() -> None:
    assert (
        ended(job(), TIMEOUT, T0 + TIMEOUT + timedelta(seconds=61)).judged
        is InspectionResult.INCONCLUSIVE
    )
