"""The record of a node: what closed jobs and dry runs leave behind, whatever is deleted."""

import random
from datetime import datetime, timedelta
from typing import Any

import pytest
from support.clock import T0
from support.remedy_hand import Hands

from kubenode.api.meta import ObjectMeta, format_time
from kubenode.api.v1alpha1 import JobPhase, NodeRecord
from kubenode.api.v1alpha1.noderecord import MOST_JOBS, MOST_RECENT, NodeRecordSpec
from kubenode.cli.explain_node import _of_dry_runs
from remedy import mappers
from remedy.job.model import CloseReason, Job
from remedy.job.moves import close
from remedy.job.store import MOST_CLOSED, NODE_INDEX, JobStore, beyond

SECOND = timedelta(seconds=1)
MINUTE = timedelta(minutes=1)
HOUR = timedelta(hours=1)
DAY = timedelta(days=1)
LONG_AGO = T0 - timedelta(days=2)


async def a_cluster(**rule: Any) -> Hands:
    hands = Hands()
    await hands.rule(**rule)
    return hands


def sick(hands: Hands, since: datetime | None = None) -> None:
    hands.node(Ready=("True", LONG_AGO), Sick=("True", since or hands.clock.now()))


def well(hands: Hands) -> None:
    hands.node(Ready=("True", LONG_AGO), Sick=("False", hands.clock.now()))


def ends(
    hands: Hands, name: str, reason: str, phase: str = "Cancelled", *, acted: bool = False
) -> None:
    at = hands.clock.now().isoformat()
    step = {"rung": 0, "index": 0, "name": "agent", "by": "Agent", "state": "Done"}
    steps = [{**step, "startedAt": at, "finishedAt": at}] if acted else []
    closing = {"type": "Closing", "status": "True", "reason": reason, "lastTransitionTime": at}
    hands.closes(name, phase, conditions=[closing], steps=steps)


def open_job(hands: Hands) -> str:
    (job,) = (job for job in hands.made() if not job.status.phase.closed)
    return job.metadata.name


async def anew(hands: Hands) -> Hands:
    """After a restart of the operator."""
    again = Hands(hands.clock, hands)
    await again.operator.rules.reload()
    return again


# -- closed jobs ----


@pytest.mark.parametrize("reason", ["PersonCancelled", "PersonUncordoned", "Denied", "GaveUp"])
@pytest.mark.exhaustive
async def test_an_incident_stays_closed_when_its_job_is_deleted_and_we_restart(reason: str) -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    name = open_job(hands)
    ends(hands, name, reason)
    await hands.decide()
    await hands.record()
    hands.jobs.remove(name)
    for _ in range(10):
        hands = await anew(hands)
        sick(hands, T0 - MINUTE)
        await hands.later(DAY)
    assert hands.made() == []


async def test_a_new_incident_gets_a_job_of_another_name_after_the_first_was_deleted() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    name = open_job(hands)
    ends(hands, name, "PersonCancelled")
    await hands.record()
    hands.jobs.remove(name)
    well(hands)
    await hands.decide()
    hands.clock.step(11 * MINUTE)
    sick(hands)
    await hands.later(MINUTE)
    assert open_job(hands) != name


@pytest.mark.exhaustive
async def test_evidence_that_is_gone_for_less_than_ten_minutes_does_not_end_an_incident() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    ends(hands, open_job(hands), "PersonCancelled")
    for _ in range(30):
        well(hands)
        await hands.later(MINUTE)
        sick(hands)
        await hands.later(MINUTE)
        hands = await anew(hands)
    assert len(hands.made()) == 1


async def test_a_job_is_not_recorded_before_the_write_has_come_back() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    name = open_job(hands)
    ends(hands, name, "PersonCancelled")
    job = Job.of(hands.jobs.cache[name])
    assert not hands.operator.records.recorded(job)
    await hands.record()
    assert hands.operator.records.recorded(job)


async def test_closed_jobs_of_an_earlier_version_are_taken_into_the_record() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    name = open_job(hands)
    ends(hands, name, "PersonCancelled")
    later = await anew(hands)
    record = await later.record()
    assert [(entry.name, entry.reason) for entry in record.jobs] == [(name, "PersonCancelled")]
    owner = later.records.cache["n1"].metadata.owner_references[0]
    assert (owner.kind, owner.name, owner.uid) == ("Node", "n1", "uid-n1")


async def test_a_record_that_a_person_deletes_is_made_again_of_the_jobs_that_are_there() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    name = open_job(hands)
    ends(hands, name, "PersonCancelled")
    await hands.record()
    hands.records.remove("n1")
    assert not hands.operator.records.recorded(Job.of(hands.jobs.cache[name]))
    assert [entry.name for entry in (await hands.record()).jobs] == [name]


