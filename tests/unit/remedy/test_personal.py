"""A job that a person started goes by their word; guards, and the end of the incident, by facts."""

from datetime import timedelta
from typing import Any

from support.clock import T0
from support.remedy_builders import a_job
from support.remedy_hand import RULE, Hands
from support.running import running

from remedy.job.model import FaultAssessment, Job
from remedy.remedier.judge import Judge
from rules.truth import Truth

MINUTE = timedelta(minutes=1)
HELD = {"label": {"key": "keep", "exists": True}}
SILENT = {"probe": {"name": "host.runtime_state", "equals": "ok"}}


async def a_cluster(sick: str = "False", **node: Any) -> Hands:
    """No rule is loaded: none is asked."""
    hands = Hands()
    hands.node(Ready=("True", T0 - MINUTE), Sick=(sick, T0 - MINUTE), **node)
    return hands


async def judged(hands: Hands, job: Job) -> FaultAssessment:
    operator = hands.operator
    judge = Judge(operator.evaluator, operator.rules, operator.facts, hands.clock)
    async with running(operator.evaluator.run()):
        return await judge.fault(job)


def by_hand(**changes: Any) -> Job:
    return a_job(**{"when": RULE["when"], "nodeUID": "uid-n1", "remedier": None, **changes})


async def test_a_persons_word_is_the_evidence_whatever_is_seen() -> None:
    for sick in ("True", "False"):
        fault = await judged(await a_cluster(sick), by_hand())
        assert (fault.evidence, fault.agreed) == (Truth.TRUE, True)
        assert fault.guards is Truth.FALSE


async def test_a_guard_holds_it_back_and_is_named() -> None:
    hands = await a_cluster(labels={"keep": "yes"})
    fault = await judged(hands, by_hand(unless=HELD))
    assert fault.guards is Truth.TRUE
    assert fault.why.startswith("the guards are true: ") and "keep" in fault.why


async def test_a_guard_that_nobody_can_answer_does_not() -> None:
    fault = await judged(await a_cluster(), by_hand(unless=SILENT))
    assert fault.guards is Truth.FALSE


async def test_facts_that_are_out_of_date_let_no_guard_pass() -> None:
    hands = await a_cluster()
    hands.nodes.current(False)
    fault = await judged(hands, by_hand(unless=HELD))
    assert fault.guards is Truth.UNKNOWN


async def test_another_node_under_the_name_is_not_judged() -> None:
    fault = await judged(await a_cluster(), by_hand(nodeUID="uid-of-before"))
    assert fault.evidence is Truth.UNKNOWN and "another node" in fault.why


async def test_the_end_of_its_incident_is_what_is_seen() -> None:
    """Else a job that a person has ended would keep every rule from the node for days."""
    over = {"phase": "Cancelled", "timeline": {"closed": T0.isoformat()}}
    assert (await judged(await a_cluster("False"), by_hand(status=over))).evidence is Truth.FALSE
    assert (await judged(await a_cluster("True"), by_hand(status=over))).evidence is Truth.TRUE
