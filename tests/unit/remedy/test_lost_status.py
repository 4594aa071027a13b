"""Somebody removes the status of a job: what its node shows as the job's own is not forgotten."""

from collections.abc import Mapping

import pytest
from support.remedy_builders import JOB, OURS, a_job, seen

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.marks import MARKS, added
from remedy.job.model import Act, JobAct, NodeObservation
from remedy.job.power_record import FenceAct
from remedy.job.step import step

VERIFY = {"for": "1m", "timeout": "5m"}
MARKED = NodeObservation(
    unschedulable=True,
    cordoned_by=JOB,
    fenced_by=JOB,
    boot_id="boot-1",
    annotations={k: v for k, v in added({}, JOB).items() if v is not None},
)


@pytest.mark.parametrize(
    ("node", "acts"),
    [(OURS, {JobAct.UNCORDON}), (MARKED, {JobAct.UNCORDON, FenceAct.UNFENCE, JobAct.UNPROTECT})],
    ids=["cordon", "cordon, fence and marks"],
)
def test_marks_of_a_job_whose_status_was_removed_are_taken_off_when_it_ends(
    node: NodeObservation, acts: set[Act]
) -> None:
    rung = {"name": "empty", "steps": [{"cordon": {}}], "verify": VERIFY}
    job = a_job(rung, cancel=True)
    done: set[Act] = set()
    for _ in range(20):
        job, act = step(job, seen(node=node))
        if act is not JobAct.NONE:
            done.add(act)
            node = without(node, act)
        if job.phase.closed:
            break
    assert job.phase is JobPhase.CANCELLED
    assert acts <= done


def without(node: NodeObservation, act: Act) -> NodeObservation:
    changes: Mapping[Act, dict[str, object]] = {
        JobAct.UNCORDON: {"unschedulable": False, "cordoned_by": ""},
        FenceAct.UNFENCE: {"fenced_by": ""},
        JobAct.UNPROTECT: {"annotations": dict(MARKS)},
    }
    given = {name: getattr(node, name) for name in node.__slots__}
    return NodeObservation(**{**given, **changes.get(act, {})})