async def test_a_record_is_owned_by_its_node() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    ends(hands, open_job(hands), "PersonCancelled")
    await hands.record()
    (owner,) = hands.records.cache["n1"].metadata.owner_references
    node = hands.nodes.cache["n1"].metadata
    assert (owner.kind, owner.name, owner.uid) == ("Node", node.name, node.uid)


async def test_another_machine_under_the_same_name_has_no_past() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    ends(hands, open_job(hands), "PersonCancelled")
    await hands.record()
    node = hands.nodes.cache["n1"]
    node.metadata.uid = "uid-other"
    assert hands.operator.records.past("n1") == []
    assert (await hands.record()).node_uid == "uid-other"


async def test_a_late_record_of_the_machine_before_drops_no_job_of_this_one() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    ends(hands, open_job(hands), "PersonCancelled")
    records, (job,) = hands.operator.records, hands.made()
    earlier = NodeRecord(
        metadata=ObjectMeta(name="n1"), spec=NodeRecordSpec(node_uid="uid-earlier")
    )
    records.job_changed(job.metadata.name, None, job)
    records.record_changed("n1", None, earlier)
    recorded = (await hands.record()).jobs
    assert [one.name for one in recorded] == [job.metadata.name]


async def test_a_job_whose_end_is_not_stored_yet_is_in_no_record() -> None:
    """Its write may be refused: the job and its incident go on."""
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    (obj,) = hands.made()
    ended = close(Job.of(obj), hands.clock.now(), CloseReason.PERSON_UNCORDONED, "")[0]
    ended = ended.having(phase=JobPhase.CANCELLED)
    assert not hands.operator.records.recorded(ended)
    assert [past.open for past in hands.operator.records.past("n1")] == [True]
    hands.jobs.put({**obj.to_dict(), "status": ended.status.to_dict()})
    assert not hands.operator.records.recorded(ended)
    assert [one.name for one in (await hands.record()).jobs] == [ended.name]


async def test_attempts_within_ten_days_bind_although_their_jobs_are_gone() -> None:
    hands = await a_cluster(cooldown="0s", attempts={"max": 3, "within": "240h"})
    for _ in range(9):
        sick(hands)
        await hands.later(MINUTE)
        for job in hands.made():
            ends(hands, job.metadata.name, "Proven", "Succeeded", acted=True)
            well(hands)
            await hands.decide()
            await hands.record()
            hands.jobs.remove(job.metadata.name)
        hands = await anew(hands)
        hands.clock.step(DAY)
    tried = [entry for entry in (await hands.record()).jobs if entry.acted]
    assert len(tried) == 3


async def test_a_relapse_climbs_although_the_job_before_is_gone() -> None:
    steps = [{"agent": {"action": "RestartUnit", "unit": "a.service"}}]
    ladder = [{"name": "restart", "steps": steps}, {"name": "again", "steps": steps}]
    hands = await a_cluster(cooldown="0s", ladder=ladder)
    sick(hands, T0 - MINUTE)
    await hands.decide()
    first = open_job(hands)
    ends(hands, first, "Proven", "Succeeded", acted=True)
    well(hands)
    await hands.decide()
    await hands.record()
    hands.jobs.remove(first)
    hands = await anew(hands)
    sick(hands)
    await hands.later(MINUTE)
    job = hands.jobs.cache[open_job(hands)]
    assert (job.spec.start_rung, job.spec.previous) == (1, first)


@pytest.mark.exhaustive
async def test_a_record_is_bounded_however_many_jobs_close() -> None:
    hands = await a_cluster(cooldown="0s", attempts={"max": 100, "within": "1h"})
    for number in range(MOST_JOBS + 8):
        sick(hands)
        await hands.later(MINUTE)
        name = open_job(hands)
        ends(hands, name, "Proven", "Succeeded", acted=True)
        well(hands)
        await hands.decide()
        hands.jobs.remove(name)
        if number % 20 == 0:
            await hands.record()
    record = await hands.record()
    assert len(record.jobs) == MOST_JOBS
    hands.clock.step(31 * DAY)
    sick(hands)
    await hands.later(MINUTE)
    ends(hands, open_job(hands), "FaultGone")
    assert len((await hands.record()).jobs) == 1


