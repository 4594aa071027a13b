"""The steps that ask for machines, over every combination of what they remember and see.

PROOF says what must be seen when a step ends well, LEAVE what must be true when something is asked
for, both without calling the code under test.
"""

from collections.abc import Callable, Iterator
from dataclasses import replace
from datetime import timedelta
from itertools import product
from typing import Any

import pytest
from support.clock import T0
from support.remedy_builders import FAULTY, JOB, PERMIT, a_job, granted, seen

from kubenode.api.v1alpha1 import JobPhase
from kubenode.api.v1alpha1.remedyoperationjob import StepState
from kubenode.providers.port import Can, Power, PowerState
from remedy.job.marks import MARKS
from remedy.job.model import (
    Act,
    Job,
    JobAct,
    JobActResult,
    JobObservation,
    NodeObservation,
    Requested,
)
from remedy.job.power_record import FenceAct, PowerAct
from remedy.job.request_notes import to_note
from remedy.job.step import step
from remedy.job.steps.replace import ReplaceAct
from remedy.power.observation import PowerObservation, ReplacementObservation, RequestOutcome
from rules.truth import Truth

AGAIN = timedelta(minutes=2)
"""Later than the time after which a state is asked for again."""
LATE = timedelta(minutes=31)
STEPS: dict[str, dict[str, Any]] = {
    "powerOff": {},
    "powerOn": {},
    "powerCycle": {},
    "reboot": {"via": ["Provider"]},
    "fence": {},
    "replace": {},
}
WORDS: dict[str, tuple[str, ...]] = {
    "powerOff": ("", "off"),
    "powerOn": ("", "on"),
    "powerCycle": ("", "off", "on", "reset"),
    "reboot": ("", "off", "on", "reset"),
    "fence": ("",),
    "replace": ("", "replace"),
}
ACT: dict[str, Act] = {
    "off": PowerAct.POWER_OFF,
    "on": PowerAct.POWER_ON,
    "reset": PowerAct.RESET,
    "replace": ReplaceAct.REPLACE,
}
BOTH = Can(off=True, reset=True, replace=True)
KNOWS = Can(off=True, reset=True, replace=True, repeatable=True)


def reading(state: PowerState, can: Can = BOTH) -> PowerObservation:
    return PowerObservation("fake", can, Power(state, state.lower(), T0))


READINGS = (
    reading(PowerState.ON, KNOWS),
    reading(PowerState.ON),
    reading(PowerState.ON, Can(reset=True)),
    reading(PowerState.ON, Can()),
    reading(PowerState.OFF),
    reading(PowerState.STOPPING),
    reading(PowerState.GONE),
    reading(PowerState.UNKNOWN),
    PowerObservation("fake", BOTH, outcome=RequestOutcome.UNCLEAR, why="no answer"),
    PowerObservation("fake", BOTH, outcome=RequestOutcome.LATER, why="throttled"),
    PowerObservation("fake", BOTH, outcome=RequestOutcome.REFUSED, why="no right"),
    PowerObservation("fake", BOTH, outcome=RequestOutcome.GONE, why="unknown machine"),
    PowerObservation(outcome=RequestOutcome.REFUSED, why="no provider has this machine"),
)
NODE = NodeObservation(
    unschedulable=True,
    cordoned_by=JOB,
    boot_id="boot-1",
    provider_id="fake:///n1",
    ready="Unknown",
    annotations=dict(MARKS),
)
NODES = (
    NODE,
    replace(NODE, boot_id="boot-2"),
    replace(NODE, boot_id=""),
    replace(NODE, out_of_service=True, fenced_by=JOB),
    replace(NODE, out_of_service=True),
)
FAR = (
    ReplacementObservation("InstanceGroup", "fake:///n1", "pool-a"),
    ReplacementObservation("Karpenter", "c1/uid", "NodePool a", gone=True, enough=True),
    ReplacementObservation("InstanceGroup", "fake:///n1", "pool-a", gone=True, new="n2"),
    ReplacementObservation("InstanceGroup", "fake:///n1", "pool-a", renewed=True),
    ReplacementObservation(outcome=RequestOutcome.REFUSED, why="nobody"),
    ReplacementObservation(outcome=RequestOutcome.UNCLEAR, why="the API server does not answer"),
)
WORLDS: tuple[dict[str, Any], ...] = (
    {},
    {"permit": None},
    {"fault": replace(FAULTY, evidence=Truth.UNKNOWN)},
    {"fault": replace(FAULTY, guards=Truth.TRUE)},
    {"fault": replace(FAULTY, agreed=False)},
    {"fresh": False},
)


