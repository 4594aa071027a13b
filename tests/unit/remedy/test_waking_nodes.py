"""Which changes of a job have its node decided on again: those that count for a decision."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import (
    CORDONED,
    DRAINED,
    NODE,
    an_object,
    running,
)

from kubenode.api.v1alpha1 import RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import RemedyOperationJobStatus
from remedy.mappers import NodeMapper

NO_FACTS: Any = None
"""Facts hear nothing of jobs."""
NODES = NodeMapper(NO_FACTS)
PENDING: dict[str, Any] = {"phase": "Pending"}
AWAITING: dict[str, Any] = {"phase": "AwaitingPermit"}
LATER = {**DRAINED, "finishedAt": (T0 + timedelta(minutes=1)).isoformat()}
CLOSED: dict[str, Any] = {"phase": "Succeeded", "timeline": {"closed": T0.isoformat()}}


def job(status: dict[str, Any]) -> RemedyOperationJob:
    obj = an_object()
    return obj.model_copy(update={"status": RemedyOperationJobStatus.model_validate(status)})


def woken(old: dict[str, Any] | None, new: dict[str, Any] | None) -> list[str]:
    before, after = (None if each is None else job(each) for each in (old, new))
    return list(NODES.job("job", before, after))


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (None, PENDING),
        (AWAITING, None),
        (AWAITING, CLOSED),
        (AWAITING, {**AWAITING, "evidenceFalseSince": T0.isoformat()}),
        (running(1, CORDONED), {**running(2, CORDONED, LATER), "phase": "Verifying"}),
    ],
    ids=["opens", "goes", "closes", "its evidence is gone", "it has acted"],
)
def test_a_node_is_decided_on_again(old: dict[str, Any] | None, new: dict[str, Any] | None) -> None:
    assert woken(old, new) == [NODE]


@pytest.mark.parametrize(
    ("old", "new"),
    [
        (PENDING, {"phase": "AwaitingApproval"}),
        (PENDING, AWAITING),
        (AWAITING, {**AWAITING, "message": "Kube Defender says no"}),
    ],
    ids=["waits for a person", "waits for a permit", "says why it waits"],
)
def test_how_far_an_open_job_has_come_asks_for_no_decision(
    old: dict[str, Any], new: dict[str, Any]
) -> None:
    assert woken(old, new) == []


def test_a_resync_shows_every_node_again() -> None:
    same = job(AWAITING)
    assert list(NODES.job("job", same, same)) == [NODE]
