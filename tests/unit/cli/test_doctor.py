"""`kubenode doctor`: each check says ok, warning or problem, and what to do."""

from collections.abc import Iterable
from copy import deepcopy
from dataclasses import replace
from typing import Any

import msgspec
import pytest
from support.dashboard_world import a_node, a_rule, condition, now

from defender.dashboard.rule import RuleView
from kubenode.cli.cluster import crds
from kubenode.cli.defender_objects import DefenderObjects
from kubenode.cli.doctor import RIGHTS, judge, lines
from kubenode.cli.doctor_checks import (
    CheckResult,
    CheckState,
    WebhookState,
    check_agents,
    check_clocks,
    check_definitions,
    check_detectors,
    check_programs,
    check_receivers,
    check_rights,
    check_rules,
    check_version,
    check_webhooks,
)
from kubenode.cli.fleet_state import FleetState
from kubenode.runtime.kube.objects import Node

OK, WARNING, PROBLEM = CheckState.OK, CheckState.WARNING, CheckState.PROBLEM
RESTART = [{"name": "r", "steps": [{"agent": {"action": "RestartUnit", "unit": "a.service"}}]}]
WEBHOOK = WebhookState("kubenode-remedy", "noderemediers.kubenode.io", "ns/svc", 2, True)


def node(*types: str) -> Node:
    body = a_node("n1")
    body["status"]["conditions"] += [condition(t, "False", "Fine", "", 600.0) for t in types]
    return msgspec.convert(body, Node, strict=False)


def rule(name: str = "r", mode: str = "Enforce", **spec: Any) -> RuleView:
    body = a_rule(name, mode)
    body["status"] |= spec.pop("status", {})
    body["spec"] |= spec
    return msgspec.convert(body, RuleView, strict=False)


WHEN = {"condition": {"type": "KernelDeadlock", "status": "True"}}


def state(*rules: RuleView, **given: Any) -> FleetState:
    objects = DefenderObjects({"n1": given.pop("node", node("KernelDeadlock"))}, (), (), ())
    usual: dict[str, Any] = {"leases": {"kubenode-all": 1.0}, "agents": frozenset({"n1"})}
    by_name = {each.metadata.name: each for each in rules}
    return FleetState(now(), objects, by_name, **(usual | given))


def judged(results: Iterable[CheckResult] | CheckResult) -> list[CheckState]:
    each = [results] if isinstance(results, CheckResult) else list(results)
    assert all(result.remedy for result in each if result.state is not OK), "each says what to do"
    return [result.state for result in each]


@pytest.mark.parametrize(
    ("answer", "verdict"),
    [
        ({"major": "1", "minor": "38", "gitVersion": "v1.38.0"}, WARNING),
        ({"major": "1", "minor": "37", "gitVersion": "v1.37.2"}, OK),
        ({"major": "1", "minor": "32+", "gitVersion": "v1.32.1-gke.5"}, OK),
        ({"major": "1", "minor": "31"}, OK),
        ({"major": "1", "minor": "30"}, PROBLEM),
        ({}, WARNING),
        ({"major": "one", "minor": None}, WARNING),
    ],
)
def test_server_version_must_be_supported(answer: dict[str, Any], verdict: CheckState) -> None:
    assert judged(check_version(answer)) == [verdict]


def test_a_missing_right_to_read_is_a_problem_and_one_to_act_a_warning() -> None:
    everything = dict.fromkeys(RIGHTS, True)
    assert judged(check_rights(everything)) == [OK]
    for right in RIGHTS:
        (result,) = check_rights(everything | {right: False})
        assert result.state is (PROBLEM if right.verb == "list" else WARNING)
        assert right.role in result.remedy and right.resource in result.text


OWN = crds()
ESTABLISHED = {"conditions": [{"type": "Established", "status": "True"}]}
LIVE = {crd["metadata"]["name"]: deepcopy(crd) | {"status": ESTABLISHED} for crd in OWN}


class TestDefinitions:
    def test_kinds_of_this_version_are_ok_with_defaults_of_the_server(self) -> None:
        live = deepcopy(LIVE)
        for each in live.values():
            each["spec"]["conversion"] = {"strategy": "None"}
        assert judged(check_definitions(OWN, live)) == [OK]

    def test_a_missing_kind_is_a_problem(self) -> None:
        (result,) = check_definitions(OWN, LIVE | {"permits.kubenode.io": None})
        assert result.state is PROBLEM and "kubenode install" in result.remedy
        assert "permits.kubenode.io" in result.text

    def test_a_kind_of_another_version_is_a_problem(self) -> None:
        live = deepcopy(LIVE)
        version = live["permits.kubenode.io"]["spec"]["versions"][0]
        version["schema"]["openAPIV3Schema"]["properties"].pop("spec")
        (result,) = check_definitions(OWN, live)
        assert result.state is PROBLEM and "of another version: permits" in result.text

    def test_a_kind_that_is_not_established_is_a_problem(self) -> None:
        live = deepcopy(LIVE)
        live["permits.kubenode.io"]["status"] = {}
        assert judged(check_definitions(OWN, live)) == [PROBLEM]

    def test_without_the_right_to_read_them_it_is_a_warning(self) -> None:
        assert judged(check_definitions(OWN, None)) == [WARNING]


