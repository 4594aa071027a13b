"""When a revision counts as verified, and what speaks against it."""

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from support.api_objects import GOOD
from support.readiness_cases import make_condition
from support.remedy_builders import an_object

from kubenode.api.meta import Condition
from kubenode.api.readiness import CURRENT, Progress, Readiness
from kubenode.api.v1alpha1 import Machine, MachineComponentSet, RemedyOperationJob
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.revision_check import RevisionState, RevisionSubject, check_revision
from kubenode.cli.revision_scope import concerns_machine, find_start, select_nodes
from kubenode.cli.verify import describe, read_reference, read_since

BEGAN = datetime(2026, 11, 21, 2, 0, tzinfo=UTC)
MINUTE = timedelta(minutes=1)


def _subject(readiness: Readiness = CURRENT, **changes: Any) -> RevisionSubject:
    fields: dict[str, Any] = {"conditions": [], "began": BEGAN, "nodes": {"n1"}, **changes}
    return RevisionSubject("MachineComponentSet", "kubelet", readiness, **fields)


def _job(
    name: str = "j1",
    created: datetime = BEGAN + MINUTE,
    ending: str = "",
    permit: bool = True,
    **spec: Any,
) -> RemedyOperationJob:
    job = an_object(name=name, **spec)
    conditions = [make_condition("Closing", "True", ending)] if ending else []
    timeline = job.status.timeline.model_copy(
        update={"permit_granted": BEGAN + MINUTE if permit else None}
    )
    return job.model_copy(
        update={
            "metadata": job.metadata.model_copy(update={"creation_timestamp": created}),
            "status": job.status.model_copy(
                update={"conditions": conditions, "timeline": timeline}
            ),
        }
    )


def test_complete_revision_without_harm_is_verified() -> None:
    check = check_revision(_subject(), [])
    assert (check.state, check.findings) == (RevisionState.VERIFIED, [])


def test_incomplete_revision_without_harm_is_in_progress() -> None:
    check = check_revision(_subject(Readiness(Progress.IN_PROGRESS, "Baking")), [])
    assert (check.state, check.findings) == (RevisionState.IN_PROGRESS, [])
    assert list(describe(check))[1] == "  waits: Baking"


def test_stalled_revision_has_failed_and_the_reason_is_named() -> None:
    check = check_revision(_subject(Readiness(Progress.FAILED, "Conflict", "with set b")), [])
    assert (check.state, check.findings) == (RevisionState.FAILED, ["Conflict: with set b"])


@pytest.mark.parametrize("reason", ["InspectionFailed", "Inconclusive"])
def test_failed_inspection_is_named_once(reason: str) -> None:
    paused = make_condition("Paused", "True", reason, "batch 1: 0.9")
    subject = _subject(Readiness(Progress.FAILED, reason, "batch 1: 0.9"), conditions=[paused])
    assert check_revision(subject, []).findings == ["failed inspection: batch 1: 0.9"]


@pytest.mark.parametrize(
    ("reason", "status"), [("User", "True"), ("AutoPaused", "True"), ("InspectionFailed", "False")]
)
def test_other_pause_is_no_failed_inspection(reason: str, status: str) -> None:
    paused: list[Condition] = [make_condition("Paused", status, reason, "m1")]
    assert check_revision(_subject(conditions=paused), []).failed_inspections == []


@pytest.mark.parametrize(
    ("job", "counts"),
    [
        (_job(created=BEGAN), True),
        (_job(created=BEGAN - MINUTE), False),
        (_job(nodeName="n2"), False),
    ],
    ids=["from the start on", "before the start", "on another node"],
)
def test_new_fault_counts_if_it_began_with_the_revision_on_its_nodes(
    job: RemedyOperationJob, counts: bool
) -> None:
    check = check_revision(_subject(), [job])
    assert check.state is (RevisionState.FAILED if counts else RevisionState.VERIFIED)
    assert check.new_faults == ({"unknown": ["j1"]} if counts else {})


def test_accepted_number_of_new_faults_is_a_limit() -> None:
    jobs = [_job("j1"), _job("j2", faultClass="disk"), _job("j3", faultClass="disk")]
    assert check_revision(_subject(max_new_faults=3), jobs).state is RevisionState.VERIFIED
    check = check_revision(_subject(max_new_faults=2), jobs)
    assert check.findings == ["3 new faults, 2 accepted: disk 2, unknown 1"]


@pytest.mark.parametrize("ending", ["FaultGone", "PersonCancelled", "PersonUncordoned"])
@pytest.mark.parametrize("permit", [True, False])
def test_job_that_disturbed_its_node_for_nothing_is_a_false_act(ending: str, permit: bool) -> None:
    check = check_revision(_subject(max_new_faults=None), [_job(ending=ending, permit=permit)])
    assert check.false_acts == (["j1"] if permit else [])
    assert check.findings == (["false acts: j1"] if permit else [])


