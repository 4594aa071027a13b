"""Step `collect`: evidence is worth a request, never the repair."""

from dataclasses import replace
from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import SCHEDULABLE, a_job, a_record, running, seen

from agent.wire import FIRST_CHECK, decode_job
from kubenode.api.v1alpha1 import JobPhase, RemedyOperationJob
from remedy.job import records
from remedy.job.model import Job, JobAct
from remedy.job.step import step
from remedy.job.steps.table import unsupported

LOOK: dict[str, Any] = {
    "name": "look",
    "steps": [{"collect": {"bundle": ["dmesg", "kubelet"]}}, {"notify": {"message": "look"}}],
    "verify": {"for": "1m", "timeout": "5m"},
}
STOPS = {**LOOK, "steps": [{"collect": {"onFailure": "Stop"}}]}
SILENT = replace(SCHEDULABLE, agent_silent=True)


def asked(rung: dict[str, Any] = LOOK, **agent: Any) -> Job:
    record = a_record(
        0,
        "collect",
        by="Agent",
        requestID="r0s0a1",
        askedAt=T0.isoformat(),
        bootID="boot-1",
        expiresAt=(T0 + timedelta(minutes=2)).isoformat(),
    )
    return a_job(rung, status=running(0, record, **agent))


def answered(state: str, output: str = "/var/lib/kubenode-agent/diagnostics/x") -> Job:
    answer = {"state": state, "bootID": "boot-1", "output": output, "code": 0}
    return asked(agent={"requests": {"r0s0a1": answer}})


def test_it_needs_no_permit_and_the_agent_is_asked_once() -> None:
    begun, act = step(a_job(LOOK, status=running(0)), seen())
    assert act is JobAct.NONE and begun.record is not None
    assert (begun.record.by, begun.record.request_id) == ("Agent", "r0s0a1")
    assert begun.record.boot_id == "boot-1"
    assert begun.record.expires_at == T0 + timedelta(minutes=2)
    assert unsupported([begun.spec.ladder[0]]) == ""


def test_the_place_of_the_bundle_is_in_the_status() -> None:
    after, _ = step(answered("Done"), seen())
    (record,) = after.status.steps
    assert record.state == "Done" and after.status.step == 1
    assert record.output["text"] == "/var/lib/kubenode-agent/diagnostics/x"


@pytest.mark.parametrize("state", ["Done", "Failed"])
def test_lines_after_the_place_are_stored_as_an_excerpt(state: str) -> None:
    after, _ = step(answered(state, "/var/x; characters: dmesg 9\noops\n" + "y" * 3000), seen())
    (record,) = after.status.steps
    assert record.output["text"] == "/var/x; characters: dmesg 9"
    assert (
        record.output["excerpt"].startswith("oops\nyyy") and len(record.output["excerpt"]) == 1024
    )


@pytest.mark.parametrize("state", ["Failed", "Refused"])
def test_without_evidence_the_ladder_goes_on(state: str) -> None:
    after, _ = step(answered(state, "disk is full"), seen())
    (record,) = after.status.steps
    assert record.state == "Failed" and "disk is full" in record.message
    assert after.phase is JobPhase.RUNNING and after.status.step == 1


def test_a_host_that_says_nothing_is_waited_for_until_the_expiry_and_no_longer() -> None:
    waiting, _ = step(asked(), seen(now=T0 + timedelta(minutes=1)))
    assert waiting.status.step == 0
    after, _ = step(asked(), seen(now=T0 + timedelta(minutes=3)))
    assert after.status.step == 1


def test_a_silent_host_holds_up_no_ladder() -> None:
    after, _ = step(asked(), seen(node=SILENT))
    (record,) = after.status.steps
    assert record.state == "Failed" and "silent" in record.message
    assert after.status.step == 1


def test_a_rule_may_insist_on_evidence() -> None:
    after, _ = step(asked(STOPS), seen(node=SILENT))
    assert after.phase is JobPhase.NEEDS_HUMAN


def test_the_agent_reads_the_request_that_is_written() -> None:
    begun, _ = step(a_job(LOOK, status=running(0)), seen())
    written = RemedyOperationJob.model_validate(
        {
            "metadata": {"name": begun.name, "uid": begun.uid},
            "spec": begun.spec.model_dump(mode="json", by_alias=True, exclude_none=True),
            "status": begun.status.model_dump(mode="json", by_alias=True, exclude_none=True),
        }
    )
    job = decode_job(written.model_dump_json(by_alias=True, exclude_none=True).encode())
    assert job.status is not None and job.status.steps is not None
    action = job.action_of(job.status.steps[0])
    assert action is not None and action.action == "CollectDiagnostics"
    assert action.params == {"bundle": "dmesg,kubelet"}


def test_operator_and_agent_count_checks_alike() -> None:
    assert records.FIRST_CHECK == FIRST_CHECK
