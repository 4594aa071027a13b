"""Every act and every refusal of a job is one line of the audit log."""

from dataclasses import dataclass, field, replace

import pytest
from support.audit_lines import Kept
from support.remedy_builders import DRAIN, RESTART, an_object
from support.remedy_world import Crash, FakeWorld, closed

from kubenode.runtime.kube.errors import KubeError, ServerUnreachable
from remedy.job.audit import JobAudit
from remedy.job.controller import JobController, never_busy
from remedy.job.model import Job, JobAct, JobActResult
from remedy.job.steps.notify import NotifyAct

SECRET = "Bearer very-secret"


@dataclass
class AuditedWorld(FakeWorld):
    kept: Kept = field(default_factory=Kept)

    def controller(self, busy=never_busy) -> JobController:  # type: ignore[no-untyped-def]
        audit = JobAudit(self.kept, self.clock)
        return replace(super().controller(busy), audit=audit)


async def the_lines(world: AuditedWorld) -> list[tuple[str, str, str]]:
    await world.run(closed)
    return world.kept.told()


async def test_a_repair_is_told_from_the_permit_to_the_end() -> None:
    world = AuditedWorld(an_object(DRAIN))
    lines = await the_lines(world)
    wanted = [
        ("AskPermit", "Granted", "permit-1"),
        ("Phase", "Done", "Running"),
        ("Cordon", "Done", ""),
        ("Evict", "Done", "shop/a, shop/b"),
        ("Step 0.1 migrate", "Done", "Done"),
        ("Step 0.2 agent", "Begun", "Running"),
        ("Step 0.2 agent", "Done", "Done"),
        ("Phase", "Done", "Verifying"),
        ("Close", "Done", "Proven"),
        ("Uncordon", "Done", ""),
        ("ReleasePermit", "Done", ""),
        ("Phase", "Done", "Succeeded"),
    ]
    assert [line for line in lines if line in wanted] == wanted
    asked = next(line for line in world.kept.lines if line.request_id)
    assert (asked.job, asked.node, asked.by) == (world.job.name, "n1", "remedy")
    assert asked.request_id == "r0s2a1"


async def test_a_refusal_that_lasts_is_told_once() -> None:
    world = AuditedWorld(an_object(DRAIN), allowed=False)
    await world.run(closed, hours=0.5)
    refused = [line for line in world.kept.lines if line.outcome == "Refused"]
    assert [(line.what, line.after) for line in refused] == [("Hold", "ConcurrencyLimit")]
    assert refused[0].why == "zone b: 5 of 5 repairs are running"


async def test_a_budget_that_allows_nothing_is_told_with_its_pod() -> None:
    world = AuditedWorld(an_object(DRAIN), budget=0)
    await world.run(lambda w: w.job.status.hold is not None, hours=1)
    holds = [line for line in world.kept.lines if line.what == "Hold"]
    assert holds and holds[0].after == "PDBBlocked" and "shop/a" in holds[0].why


@pytest.mark.exhaustive
@pytest.mark.parametrize("applied", [False, True])
async def test_an_act_that_the_process_did_not_survive_may_have_happened(applied: bool) -> None:
    for die_at in range(1, 40):
        world = AuditedWorld(an_object(DRAIN), die_at=die_at, applied=applied)
        await world.run(closed)
        if len(world.writes) < die_at:
            return
        died = world.writes[die_at - 1]
        unknown = [line for line in world.kept.lines if line.outcome == "Unknown"]
        assert bool(unknown) == (not died.startswith("save")), (died, unknown)
    raise AssertionError("it writes without end")


async def test_words_are_told_when_they_are_heard() -> None:
    said = {"decision": "Approve", "by": "alice", "at": "2026-01-01T12:00:00Z", "note": "go"}
    world = AuditedWorld(an_object(RESTART, mode="Approve", approvals=[said]))
    await world.run(closed)
    [word] = [line for line in world.kept.lines if line.who != "kubenode-remedy"]
    assert (word.who, word.what, word.why) == ("alice", "Approve", "go")


async def test_who_started_and_who_cancelled_is_told_from_the_stored_job() -> None:
    stored = an_object(RESTART, cancel=True)
    signed = {"kubenode.io/started-by": "alice", "kubenode.io/cancelled-by": "bob"}
    metadata = stored.metadata.model_copy(update={"annotations": signed})
    world = AuditedWorld(stored.model_copy(update={"metadata": metadata}))
    await world.run(closed)
    said = [(line.who, line.what) for line in world.kept.lines if line.who != "kubenode-remedy"]
    assert said == [("alice", "Start"), ("bob", "Cancel")]


async def test_what_a_host_printed_is_in_no_line() -> None:
    world = AuditedWorld(an_object(RESTART))
    await world.run(lambda w: w.job.awaits_agent)
    record = world.job.record
    assert record is not None
    answer = {"state": "Failed", "code": 1, "output": SECRET, "finishedAt": "2026-01-01T12:00:00Z"}
    world.restarts.append(record.request_id)
    world.write_status({"agent": {"requests": {record.request_id: answer}}})
    await world.run(closed, hours=1)
    raw = b"".join(line.encoded() for line in world.kept.lines)
    assert b"very-secret" not in raw and b"Bearer" not in raw
    assert b"failed: (what the host printed)" in raw


@pytest.mark.parametrize(
    ("error", "outcome"),
    [
        (KubeError(500, "InternalError", "no"), "Failed"),
        (ServerUnreachable("timeout"), "Unknown"),
        (Crash(), "Unknown"),
    ],
)
def test_an_act_that_raises_is_told_and_goes_on_raising(error: Exception, outcome: str) -> None:
    kept, job = Kept(), Job.of(an_object(DRAIN))
    audit = JobAudit(kept)
    with pytest.raises(type(error)), audit.acting(job, JobAct.CORDON):
        raise error
    assert [(line.what, line.outcome) for line in kept.lines] == [("Cordon", outcome)]


def test_what_could_not_be_done_is_told_with_why() -> None:
    kept, job = Kept(), Job.of(an_object(DRAIN))
    audit = JobAudit(kept)
    with audit.acting(job, NotifyAct.NOTIFY) as acting:
        acting.result = JobActResult(NotifyAct.NOTIFY, error="nobody listens")
    assert [(line.outcome, line.why) for line in kept.lines] == [("Failed", "nobody listens")]