@pytest.mark.parametrize("ending", ["", "Proven", "GaveUp", "Superseded"])
def test_job_with_another_end_is_no_false_act(ending: str) -> None:
    assert check_revision(_subject(), [_job(ending=ending)]).false_acts == []


def test_jobs_of_a_rule_count_on_all_nodes_and_those_of_others_do_not() -> None:
    rule = _subject(rule="runtime-unhealthy", nodes=None, max_new_faults=None)
    other = {"name": "disk", "uid": "u", "generation": 1}
    jobs = [_job("j1", nodeName="n9"), _job("j2", remedier=other), _job("j3", remedier=None)]
    check = check_revision(rule, jobs)
    assert (check.new_faults, check.state) == ({"unknown": ["j1"]}, RevisionState.VERIFIED)


def test_report_for_programs_holds_the_evidence() -> None:
    check = check_revision(_subject(), [_job(ending="FaultGone")])
    assert check.to_json() == {
        "object": "MachineComponentSet/kubelet",
        "state": "Failed",
        "completed": True,
        "reason": "Current",
        "message": "",
        "since": "2026-11-21T02:00:00.000Z",
        "falseActs": ["j1"],
        "newFaults": {"unknown": ["j1"]},
        "failedInspections": [],
        "findings": ["false acts: j1", "1 new faults, 0 accepted: unknown 1"],
    }


def test_revision_of_a_set_begins_when_its_revision_was_created() -> None:
    set_ = MachineComponentSet.model_validate(
        {
            **_good(MachineComponentSet),
            "status": {
                "updateRevision": "1-b",
                "revisions": [
                    {"name": "1-a", "component": "c", "createdAt": "2026-11-20T00:00:00Z"},
                    {"name": "1-b", "component": "c", "createdAt": "2026-11-21T02:00:00Z"},
                ],
            },
        }
    )
    assert find_start(set_, {"creationTimestamp": "2026-11-01T00:00:00Z"}) == BEGAN


def test_revision_of_another_kind_begins_with_the_last_write_of_its_spec() -> None:
    machine = Machine.model_validate(_good(Machine))
    fields: dict[str, Any] = {"f:spec": {}}
    metadata = {
        "creationTimestamp": "2026-11-01T00:00:00Z",
        "managedFields": [
            {"time": "2026-11-20T00:00:00Z", "fieldsV1": fields},
            {"time": "2026-11-21T02:00:00Z", "fieldsV1": fields},
            {"time": "2026-11-22T00:00:00Z", "fieldsV1": {"f:metadata": {}}},
            {"time": "2026-11-23T00:00:00Z", "fieldsV1": fields, "subresource": "status"},
        ],
    }
    assert find_start(machine, metadata) == BEGAN
    created = find_start(machine, {"creationTimestamp": "2026-11-01T00:00:00Z"})
    assert created == datetime(2026, 11, 1, tzinfo=UTC)


def _good(kind: type) -> dict[str, Any]:
    return next(raw for raw in GOOD.values() if raw["kind"] == kind.__name__)


def _machine(**labels: str) -> Machine:
    machine = Machine.model_validate(_good(Machine) | {"status": {"nodeRef": {"name": "n1"}}})
    return machine.model_copy(
        update={"metadata": machine.metadata.model_copy(update={"labels": labels})}
    )


def test_set_concerns_the_nodes_of_the_machines_that_it_selects() -> None:
    set_ = MachineComponentSet.model_validate(_good(MachineComponentSet))
    chosen, other = _machine(**set_.spec.selector.match_labels), _machine(pool="none")
    assert concerns_machine(set_, chosen)
    assert not concerns_machine(set_, other)
    assert select_nodes(set_, [chosen]) == {"n1"}
    assert select_nodes(set_, [other]) == set()


@pytest.mark.parametrize("reference", ["MachineComponentSet/a", "machinecomponentsets/a", "kncs/a"])
def test_kind_may_be_written_as_in_kubectl(reference: str) -> None:
    assert read_reference(reference) == (MachineComponentSet, "a")


@pytest.mark.parametrize("reference", ["kncs", "kncs/", "pod/a", "remedyoperationjob/a", ""])
def test_other_reference_is_refused_with_the_kinds(reference: str) -> None:
    with pytest.raises(Refusal, match="write KIND/NAME with one of the kinds NodeRemedier") as no:
        read_reference(reference)
    assert no.value.code is Exit.USAGE


def test_since_is_a_duration_or_a_time() -> None:
    assert read_since("2h", BEGAN) == BEGAN - timedelta(hours=2)
    assert read_since("2026-11-20T02:00Z", BEGAN) == BEGAN - timedelta(days=1)
    clock = BEGAN.astimezone().strftime("%H:%M")
    assert read_since(clock, BEGAN + MINUTE) == BEGAN


@pytest.mark.parametrize("text", ["soon", "999999999h"])
def test_since_that_is_neither_is_refused(text: str) -> None:
    with pytest.raises(Refusal, match=f"--since: '{text}': write a duration such as 2h"):
        read_since(text, BEGAN)
