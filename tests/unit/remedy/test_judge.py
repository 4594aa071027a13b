"""What a job is told of its fault: by its own version of the rule, and with words for a hold."""

from datetime import timedelta
from functools import partial
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import a_job, a_record
from support.remedy_hand import RULE, Hands
from support.running import running

from remedy.job.model import FaultAssessment, Job
from remedy.remedier.judge import BRIEF, Judge
from rules.truth import Truth

MINUTE = timedelta(minutes=1)
WHEN = RULE["when"]


async def a_cluster(**rule: Any) -> Hands:
    hands = Hands()
    await hands.rule("runtime-unhealthy", **rule)
    hands.node(Ready=("True", T0 - MINUTE), Sick=("True", T0 - MINUTE))
    return hands


async def judged(hands: Hands, job: Job) -> FaultAssessment:
    operator = hands.operator
    judge = Judge(operator.evaluator, operator.rules, operator.facts, hands.clock)
    async with running(operator.evaluator.run()):
        return await judge.fault(job)


def the_job(**changes: Any) -> Job:
    return a_job(when=WHEN, nodeUID="uid-n1", **changes)


async def test_plain_evidence_is_told_plainly() -> None:
    hands = await a_cluster()
    fault = await judged(hands, the_job())
    assert fault == FaultAssessment(Truth.TRUE, Truth.FALSE, agreed=True, gone=Truth.FALSE)


async def test_one_engine_alone_is_not_agreement_unless_the_operator_says_so() -> None:
    hands = await a_cluster()
    hands.operator.rules.accept_single_engine = False
    fault = await judged(hands, the_job())
    assert not fault.agreed
    assert fault.why == "only one rule engine could be asked: there is no second engine"


async def test_a_version_that_is_not_loaded_says_nothing() -> None:
    hands = await a_cluster()
    other = {"name": "runtime-unhealthy", "uid": "u", "generation": 9}
    fault = await judged(hands, the_job(remedier=other))
    assert (fault.evidence, fault.agreed) == (Truth.UNKNOWN, False)
    assert fault.why == "rule runtime-unhealthy@9 is not loaded"


async def test_another_node_under_the_name_is_not_judged() -> None:
    fault = await judged(await a_cluster(), a_job(when=WHEN, nodeUID="uid-of-before"))
    assert fault.evidence is Truth.UNKNOWN and "another node" in fault.why


async def test_a_guard_and_an_unknown_are_named() -> None:
    guard = {"annotation": {"key": "hands-off"}}
    hands = await a_cluster(unless=guard)
    hands.nodes.cache["n1"].metadata.annotations["hands-off"] = "yes"
    fault = await judged(hands, the_job(unless=guard))
    assert fault.guards is Truth.TRUE
    assert fault.why == "the guards are true: annotation hands-off is 'yes'"
    hands.clock.step(timedelta(hours=1))
    hands.current()
    silent = await judged(hands, the_job())
    assert silent.evidence is Truth.UNKNOWN and "not heard from" in silent.why


async def test_a_guard_that_nobody_can_answer_does_not_hold_a_plain_fault_for_ever() -> None:
    guard = {"condition": {"type": "NeverReported"}}
    fault = await judged(await a_cluster(unless=guard), the_job(unless=guard))
    assert (fault.evidence, fault.guards, fault.why) == (Truth.TRUE, Truth.FALSE, "")


async def test_a_guard_that_nobody_asks_about_any_more_holds_no_rung_that_has_begun() -> None:
    """No host is asked for a fault that is over, and the rung has to come to its end."""
    guard = {"probe": {"name": "disk.used_pct", "above": 3}}
    hands = await a_cluster(unless=guard)
    hands.node(Ready=("True", T0), Sick=("False", T0))
    units = ("containerd.service", "kubelet.service")
    steps = [{"agent": {"action": "RestartUnit", "unit": unit}} for unit in units]
    job = partial(the_job, unless=guard, ladder=[{**RULE["ladder"][0], "steps": steps}])
    done = {"phase": "Running", "step": 1, "steps": [a_record(0, "agent", "Done")]}
    fault = await judged(hands, job(status=done))
    assert (fault.evidence, fault.guards, fault.why) == (Truth.FALSE, Truth.FALSE, "")
    fault = await judged(hands, job(status={"phase": "Running"}))
    assert (fault.evidence, fault.guards) == (Truth.FALSE, Truth.UNKNOWN)


async def test_a_guard_that_is_unknown_only_since_our_start_holds() -> None:
    guard = {"fact": {"name": "zone.sameFault", "above": 3}}
    hands = await a_cluster(unless=guard)
    hands.node("n2", Ready=("True", T0), Sick=("False", T0))
    await hands.rule("runtime-unhealthy", generation=2, unless=guard)
    renewed = {"name": "runtime-unhealthy", "uid": "u", "generation": 2}
    early = await judged(hands, the_job(unless=guard, remedier=renewed))
    assert early.guards is Truth.TRUE and "every node was looked at" in early.why
    for name in ("n1", "n2"):
        await hands.decide(name)
    assert (await judged(hands, the_job(unless=guard, remedier=renewed))).guards is Truth.FALSE


async def test_after_a_boot_a_report_counts_only_once_things_have_settled() -> None:
    hands = await a_cluster()
    done = a_record(0, "agent", "Done")
    verify = {"for": "1m", "settle": "3m"}
    rung = {**RULE["ladder"][0], "verify": verify}
    status = {"phase": "Verifying", "steps": [done], "owned": {"bootID": "boot-1"}}
    job = the_job(ladder=[rung], status=status)
    hands.clock.step(MINUTE)
    hands.node(Ready=("True", T0), Sick=("False", T0))
    hands.current()
    assert (await judged(hands, job)).gone is Truth.TRUE
    rebooted = the_job(ladder=[rung], status={**status, "owned": {"bootID": "boot-0"}})
    assert (await judged(hands, rebooted)).gone is Truth.UNKNOWN


