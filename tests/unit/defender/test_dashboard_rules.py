"""Faults in words, and what the pages of jobs and rules are filtered and ordered by."""

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from support.dashboard_scenes import NOW, a_scene, busy
from support.dashboard_world import a_job, a_node, a_rule

from defender.dashboard.render import Renderer
from defender.dashboard.views import jobs, rule, rules
from defender.dashboard.views.job import HoldCard, hold_of
from defender.dashboard.views.rules import RuleRow
from defender.decision.jobs import ObservedJob
from defender.overview.evidence import describe_evidence, describe_fault, describe_rung
from defender.server.node_events import MOST_SHOWN, list_events
from kubenode.api.meta import format_time
from kubenode.runtime.kube.objects import Event

DEADLOCK = {"condition": {"type": "KernelDeadlock", "status": "True", "for": "30s"}}
PRESSURE = {"condition": {"type": "DiskPressure", "status": "True"}}


def names(params: dict[str, str], page: Any = rules) -> list[str]:
    slot = "rules" if page is rules else "jobs"
    return [row.key for row in page.view(busy(), params)[slot]]


# -- words


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (DEADLOCK, "condition KernelDeadlock=True for 30s"),
        ({"not": PRESSURE}, "not condition DiskPressure=True"),
        (
            {"all": [DEADLOCK, {"any": [PRESSURE, PRESSURE]}]},
            "condition KernelDeadlock=True for 30s and"
            " (condition DiskPressure=True or condition DiskPressure=True)",
        ),
        ({"nonsense": 1}, ""),
        ({"condition": {"type": 7}}, ""),
        (None, ""),
    ],
)
def test_evidence_is_described_or_empty(expression: Any, words: str) -> None:
    assert describe_evidence(expression) == words


def test_fault_classes_and_rungs_are_words() -> None:
    assert describe_fault("kernel_deadlock") == "Kernel deadlock"
    assert describe_fault("fs_readonly") == "File system readonly"
    assert describe_fault("host-pid_near") == "Host PID near"
    assert describe_fault("") == ""
    assert describe_rung({"steps": [{"cordon": {}}, {"reboot": {}}]}) == "cordon, reboot"
    assert describe_rung({"steps": [{"<script>": {}}]}) == ""
    assert describe_rung({"steps": 3}) == ""


# -- jobs


def test_a_job_says_its_fault_and_not_only_its_limit() -> None:
    row = jobs.row_of(busy(), busy().jobs["n00004-0a1b2c3d4e"])
    assert (row.fault, row.evidence) == (
        "Kernel deadlock", "condition KernelDeadlock True for 2m",
    )  # fmt: skip
    assert "permits are held" in row.why
    html = Renderer().part(row, "")
    assert 'data-label="Fault">Kernel deadlock' in html


def test_jobs_that_need_a_person_to_repair_come_first() -> None:
    phases = [a_job("n1", "AwaitingApproval"), a_job("n2", "NeedsHuman"), a_job("n3", "Running")]
    rows = jobs.view(a_scene([a_node("n1")], phases), {})["jobs"]
    assert [row.key[:2] for row in rows] == ["n2", "n1", "n3"]


def test_the_text_filter_finds_node_rule_fault_and_reason() -> None:
    assert names({"q": "N00093"}, jobs) == ["n00093-0a1b2c3d4e"]
    assert names({"q": "diskpressure"}, jobs) == ["n00062-0a1b2c3d4e"]
    assert names({"q": "disk-pressure", "show": "person"}, jobs) == ["n00062-0a1b2c3d4e"]
    assert names({"q": "no such text"}, jobs) == []


def test_time_of_the_next_request_is_shown_only_while_it_is_to_come() -> None:
    for seconds, shown in ((1, True), (-1, False)):
        body = a_job("n1", "AwaitingPermit", hold=("RateLimit", "", "too many"))
        body["status"]["hold"]["lookAgainAt"] = format_time(NOW + timedelta(seconds=seconds))
        (card,) = cards(body)
        assert (card.look_again_at is not None) is shown


def cards(body: dict[str, Any]) -> list[HoldCard]:
    observed = msgspec.convert(body, ObservedJob, strict=False)
    return list(hold_of(a_scene([a_node("n1")]), observed))


# -- rules


def test_rules_with_jobs_for_a_person_come_first() -> None:
    assert names({}) == ["kernel-deadlock", "disk-pressure", "gpu-lost"]
    assert names({"show": "person"}) == ["kernel-deadlock", "disk-pressure"]


def test_long_evidence_of_a_rule_is_cut_in_the_list() -> None:
    row = next(row for row in rules.view(busy(), {})["rules"] if isinstance(row, RuleRow))
    html = Renderer().part(replace(row, evidence="condition A " * 100), "")
    assert "condition A" in html and html.count("condition A") < 25 and "..." in html


def test_rules_are_filtered_by_text_and_mode() -> None:
    assert names({"show": "all", "mode": "DryRun"}) == ["ntp-problem"]
    assert names({"show": "all", "q": "gpu"}) == ["gpu-lost"]
    assert names({"show": "all", "q": "Kernel deadlock"}) == ["kernel-deadlock"]


def test_a_rule_has_a_page_with_evidence_and_ladder() -> None:
    view = rule.view(busy(), "kernel-deadlock")
    assert view is not None
    html = Renderer().part(view["rule"][0], "")
    assert "<h1>Kernel deadlock</h1>" in html
    assert "condition KernelDeadlock=True for 30s" in html
    assert "<b>reboot</b>: cordon, migrate, reboot" in html
    assert len(view["jobs"]) == 7
    assert rule.view(busy(), "nothing") is None


def test_a_guard_is_described() -> None:
    body = a_rule("r")
    body["spec"]["unless"] = PRESSURE
    view = rule.view(a_scene([a_node("n1")], [], [body]), "r")
    assert view is not None
    assert "Held back while</dt><dd>condition DiskPressure=True" in Renderer().part(
        view["rule"][0], ""
    )


# -- Events


def test_the_latest_events_are_shown_first_and_the_rest_counted() -> None:
    bodies: list[dict[str, Any]] = [
        {
            "metadata": {"name": f"e{n}"},
            "reason": f"R{n}",
            "lastTimestamp": f"2026-11-22T02:{n:02d}:00Z",
        }
        for n in range(MOST_SHOWN + 2)
    ]
    series = {"count": 4, "lastObservedTime": "2026-11-22T03:00:00.000000Z"}
    bodies.append({"metadata": {"name": "s"}, "reason": "Series", "series": series})
    events = list_events(msgspec.convert(bodies, list[Event], strict=False))
    assert (events.rows[0].reason, events.rows[0].count) == ("Series", 4)
    assert events.rows[0].at == datetime(2026, 11, 22, 3, tzinfo=UTC)
    assert events.rows[1].reason == f"R{MOST_SHOWN + 1}"
    assert (len(events.rows), events.more) == (MOST_SHOWN, 3)
