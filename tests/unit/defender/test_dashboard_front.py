"""The Fleet page's headline and rows: faults first, and calm only if nothing is missing."""

from datetime import timedelta
from typing import Any

import msgspec
import pytest
from support.dashboard_scenes import NOW, a_scene, busy, headline, rows
from support.dashboard_world import a_job, a_node, a_rule, condition, some_rollouts, some_rules

from defender.dashboard.rollout import SetRollout
from defender.dashboard.views import job, nodes, would_have
from defender.dashboard.views.attention import first_glance
from defender.overview.programs import ProgramSight
from defender.overview.records import RecordView
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.site.parts import Summary


def test_headline_counts_faulty_nodes_first_and_says_apart_what_is_done() -> None:
    found = headline(busy())
    assert found.sentence == "7 of 8 nodes have a fault: KernelDeadlock on 7."
    assert [text for _, text in found.activities] == [
        "2 jobs wait for a person",
        "3 jobs are held",
        "2 nodes are being repaired",
    ]
    assert not found.calm and found.since is not None
    calm = headline(a_scene([a_node("n1")]))
    assert calm.calm and "All is well" in calm.sentence


def test_fault_of_a_rule_in_dry_run_is_in_the_headline_and_says_what_would_be_done() -> None:
    ill = a_node("n1")
    ill["metadata"]["uid"] = "u1"
    ill["status"]["conditions"].append(condition("KernelDeadlock", "True", "Hung", "", 60.0))
    last = {"at": "2026-11-22T02:30:00Z", "rung": "reboot", "steps": "cordon, migrate, reboot",
            "said": "Kube Defender would have granted it"}  # fmt: skip
    run = {"remedier": "deadlock", "faultClass": "deadlock", "count": 1, "recent": [last]}
    body = {"metadata": {"name": "n1"}, "spec": {"nodeUID": "u1", "dryRuns": [run]}}
    record = msgspec.convert(body, RecordView, strict=False)
    scene = a_scene([ill], [], [a_rule("deadlock", "DryRun")], records={"n1": record})
    assert headline(scene).sentence == "1 of 1 nodes has a fault: KernelDeadlock on 1."
    (row,) = rows(scene, "dry-run")
    (shown,) = would_have.view(scene, {})["rules"]
    assert isinstance(shown, would_have.WouldHaveRow)
    assert (shown.key, shown.times, shown.lasting, shown.nodes) == ("deadlock", 1, 1, ("n1",))
    assert (shown.granted, shown.refused, shown.steps) == (1, 0, "cordon, migrate, reboot")
    assert row.title == "n1 would be repaired by deadlock, which is in DryRun"
    assert "cordon, migrate, reboot" in row.why and "would have granted" in row.why


@pytest.mark.parametrize(
    ("given", "title", "press"),
    [
        ({"programs": ProgramSight({}), "rules": 1}, "The Remedy operator has no leader", ""),
        ({"rollouts": 1}, "Rollout of containerd has stopped: AutoPaused", "See the rollout"),
        (
            {"programs": ProgramSight({"kubenode-remedy": 1.0}, set()), "rules": 1},
            "0 of 1 nodes have an agent; 4 rules need one",
            "",
        ),
        ({"rules": 1}, "Rule gpu-lost cannot act", "See the rules"),
        ({"late": ("nodes",)}, "", ""),
        ({"ready": "the lease is not held"}, "", ""),
    ],
)
def test_all_is_well_is_not_said_while_something_needs_a_person(
    given: dict[str, Any], title: str, press: str
) -> None:
    if "rollouts" in given:
        made = msgspec.convert(some_rollouts()[1], SetRollout, strict=False)
        given = given | {"rollouts": {"containerd": made}}
    rule_bodies = some_rules() if "rules" in given else []
    given = {name: value for name, value in given.items() if name != "rules"}
    scene = a_scene([a_node("n1")], [], rule_bodies, **given)
    glance = first_glance(scene)
    assert not glance.headline.calm and "All is well" not in glance.headline.sentence
    if title:
        (row,) = [row for row in glance.rows if row.title == title]
        assert (row.press, bool(row.may)) == (press, True)


def test_row_of_an_open_breaker_tells_its_cause_then_and_the_count_now() -> None:
    sick = [a_node(f"n{i}", ready="False" if i < 20 else "True") for i in range(30)]
    scene = a_scene(sick)
    scene.control.advance(NOW)
    scene.control.node_changed("n0", msgspec.convert(a_node("n0"), Node, strict=False), NOW)
    row = rows(scene, "breaker")[0]
    assert row.why.startswith("When it opened: ")
    assert row.why.endswith(" Now: 19 of 30 nodes are unhealthy.")


def test_held_jobs_are_shown_since_their_hold_began() -> None:
    waiting = a_job("n1", "AwaitingPermit", hold=("RateLimit", "cluster", "9 of 9"))
    waiting["metadata"]["creationTimestamp"] = "2026-11-22T01:00:00Z"
    waiting["status"]["hold"]["since"] = "2026-11-22T02:50:00Z"
    (row,) = rows(a_scene([a_node("n1")], [waiting]), "held")
    assert row.since == NOW - timedelta(minutes=10)


@pytest.mark.parametrize(
    ("created", "titles"),
    [
        ("02:55:00", ["n1 held: NoVerdict"]),
        ("02:56:00", []),
    ],
)
def test_job_that_no_verdict_answered_is_shown_after_five_minutes(
    created: str, titles: list[str]
) -> None:
    waiting = a_job("n1", "AwaitingPermit")
    waiting["metadata"]["creationTimestamp"] = f"2026-11-22T{created}Z"
    found = rows(a_scene([a_node("n1")], [waiting]), "held")
    assert [row.title for row in found] == titles
    assert all(row.why and row.may for row in found)


def test_figures_of_a_hold_are_those_of_its_last_request() -> None:
    held = rows(busy(), "held")[0]
    assert held.why.startswith("At the last request: kubenode.io/rack=1b-r01: 1 of 1")
    view = job.view_job(busy(), "n00004-0a1b2c3d4e")
    assert view is not None
    (card,) = view["hold"]
    assert isinstance(card, job.HoldCard) and card.message == held.why


def test_deny_says_that_no_other_job_follows_as_the_command_line_does() -> None:
    view = job.view_job(busy(), "n00062-0a1b2c3d4e")
    assert view is not None
    (card,) = view["decide"]
    assert isinstance(card, job.DecideCard)
    assert "No other job follows while the fault lasts" in card.words[1].means


@pytest.mark.parametrize(
    ("mode", "sentence"),
    [
        ("DryRun", "1 rule is in DryRun, and would have begun no repair."),
        ("Enforce", "No rule is in DryRun."),
    ],
)
def test_page_of_dry_runs_says_that_nothing_would_have_begun(mode: str, sentence: str) -> None:
    view = would_have.view(a_scene([a_node("n1")], [], [a_rule("r", mode)]), {})
    (found,) = view["found"]
    assert isinstance(found, Summary) and found.sentence == sentence
    assert view["rules"] == []


def test_node_page_tells_faults_and_dry_runs() -> None:
    ill = a_node("n1")
    ill["status"]["conditions"].append(condition("KernelDeadlock", "True", "Hung", "", 60.0))
    view = nodes.view_node(a_scene([ill], [], [a_rule("deadlock", "DryRun")]), "n1")
    assert view is not None
    (head,) = view["node"]
    assert isinstance(head, nodes.NodeHead)
    assert [name for name, _ in head.faults] == ["KernelDeadlock"]
    assert head.cell.state == "Faulty" and head.health == "Healthy"