@pytest.mark.parametrize(("seconds", "gone"), [(0.4, Truth.TRUE), (1.4, Truth.UNKNOWN)])
async def test_a_boot_counts_only_from_the_second_after_the_jobs_creation(
    seconds: float, gone: Truth
) -> None:
    """The API server tells the creation in whole seconds, and the boot is told by our clock."""
    hands = Hands()
    await hands.rule("runtime-unhealthy")
    hands.clock.step(timedelta(seconds=seconds))
    hands.node(Ready=("True", hands.clock.now()), Sick=("True", hands.clock.now()))
    done = a_record(0, "agent", "Done")
    status = {"phase": "Verifying", "steps": [done], "owned": {"bootID": "boot-1"}}
    job = the_job(ladder=[RULE["ladder"][0]], status=status)
    assert job.created == T0
    hands.clock.step(timedelta(seconds=30))
    hands.node(Ready=("True", T0), Sick=("False", hands.clock.now()))
    hands.current()
    assert (await judged(hands, job)).gone is gone


async def test_a_report_between_the_acts_effect_and_its_end_proves() -> None:
    """The next heartbeat may come when the proof's time is over."""
    hands = await a_cluster()
    ended = T0 + timedelta(seconds=20)
    done = a_record(0, "agent", "Done", finishedAt=ended.isoformat())
    status = {"phase": "Verifying", "steps": [done], "owned": {"bootID": "boot-1"}}
    hands.clock.step(timedelta(seconds=10))
    hands.node(Ready=("True", T0 - MINUTE), Sick=("False", hands.clock.now()))
    hands.clock.step(timedelta(seconds=20))
    hands.current()
    job = partial(the_job, ladder=RULE["ladder"])
    assert (await judged(hands, job(status=status))).gone is Truth.TRUE
    begun = {**done, "startedAt": (T0 + timedelta(seconds=15)).isoformat()}
    later = job(status={**status, "steps": [begun]})
    assert (await judged(hands, later)).gone is Truth.UNKNOWN, "it became well before the act"


async def of_another_boot(asked_of: str) -> tuple[Hands, Job]:
    """The agent of a host tells boot-2, its kubelet has told nothing since boot-1."""
    hands = await a_cluster()
    hands.clock.step(MINUTE)
    hands.agent("boot-2")
    rung = {**RULE["ladder"][0], "verify": {"for": "1m", "settle": "3m"}}
    status = {
        "phase": "Verifying",
        "steps": [a_record(0, "agent", "Done")],
        "owned": {"bootID": asked_of},
    }
    return hands, the_job(ladder=[rung], status=status)


def says_that_all_is_well(hands: Hands) -> None:
    """A detector: Ready is the kubelet's, which writes nothing."""
    node = hands.nodes.cache["n1"]
    sick = {"type": "Sick", "status": "False", "lastHeartbeatTime": hands.clock.now().isoformat()}
    ready = next(c for c in node.status.conditions if c.type == "Ready")
    heard = ready.last_heartbeat_time
    assert heard is not None
    hands.nodes.put(
        {
            "metadata": {"name": "n1", "uid": "uid-n1"},
            "status": {
                "conditions": [
                    {"type": "Ready", "status": "True", "lastHeartbeatTime": heard.isoformat()},
                    {**sick, "lastTransitionTime": T0.isoformat()},
                ],
                "nodeInfo": {"bootID": "boot-1"},
            },
        }
    )
    hands.current()


@pytest.mark.parametrize("asked_of", ["boot-1", "boot-2"])
async def test_after_a_boot_that_only_the_agent_tells_of_things_settle_once(asked_of: str) -> None:
    """Counted from when it was first told of, whether the job asked before or since: one that is
    looked at again waits no longer.
    """
    hands, job = await of_another_boot(asked_of)
    for minutes in range(1, 6):
        hands.clock.step(MINUTE)
        says_that_all_is_well(hands)
        wanted = Truth.TRUE if minutes >= 3 else Truth.UNKNOWN
        assert (await judged(hands, job)).gone is wanted, minutes


async def test_before_the_agents_were_read_no_report_proves_anything() -> None:
    hands, job = await of_another_boot(asked_of="boot-2")
    hands.clock.step(MINUTE)
    says_that_all_is_well(hands)
    hands.agents.synced.clear()
    assert (await judged(hands, job)).gone is Truth.UNKNOWN


@pytest.mark.parametrize(
    ("status", "since", "wanted"),
    [
        ("True", timedelta(seconds=5), Truth.UNKNOWN),
        ("False", timedelta(seconds=5), Truth.FALSE),
    ],
)
async def test_a_fault_that_is_back_has_not_gone_although_it_has_not_lasted_long_enough(
    status: str, since: timedelta, wanted: Truth
) -> None:
    """Its `for` begins anew when a detector takes it back for a moment."""
    hands = await a_cluster()
    hands.node(Ready=("True", T0 - MINUTE), Sick=("False", T0 - MINUTE))
    hands.node(Ready=("True", T0 - MINUTE), Sick=(status, T0 - since))
    fault = await judged(hands, the_job())
    assert fault.evidence is wanted
    assert (fault.why == BRIEF) is (wanted is Truth.UNKNOWN)