def a_case(name: str, word: str, told: str, fenced: bool, unasked: bool) -> Job:
    record: dict[str, Any] = {
        "rung": 0,
        "index": 0,
        "name": name,
        "state": "Running",
        "attempts": 1,
        "startedAt": T0.isoformat(),
        "expiresAt": (T0 + timedelta(minutes=10)).isoformat(),
    }
    if word:
        output = {"asked": word, "machine": "fake:///n1", "was": "On (on)", "path": "InstanceGroup"}
        output |= {"target": "fake:///n1", "group": "pool-a"}
        record |= {
            "by": "Provider",
            "requestID": "r0s0a1",
            "askedAt": T0.isoformat(),
            "bootID": "boot-1",
            "output": output | ({"heard": told} if told else {}),
        }
    status = {
        "phase": "Running",
        "steps": [record],
        "permit": PERMIT | {"class": "Node"},
        "owned": {"cordon": True, "fenced": fenced},
    }
    job = a_job(
        {"name": "r", "steps": [{name: STEPS[name]}, {"wait": {"for": "1s"}}]}, status=status
    )
    job = replace(job, finalizer=True)
    return replace(job, requested=to_note(job))


def heard_of(word: str) -> tuple[JobActResult | None, ...]:
    if not word:
        return (None,)
    outcomes = (JobActResult(ACT[word], outcome=o, error=f"fake: {o}") for o in RequestOutcome)
    return (None, *outcomes)


def every_case(name: str) -> Iterator[tuple[Job, JobObservation]]:
    """Nobody has acted on a request that is `unasked`, so nothing was heard of it."""
    for word in WORDS[name]:
        tolds = ("", "taken", "unclear", "later", "gone") if word else ("",)
        nodes = (*NODES, None) if name == "replace" and word else NODES
        fars = FAR if name == "replace" else (None,)
        readings = (READINGS[0], *READINGS[4:7], READINGS[8]) if name == "replace" else READINGS
        for told, node, power, far in product(tolds, nodes, readings, fars):
            for at, unasked in product((timedelta(0), AGAIN, LATE), (False, True)):
                if unasked and (told or not word):
                    continue
                job = a_case(name, word, told, node is NODES[3], unasked)
                for heard in heard_of(word) if not told and not unasked else (None,):
                    for world in WORLDS if heard is None and at == timedelta(0) else WORLDS[:1]:
                        given = {"permit": granted(life=timedelta(hours=2)), **world}
                        yield (
                            job,
                            seen(
                                now=T0 + at,
                                node=node,
                                power=power,
                                replacing=far,
                                act_result=heard,
                                unasked=unasked,
                                **given,
                            ),
                        )


def new_boot(job: Job, now: JobObservation) -> bool:
    record = job.record
    assert record is not None and now.node is not None
    return len({"", record.boot_id, now.node.boot_id}) == 3


def dark(now: JobObservation, job: Job) -> bool:
    """Off or gone, or unknown to who had it before."""
    record, power = job.record, now.power
    assert record is not None and power is not None
    if power.power is not None:
        return power.power.state in (PowerState.OFF, PowerState.GONE)
    return power.outcome is RequestOutcome.GONE and "was" in record.output


PROOF: dict[str, Callable[[Job, JobObservation], bool]] = {
    "powerOff": lambda job, now: dark(now, job),
    "powerOn": lambda job, now: (
        now.power is not None
        and now.power.power is not None
        and now.power.power.state is PowerState.ON
    ),
    "powerCycle": new_boot,
    "reboot": new_boot,
    "fence": lambda job, now: now.node is not None and now.node.out_of_service,
    "replace": lambda job, now: (
        isinstance(now.step, ReplacementObservation)
        and (now.step.renewed or (now.node is None and now.step.gone))
    ),
}


def leave(now: JobObservation) -> bool:
    """What must be true when a machine is taken from its workloads."""
    fault = now.fault
    return now.fresh and now.permit is not None and fault.guards is Truth.FALSE


def repeats(job: Job, now: JobObservation) -> bool:
    return now.power is not None and now.power.can.repeatable


