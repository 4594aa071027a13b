"""Who hears what of a job, and who has heard it already."""

from datetime import timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import a_job

from kubenode.api.v1alpha1 import JobPhase
from remedy.job.model import Job
from remedy.notify.notice import level
from remedy.notify.settings import Receiver
from remedy.notify.teller import hearers, read_notified

SETTINGS: dict[str, dict[str, Any]] = {
    "oncall": {},
    "ledger": {"allRules": True, "on": ["Running", "Succeeded", "Failed", "Cancelled"]},
    "pager": {"minSeverity": "Critical"},
}
RECEIVERS = {
    name: Receiver.model_validate({"webhook": {"url": "http://127.0.0.1/"}, **settings})
    for name, settings in SETTINGS.items()
}


def job(phase: str, closed: timedelta | None = None, **spec: Any) -> Job:
    ended = {"closed": (T0 - closed).isoformat()} if closed is not None else {}
    status = {"phase": phase, "timeline": ended}
    return a_job(status=status, **{"notify": ["oncall", "pager", "nobody"], **spec})


@pytest.mark.parametrize(
    ("phase", "severity", "heard"),
    [
        ("Pending", "Critical", []),
        ("Running", "Critical", ["ledger"]),
        ("AwaitingApproval", "Warning", ["oncall"]),
        ("NeedsHuman", "Critical", ["oncall", "pager"]),
        ("NeedsHuman", "Info", ["oncall"]),
        ("Failed", "Critical", ["oncall", "ledger", "pager"]),
        ("Succeeded", "Critical", ["ledger"]),
    ],
)
def test_receivers_hear_what_they_asked_for(phase: str, severity: str, heard: list[str]) -> None:
    closed = timedelta(0) if phase in ("Failed", "Succeeded") else None
    assert hearers(job(phase, closed, severity=severity), RECEIVERS, T0) == heard


def test_a_rule_that_names_nobody_is_heard_by_those_who_hear_all() -> None:
    assert hearers(job("Failed", timedelta(0), notify=[]), RECEIVERS, T0) == ["ledger"]


def test_end_of_a_job_that_never_began_is_told_only_to_those_who_hear_of_pending_ones() -> None:
    wait = {
        "since": T0.isoformat(),
        "notBefore": (T0 + timedelta(seconds=10)).isoformat(),
        "reason": "GroupWait",
    }
    all_ = RECEIVERS["ledger"].model_copy(update={"on": list(JobPhase)})
    ended = job("Cancelled", timedelta(0), initialWait=wait)
    assert hearers(ended, {**RECEIVERS, "all": all_}, T0) == ["all"]
    timeline = ended.status.timeline.model_copy(update={"job_created": T0})
    assert hearers(ended.having(timeline=timeline), RECEIVERS, T0) == ["ledger"]
    assert hearers(job("Cancelled", timedelta(0)), RECEIVERS, T0) == ["ledger"], "it has no wait"


def test_history_is_not_told() -> None:
    assert hearers(job("Failed", timedelta(hours=2)), RECEIVERS, T0) == []
    assert hearers(job("Failed"), RECEIVERS, T0) == []


def test_what_was_told_of_another_level_does_not_count() -> None:
    now_at = level(job("NeedsHuman"))
    assert read_notified(f"{now_at} ledger,oncall", now_at) == {"ledger", "oncall"}
    for annotation in ("", now_at, "NeedsHuman.0.7 oncall", "Failed.0.0 oncall", "nonsense"):
        assert read_notified(annotation, now_at) == frozenset()