async def test_only_the_newest_closed_jobs_of_a_node_stay_when_its_evidence_flaps() -> None:
    hands = await a_cluster()
    names = []
    for _ in range(MOST_CLOSED + 3):
        sick(hands)
        await hands.later(MINUTE)
        names.append(open_job(hands))
        ends(hands, names[-1], "FaultGone")
        well(hands)
        await hands.later(MINUTE)
        await hands.record()
    store = JobStore(hands.api, hands.jobs)
    old = [n for n in names if store.outnumbered(Job.of(hands.jobs.cache[n]))]
    assert old == names[:3]
    record = hands.records.cache["n1"]
    woken = mappers.JobMapper(hands.jobs).record("n1", record, record)
    assert set(old) <= set(woken), "they are looked at again once the record is written"
    assert beyond(hands.jobs.by(NODE_INDEX, "n2")) == frozenset(), "each node has its own"


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.exhaustive
async def test_deleting_closed_jobs_at_any_time_changes_no_decision(seed: int) -> None:
    """One story twice: with all its jobs, and with closed ones deleted at random moments."""
    assert await _story(seed, deletes=False) == await _story(seed, deletes=True)


async def _story(seed: int, *, deletes: bool) -> list[tuple[str, str, int, str]]:
    chance, fate = random.Random(seed), random.Random(-seed - 1)
    hands = await a_cluster(cooldown="20m", attempts={"max": 4, "within": "240h"})
    await hands.rule("other", priority=100, cooldown="1h")
    made: dict[str, tuple[str, str, int, str]] = {}
    for _ in range(60):
        (sick if chance.random() < 0.6 else well)(hands)
        await hands.later(timedelta(minutes=chance.randint(1, 40)))
        for job in hands.made():
            rule = job.spec.remedier.name if job.spec.remedier is not None else ""
            at = str(job.metadata.creation_timestamp)
            made[job.metadata.name] = (rule, at, job.spec.start_rung, job.spec.previous)
            if not job.status.phase.closed and chance.random() < 0.7:
                reason, phase = chance.choice(FATES)
                ends(hands, job.metadata.name, reason, phase, acted=chance.random() < 0.6)
                await hands.decide()
                await hands.record()
        for name in [j.metadata.name for j in hands.made() if j.status.phase.closed]:
            if deletes and fate.random() < 0.5:
                hands.jobs.remove(name)
        if chance.random() < 0.2:
            hands = await anew(hands)
    return [(name, *told) for name, told in made.items()]  # type: ignore[misc]


FATES = [
    ("Proven", "Succeeded"),
    ("FaultGone", "Cancelled"),
    ("PersonCancelled", "Cancelled"),
    ("GaveUp", "Failed"),
]

# -- deleted open jobs ----


async def test_an_open_job_that_is_deleted_by_force_gets_no_successor_for_its_incident() -> None:
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    name = open_job(hands)
    hands.jobs.remove(name)
    for _ in range(5):
        await hands.later(HOUR)
        await hands.record()
        hands = await anew(hands)
        sick(hands, T0 - MINUTE)
    assert hands.made() == []
    well(hands)
    await hands.decide()
    hands.clock.step(11 * MINUTE)
    sick(hands)
    await hands.later(MINUTE)
    assert open_job(hands) != name


async def test_a_job_that_a_restore_of_etcd_took_away_is_made_again() -> None:
    """A backup may lack it: nobody has deleted it."""
    hands = await a_cluster()
    sick(hands, T0 - MINUTE)
    await hands.decide()
    hands.restored = "the cluster's data were restored from a backup"
    hands.jobs.remove(open_job(hands))
    hands.restored = ""
    await hands.later(MINUTE)
    assert open_job(hands)


# -- rules in DryRun ----


async def test_a_dry_run_makes_no_job_and_is_counted_with_kube_defender_s_answer() -> None:
    hands = await a_cluster(mode="DryRun")
    sick(hands, T0 - MINUTE)
    await hands.decide()
    assert hands.made() == [] and hands.api.creates == 0
    (result,) = (await hands.record()).dry_runs
    assert (result.remedier, result.count, result.recent[0].rung) == ("runtime", 1, "restart")
    assert result.recent[0].said == "Kube Defender would have granted it"
    assert result.recent[0].steps == "RestartUnit a.service"
    (ask,) = hands.permits.asks
    assert ask.dry_run and ask.node == "n1" and ask.fault_class == "runtime_unhealthy"
    await hands.later(MINUTE)
    hands = await anew(hands)
    sick(hands, T0 - MINUTE)
    await hands.later(DAY)
    (again,) = (await hands.record()).dry_runs
    assert again.count == 1, "one incident is one result, over restarts too"


async def test_a_dry_run_emits_one_event_on_the_node_when_its_incident_begins() -> None:
    hands = await a_cluster(mode="DryRun")
    sick(hands, T0 - MINUTE)
    for _ in range(3):
        await hands.later(MINUTE)
    assert hands.events_told().count("RepairWouldBegin") == 1
    for _ in range(3):
        well(hands)
        await hands.later(11 * MINUTE)
        sick(hands)
        await hands.later(MINUTE)
    (result,) = (await hands.record()).dry_runs
    assert hands.events_told().count("RepairWouldBegin") == result.count - 1 > 0


