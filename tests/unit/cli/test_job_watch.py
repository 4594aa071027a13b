"""`kubenode job list --watch`: the list, then one line for each change."""

import json
from typing import Any

import pytest
from support.clock import T0
from support.job_stories import a_job

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase
from kubenode.cli.job_list import JobFilter
from kubenode.cli.job_watch import JobWatch
from kubenode.cli.options import Listing


def job(name: str, phase: str, **status: Any) -> RemedyOperationJob:
    data = a_job(phase, **status)
    data["metadata"]["name"] = name
    return RemedyOperationJob.model_validate(data)


def watch(
    selection: JobFilter | None = None, output: Listing = Listing.TABLE
) -> tuple[JobWatch, list[str]]:
    lines: list[str] = []
    return JobWatch(selection or JobFilter(), output, lambda: T0, lines.append), lines


def test_the_list_comes_first_with_what_needs_a_person_on_top() -> None:
    jobs, lines = watch()
    jobs.begin([job("a", "Running"), job("b", "NeedsHuman"), job("c", "Succeeded")])
    assert [line.split()[0] for line in lines] == ["NAME", "b", "a", "c"]


def test_a_change_is_a_line_and_a_resync_is_none() -> None:
    jobs, lines = watch()
    before, after = job("a", "Running"), job("a", "Succeeded")
    jobs.begin([before])
    jobs.changed("a", before, before)
    assert len(lines) == 2
    jobs.changed("a", before, after)
    assert "Succeeded" in lines[-1] and len(lines) == 3


def test_a_deleted_job_is_printed_as_deleted() -> None:
    jobs, lines = watch()
    gone = job("a", "Running")
    jobs.begin([gone])
    jobs.changed("a", gone, None)
    assert "Deleted" in lines[-1]


def test_a_job_that_leaves_the_selection_is_printed_once_more() -> None:
    jobs, lines = watch(JobFilter(only_open=True))
    before, after = job("a", "Running"), job("a", "Succeeded")
    jobs.begin([before, job("b", "Failed")])
    assert len(lines) == 2
    jobs.changed("a", before, after)
    assert "Succeeded" in lines[-1]
    jobs.changed("b", job("b", "Failed"), job("b", "Failed", message="x"))
    assert len(lines) == 3


@pytest.mark.parametrize(
    ("output", "last"),
    [(Listing.NAME, "remedyoperationjob.kubenode.io/a"), (Listing.YAML, "---\nname: a\n")],
)
def test_programs_get_one_document_for_each_change(output: Listing, last: str) -> None:
    jobs, lines = watch(output=output)
    jobs.begin([])
    jobs.changed("a", None, job("a", "Pending"))
    assert lines[-1].startswith(last)


def test_json_is_one_object_a_line() -> None:
    jobs, lines = watch(JobFilter(phases=[JobPhase.PENDING]), Listing.JSON)
    jobs.begin([job("a", "Pending"), job("b", "Running")])
    assert [json.loads(line)["name"] for line in lines] == ["a"]