@pytest.mark.exhaustive
@pytest.mark.parametrize("name", STEPS)
def test_every_case_keeps_the_promises(name: str) -> None:
    acts, ends = set(), set()
    for job, now in every_case(name):
        after, act = step(job, now)
        told = (job.record, now)
        assert after == job or act is JobAct.NONE, told
        before, record = job.record, after.status.steps[0]
        assert before is not None
        acts.add(act)
        ends.add(record.state)
        word, heard = before.output.get("asked", ""), before.output.get("heard", "")
        if act in (PowerAct.RESET, ReplaceAct.REPLACE):
            assert now.unasked or (heard != "taken" and repeats(job, now)), ("twice", told)
        if act in ACT.values():
            assert act is ACT[word] and before.asked_at is not None, ("no intent", told)
        if act in (PowerAct.POWER_OFF, PowerAct.RESET, ReplaceAct.REPLACE, FenceAct.FENCE):
            assert leave(now), ("without leave", told)
        if act is ReplaceAct.REPLACE and now.unasked:
            plain = now.fault.evidence is Truth.TRUE and now.fault.agreed
            assert plain or dark(now, job), ("a machine that runs", told)
        if act is FenceAct.FENCE:
            assert dark(now, job) and job.finalizer and job.status.owned.fenced, told
        if act is PowerAct.POWER_ON:
            assert not (now.node is not None and now.node.fenced_by == JOB), (
                "behind a fence",
                told,
            )
        if record.state is StepState.DONE:
            assert PROOF[name](job, now), ("no proof", told)
        if now.now - T0 >= LATE and after.status.step == 0:
            ours_first = act is FenceAct.UNFENCE or after.status.owned != job.status.owned
            ours_first |= (word, record.output["asked"]) == ("off", "on") if word else False
            assert record.state is StepState.FAILED or ours_first, ("it never ends", told)
    assert StepState.DONE in ends and StepState.FAILED in ends
    wanted = {ACT[w] for w in WORDS[name] if w} | ({FenceAct.FENCE} if name == "fence" else set())
    assert wanted - {FenceAct.FENCE} <= acts, "a wish that is never asked for"


def test_f21_what_is_refused_fails_at_once_and_names_the_reason() -> None:
    job = a_case("powerOff", "off", "", False, False)
    now = seen(
        node=NODE,
        power=READINGS[1],
        act_result=JobActResult(
            PowerAct.POWER_OFF, outcome=RequestOutcome.REFUSED, error="fake: no right"
        ),
    )
    after, act = step(job, now)
    assert act is JobAct.NONE and after.phase is JobPhase.NEEDS_HUMAN
    assert "no right" in after.status.message


def test_f22_at_the_deadline_the_controller_fails_the_step() -> None:
    job = a_case("reboot", "reset", "taken", False, False)
    after, _ = step(job, seen(now=T0 + timedelta(minutes=10), node=NODE))
    assert after.phase is JobPhase.NEEDS_HUMAN
    assert after.status.steps[0].state is StepState.FAILED
    assert "not back with a new boot within 10m" in after.status.message


@pytest.mark.parametrize("told", ["", "unclear", "later"])
def test_after_a_crash_a_reset_is_only_awaited(told: str) -> None:
    job = a_case("reboot", "reset", told, False, False)
    assert step(job, seen(node=NODE, power=READINGS[1])) == (job, JobAct.NONE)


def test_a_request_that_nobody_acted_on_is_withdrawn_when_leave_is_gone() -> None:
    job = a_case("powerCycle", "reset", "", False, True)
    unclear = replace(FAULTY, evidence=Truth.UNKNOWN)
    after, act = step(job, seen(node=NODE, power=READINGS[1], fault=unclear, unasked=True))
    assert act is JobAct.NONE and not after.in_flight
    assert after.status.hold is not None and after.status.hold.reason == "FaultUnknown"


def test_a_boot_that_the_host_made_before_it_was_off_is_no_proof() -> None:
    """It booted by itself while it was to be switched off: off and on are still to come."""
    job = a_case("powerCycle", "off", "taken", False, False)
    booted = replace(NODE, boot_id="boot-2")
    after, act = step(job, seen(node=booted, power=reading(PowerState.OFF)))
    record = after.status.steps[0]
    assert act is JobAct.NONE and record.state is StepState.RUNNING
    assert (record.output["asked"], record.boot_id) == ("on", "boot-2")


def test_a_machine_that_was_switched_off_to_boot_is_switched_on_however_late_it_is() -> None:
    """The operator died while it was off; at its deadline it was left dark, and to a person."""
    late, off = T0 + LATE, reading(PowerState.OFF)
    job = a_case("powerCycle", "off", "taken", False, False)
    dark, act = step(job, seen(now=late, node=NODE, power=off))
    record = dark.status.steps[0]
    assert (act, record.state, record.output["asked"]) == (JobAct.NONE, StepState.RUNNING, "on")
    end = late + timedelta(minutes=10)
    assert record.expires_at == end, "it has the time of a boot from then on"
    asked = step(dark, seen(now=late, node=NODE, power=off, unasked=True))
    assert asked == (dark, PowerAct.POWER_ON)
    soon = seen(now=end - timedelta(seconds=1), node=NODE, power=reading(PowerState.ON))
    assert step(dark, soon)[0].status.steps[0].state is StepState.RUNNING
    over, _ = step(dark, replace(soon, now=end))
    assert over.status.steps[0].state is StepState.FAILED
    back, _ = step(dark, replace(soon, node=replace(NODE, boot_id="boot-2")))
    assert back.status.steps[0].state is StepState.DONE


