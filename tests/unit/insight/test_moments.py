"""Each event of an incident becomes a sentence, in the order of time."""

from datetime import timedelta

from support.clock import T0

from insight.analyses.moments import MomentKind, moments_of
from kubenode.runtime.stream.model import (
    EventJob,
    EventNode,
    HoldStarted,
    JobDecided,
    JobOpened,
    PermitGranted,
    PermitRefused,
    PermitReleased,
    StepEnded,
    StepStarted,
    StreamData,
)

JOB = EventJob(name="j", uid="u", rule="r", fault_class="c")
NODE = EventNode(name="n")
PERMIT = {
    "permit": "p", "permit_uid": "pu", "node": NODE, "operation": "Repair",
    "holder_kind": "RemedyOperationJob", "holder": "j", "holder_uid": "u",
}  # fmt: skip
OPENED = JobOpened(
    job=JOB, node=NODE, first_true=T0, evidence=["a"], host_events=["e"], previous="before",
    supersedes="other", rungs=["restart", "reboot"],
)  # fmt: skip


def texts_of(*data: StreamData) -> list[str]:
    """The sentences of events, each a minute after the one before."""
    times = [T0 + timedelta(minutes=n + 1) for n in range(len(data))]
    return [moment.text for moment in moments_of(zip(times, data, strict=True))]


def test_opened_names_signal_rule_ladder_and_jobs_before() -> None:
    assert texts_of(OPENED) == [
        "The evidence holds: a, HostEvent e",
        "Job of rule r for c, ladder restart > reboot; a relapse after before; supersedes other",
    ]


def test_steps_name_their_rung_and_length() -> None:
    begun = StepStarted(job=JOB, node=NODE, rung=1, index=0, step="reboot", by="Agent")
    ended = StepEnded(
        job=JOB, node=NODE, rung=1, index=0, step="reboot", by="Agent", state="Done",
        started_at=T0 + timedelta(minutes=2),
    )  # fmt: skip
    assert texts_of(OPENED, begun, ended)[2:] == [
        "Rung reboot, step reboot by Agent begins",
        "Rung reboot, step reboot by Agent: Done after 60 s",
    ]
    assert texts_of(begun) == ["Rung 2, step reboot by Agent begins"]


def test_waits_refusals_permits_and_decisions_are_told_apart() -> None:
    assert texts_of(
        PermitRefused(job=JOB, node=NODE, reason="ConcurrencyLimit", scope="zone=a"),
        HoldStarted(job=JOB, node=NODE, reason="PDBBlocked"),
        JobDecided(job=JOB, node=NODE, decision="Approve", by="ann"),
        JobDecided(job=JOB, node=NODE, decision="Deny"),
        PermitGranted(**PERMIT, disruption_class="Node"),  # type: ignore[arg-type]  # one map
        PermitReleased(**PERMIT, state="Revoked"),  # type: ignore[arg-type]  # one map
    ) == [
        "Kube Defender refuses: ConcurrencyLimit in zone=a",
        "The job waits: PDBBlocked",
        "Approve by ann",
        "Deny by a person",
        "Permit p of class Node is granted",
        "Permit p: Revoked",
    ]


def test_moments_are_in_the_order_of_time() -> None:
    events = [(T0 + timedelta(minutes=1), HoldStarted(job=JOB, node=NODE, reason="x"))]
    kinds = [moment.kind for moment in moments_of([*events, (T0 + timedelta(seconds=1), OPENED)])]
    assert kinds == [MomentKind.SIGNAL, MomentKind.OPENED, MomentKind.HOLD]