async def test_explain_lists_dry_runs_with_count_and_last_time() -> None:
    hands = await a_cluster(mode="DryRun")
    sick(hands, T0 - MINUTE)
    await hands.decide()
    assert _of_dry_runs(await hands.record()) == [
        f"dry run of runtime: would have begun once, the last time at {format_time(T0)}"
        " with rung restart: would have: RestartUnit a.service; Kube Defender would have"
        " granted it"
    ]
    assert _of_dry_runs(NodeRecordSpec()) == []


@pytest.mark.exhaustive
async def test_a_node_that_flaps_for_a_week_under_a_rule_in_dry_run_leaves_a_small_record() -> None:
    hands = await a_cluster(mode="DryRun", attempts={"max": 3, "within": "24h"})
    sizes = []
    for _ in range(7 * 24 * 3):
        sick(hands)
        await hands.later(10 * MINUTE)
        well(hands)
        await hands.later(10 * MINUTE)
        record = await hands.record()
        sizes.append(len(record.model_dump_json()))
    assert hands.made() == [] and hands.api.creates == 0
    (result,) = record.dry_runs
    assert 21 <= result.count <= 24, "three a day"
    assert len(result.recent) == MOST_RECENT
    assert max(sizes) < 8192


async def test_a_dry_run_that_an_earlier_version_stored_is_counted_once() -> None:
    hands = await a_cluster(mode="DryRun")
    sick(hands, T0 - MINUTE)
    stored = await a_cluster()
    sick(stored, T0 - MINUTE)
    await stored.decide()
    job = stored.made()[0].to_dict()
    status = {"phase": "Shadowed", "timeline": {"closed": T0.isoformat()}, "message": "granted"}
    job["spec"]["mode"] = "DryRun"
    hands.jobs.put({**job, "status": status})
    for _ in range(2):
        await hands.decide()
        (result,) = (await hands.record()).dry_runs
        assert (result.count, result.recent[0].said) == (1, "granted")
        assert hands.operator.records.recorded(Job.of(hands.jobs.cache[job["metadata"]["name"]]))


# -- evidence made of Events ----

EVENT: dict[str, Any] = {"event": {"reason": "MalwareFound", "within": "24h"}}


def tells(hands: Hands, uid: str, at: datetime, about: str = "Node") -> None:
    """Report an Event of the node, or of a pod on it, by its reporter's clock."""
    informer = hands.events if about == "Node" else hands.pod_events
    informer.put(
        {
            "metadata": {"name": uid, "namespace": "default", "uid": uid},
            "involvedObject": {"kind": about, "name": "n1"},
            "source": {"component": "kubelet", "host": "n1"},
            "type": "Warning",
            "reason": "MalwareFound",
            "firstTimestamp": at.isoformat(),
            "lastTimestamp": at.isoformat(),
            "count": 1,
        }
    )


@pytest.mark.parametrize("about", ["Node", "Pod"])
async def test_one_event_never_starts_a_second_job_whatever_is_restarted_or_deleted(
    about: str,
) -> None:
    hands = await a_cluster(when=EVENT, cooldown="10m")
    hands.node(Ready=("True", LONG_AGO))
    tells(hands, "e1", T0 - MINUTE, about)
    await hands.decide()
    first = open_job(hands)
    hands.clock.step(5 * MINUTE)
    ends(hands, first, "Proven", "Succeeded", acted=True)
    await hands.decide()
    await hands.record()
    hands.jobs.remove(first)
    for _ in range(5):
        await hands.later(HOUR)
        hands = await anew(hands)
        await hands.decide()
    assert hands.made() == []
    tells(hands, "e2", hands.clock.now(), about)
    await hands.later(MINUTE)
    assert open_job(hands) != first


@pytest.mark.parametrize("about", ["Node", "Pod"])
async def test_a_series_of_events_is_new_only_with_as_many_new_events(about: str) -> None:
    often = {"event": {"reason": "MalwareFound", "within": "24h", "count": 3}}
    hands = await a_cluster(when=often, cooldown="10m")
    hands.node(Ready=("True", LONG_AGO))
    for number in range(3):
        tells(hands, f"e{number}", T0 - (3 - number) * MINUTE, about)
    await hands.decide()
    first = open_job(hands)
    ends(hands, first, "Proven", "Succeeded", acted=True)
    for number in range(3, 6):
        hands = await anew(hands)
        await hands.later(HOUR)
        assert len(hands.made()) == 1
        tells(hands, f"e{number}", hands.clock.now(), about)
    await hands.later(MINUTE)
    assert open_job(hands) != first