# -- the agent's word on a reboot ------------------------------------------------------------------


def asked_of_the_agent(via: tuple[str, ...], answer: dict[str, Any] | None) -> Job:
    record = {
        "rung": 0,
        "index": 0,
        "name": "reboot",
        "state": "Running",
        "attempts": 1,
        "by": "Agent",
        "requestID": "r0s0a1",
        "bootID": "boot-1",
        "startedAt": T0.isoformat(),
        "askedAt": T0.isoformat(),
        "expiresAt": (T0 + timedelta(minutes=2)).isoformat(),
    }
    status = {
        "phase": "Running",
        "steps": [record],
        "permit": PERMIT | {"class": "Node"},
        "agent": {"requests": {"r0s0a1": answer}} if answer is not None else None,
    }
    reboot = {"reboot": {"via": list(via), "timeout": "10m"}}
    job = a_job({"name": "r", "steps": [reboot, {"wait": {"for": "1s"}}]}, status=status)
    return replace(job, finalizer=True)


@pytest.mark.parametrize("state", ["Running", "Done", "Failed", "Refused"])
@pytest.mark.parametrize("named", ["", "boot-1", "boot-2"])
@pytest.mark.parametrize("told", ["", "boot-1", "boot-2"])
@pytest.mark.parametrize("via", [("Agent",), ("Agent", "Provider")])
def test_only_the_hosts_word_or_the_answer_of_who_did_it_proves_a_boot(
    state: str, named: str, told: str, via: tuple[str, ...]
) -> None:
    """The boot in an answer that says no is the one that was refused for: it was there before."""
    job = asked_of_the_agent(via, {"state": state, "bootID": named, "output": "another boot"})
    after, _ = step(job, seen(node=replace(NODE, boot_id=told)))
    proven = told == "boot-2" or (state == "Done" and named == "boot-2")
    assert (after.status.steps[0].state is StepState.DONE) is proven


@pytest.mark.parametrize("state", ["Failed", "Refused"])
def test_an_agent_of_another_boot_that_says_no_is_no_reason_to_reset_its_host_at_once(
    state: str,
) -> None:
    """It may have booted as it was asked to, and have lost its journal: its Lease will tell."""
    job = asked_of_the_agent(
        ("Agent", "Provider"), {"state": state, "bootID": "boot-2", "output": "another boot"}
    )
    for later in (timedelta(0), timedelta(minutes=2)):
        assert step(job, seen(now=T0 + later, node=NODE)) == (job, JobAct.NONE)
    after, _ = step(job, seen(now=T0 + timedelta(minutes=2, seconds=5), node=NODE))
    assert "another boot" in after.status.steps[0].output["Agent"]
    same = asked_of_the_agent(("Agent", "Provider"), {"state": state, "bootID": "boot-1"})
    after, _ = step(same, seen(node=NODE))
    assert "Agent" in after.status.steps[0].output, "it says no to what it was asked"


@pytest.mark.parametrize(("name", "word"), [("reboot", "reset"), ("replace", "replace")])
def test_what_must_not_be_asked_twice_is_noted_before_it_is_asked(name: str, word: str) -> None:
    job = a_case(name, word, "", False, True)
    far = (
        ReplacementObservation("InstanceGroup", "fake:///n1", "pool-a")
        if name == "replace"
        else None
    )
    now = seen(
        now=T0, node=NODES[0], power=READINGS[0], replacing=far, unasked=True, permit=granted()
    )
    assert step(replace(job, requested=None), now)[1] is JobAct.NOTE_REQUEST
    assert step(job, now)[1] is ACT[word]


def test_a_noted_request_is_read_as_it_was_written_and_anything_else_is_none() -> None:
    noted = Requested("reset", "r0s0a1", "boot-1", T0)
    assert Requested.of(str(noted)) == noted
    for text in (None, "", "reset", "reset r0s0a1 boot-1 yesterday", "a b c 2026-01-01T00:00:00"):
        assert Requested.of(text) is None