@pytest.mark.parametrize(
    ("leases", "verdicts"),
    [
        ({"kubenode-all": 1.0}, [OK]),
        ({"kubenode-defender": 1.0, "kubenode-remedy": 1.0}, [OK]),
        ({"kubenode-defender": 1.0}, [PROBLEM]),
        ({"kubenode-remedy": 1.0}, [PROBLEM]),
        ({"kubenode-all": 1000.0}, [PROBLEM, PROBLEM]),
        (None, [WARNING]),
    ],
)
def test_each_program_needs_a_leader(
    leases: dict[str, float] | None, verdicts: list[CheckState]
) -> None:
    assert judged(check_programs(state(rule(), leases=leases))) == verdicts


@pytest.mark.parametrize(
    ("webhooks", "verdicts"),
    [
        ([WEBHOOK], [OK]),
        ([replace(WEBHOOK, endpoints=0)], [PROBLEM]),
        ([replace(WEBHOOK, endpoints=None)], [OK]),
        ([replace(WEBHOOK, trusted=False)], [PROBLEM]),
        ([], [WARNING]),
        ([replace(WEBHOOK, configuration="kubenode-machine")], [WARNING, OK]),
        (None, [WARNING]),
    ],
)
def test_a_webhook_must_be_registered_and_have_endpoints(
    webhooks: list[WebhookState] | None, verdicts: list[CheckState]
) -> None:
    assert judged(check_webhooks(webhooks)) == verdicts


def test_agents_are_a_problem_where_a_rule_needs_one() -> None:
    needing = rule(when=WHEN, ladder=RESTART)
    assert judged(check_agents(state(needing))) == [OK]
    result = check_agents(state(needing, agents=frozenset()))
    assert result.state is PROBLEM
    assert result.text == "0 of 1 nodes have an agent, and 1 rules need one: r"
    idle = rule(when=WHEN, ladder=[{"name": "page", "steps": [{"notify": {}}]}])
    assert judged(check_agents(state(idle, agents=frozenset()))) == [OK]


def test_a_clock_that_is_off_is_named_with_its_offset() -> None:
    assert judged(check_clocks(state(offsets={"n1": 0.2}))) == [OK]
    result = check_clocks(state(offsets={"n1": 0.2, "n2": -7.25}))
    assert result.state is WARNING and "n2 -7.2 s" in result.text and "n1" not in result.text


def test_receivers_that_rules_name_must_be_in_the_file() -> None:
    step = {"notify": {"receivers": ["pager"]}}
    rules = [rule(notify=["chat"], ladder=[{"name": "x", "steps": [step]}])]
    assert judged(check_receivers([rule(ladder=[])], None)) == [OK]
    unchecked = check_receivers(rules, None)
    assert unchecked.state is WARNING and "chat, pager" in unchecked.text
    assert judged(check_receivers(rules, {"chat", "pager"})) == [OK]
    missing = check_receivers(rules, {"chat"})
    assert missing.state is PROBLEM and missing.text.endswith(": pager")


def test_conditions_that_no_rule_reads_and_that_no_node_has_are_named() -> None:
    reading = rule(when={"all": [WHEN]}, ladder=[])
    assert judged(check_detectors(state(reading))) == [OK]
    (unread,) = check_detectors(state(reading, node=node("KernelDeadlock", "RaidDegraded")))
    assert unread.state is WARNING and unread.text.endswith(": RaidDegraded")
    (absent,) = check_detectors(state(reading, node=node()))
    assert absent.state is WARNING and absent.text.endswith(": KernelDeadlock")


def test_rules_that_can_never_act_are_named_with_the_reason() -> None:
    assert judged(check_rules(state(rule()))) == [OK]
    assert judged(check_rules(state(rule(mode="Off")))) == [WARNING]
    acting = rule(when=WHEN, ladder=RESTART, mode="DryRun")
    (result,) = check_rules(state(acting))
    assert result.text == "1 rules, and each can match: 1 in DryRun"
    (result,) = check_rules(state(rule(when=WHEN, mode="Enforce", ladder=[])))
    assert result.text == "1 rules, and each can match: 1 only infer causes"
    nowhere = rule(status={"wouldReach": {"nodes": 0}})
    assert judged(check_rules(state(nowhere))) == [WARNING]
    dead = rule(status={"phase": "Rejected"})
    (result,) = check_rules(state(dead))
    assert result.state is PROBLEM and "r cannot act: it is Rejected" in result.text


def test_the_report_has_a_line_for_each_check_and_the_counts() -> None:
    results = judge(state(rule(when=WHEN)), [replace(WEBHOOK, endpoints=0)], None)
    shown = lines(results)
    assert len([line for line in shown if line.startswith(("ok ", "warning ", "problem "))]) == len(
        results
    )
    assert any(line.strip().startswith("-> start its program") for line in shown)
    assert shown[-1].endswith("1 problem")
