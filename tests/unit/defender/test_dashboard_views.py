"""What each page shows, from scenes that are put together by hand."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import msgspec
import pytest
from support.dashboard_scenes import NOW, a_scene, busy, rows
from support.dashboard_world import (
    a_job,
    a_machine,
    a_machine_set,
    a_member,
    a_node,
    a_rollout,
    a_rule,
    some_rollouts,
)

from defender.dashboard.acts import cannot_decide
from defender.dashboard.forms import ends, wanted_pause
from defender.dashboard.machine import RolloutMachine
from defender.dashboard.machine_set import MachineSetView
from defender.dashboard.pages import PAGES
from defender.dashboard.render import Renderer
from defender.dashboard.rollout import SetRollout
from defender.dashboard.scene import Scene
from defender.dashboard.views import breakers, budgets, job, jobs, nodes, pauses, rollouts, rules
from defender.dashboard.views.attention import first_glance
from defender.dashboard.views.freshness import freshness
from defender.dashboard.views.holds import HOLDS, HOLDS_MAY, NO_VERDICT
from defender.decision.jobs import ObservedJob
from defender.server.eviction import preview
from kubenode.api.v1alpha1.defenderpolicy import Pause
from kubenode.api.v1alpha1.permit import HoldReason, Reason
from kubenode.runtime.kube.objects import Pod, PodDisruptionBudget
from kubenode.runtime.site.parts import Summary, View
from kubenode.runtime.site.text import seconds

EVIL = "<script>alert(1)</script><img src=x onerror=alert(2)>\"'`{{191*193}}"


# -- what needs somebody


def test_those_who_wait_for_a_person_come_first_and_say_what_pressing_does() -> None:
    approval, human = rows(busy(), "person")
    assert approval.title == "n00062 waits for approval"
    assert approval.press == "Approve or deny"
    assert "within the limits" in approval.may
    assert human.title == "n00093 needs a person"
    assert first_glance(busy()).rows[0].kind == "person", "no breaker is open"


def test_holds_are_summed_up_by_reason_and_scope() -> None:
    many, one = rows(busy(), "held")
    assert many.title == "2 jobs held: ConcurrencyLimit"
    assert many.link == "/jobs?reason=ConcurrencyLimit"
    assert one.title == "n00033 held: PDBBlocked"
    assert one.why == "PodDisruptionBudget shop/cart allows 0 disruptions; pod shop/cart-0"


def test_a_pause_says_whose_it_is_and_one_that_is_over_is_gone() -> None:
    kept = Pause(by="ada", why="switch work", until=NOW + timedelta(hours=1))
    over = Pause(scope="Node", value="n1", until=NOW - timedelta(hours=1))
    (row,) = rows(a_scene([a_node("n1")], pauses_=[kept, over]), "pause")
    assert (row.title, row.link) == ("Paused: cluster", "/pauses")
    assert row.why == "by ada until 2026-11-22 04:00 UTC: switch work"


def test_many_who_wait_are_a_bounded_list() -> None:
    found = [a_job(f"n{i}", "NeedsHuman") for i in range(40)]
    told = rows(a_scene([a_node("n1")], found), "person")
    assert len(told) == 13
    assert told[-1].title == "28 more jobs wait for a person"


def test_every_reason_to_hold_a_job_is_explained_but_those_that_explain_themselves() -> None:
    known = {*Reason, *HoldReason, NO_VERDICT}
    assert known >= HOLDS_MAY.keys()
    assert known - HOLDS.keys() <= {"Granted"}


# -- the data's truth


def test_what_is_not_current_is_said_and_what_follows_from_it() -> None:
    scene = a_scene([])
    assert freshness(scene) == []
    assert "nodes" in freshness(replace(scene, late=("nodes",)))[0].text
    assert "lease" in freshness(replace(scene, ready="the lease is not held"))[0].text
    assert freshness(replace(scene, loaded=False, ready="x"))[0].key == "loading"


# -- jobs


def test_job_row_shows_the_evidence_that_held_and_not_the_whole_explanation() -> None:
    body = a_job("n1", "Running", explanation="rule r, node n1\n  when:\n    + condition A")
    facts = [
        {"atom": "condition A is True", "value": True},
        {"atom": "condition B is False", "value": False},
        {"atom": "probe c was not answered"},
        {"atom": "fact d is 3", "value": True},
    ]
    body["spec"]["trigger"]["facts"] = facts
    row = jobs.row_of(a_scene([a_node("n1")]), msgspec.convert(body, ObservedJob, strict=False))
    assert row.evidence == "condition A is True; fact d is 3"
    body["spec"]["trigger"] = {"explanation": "alice: new kernel"}
    row = jobs.row_of(a_scene([a_node("n1")]), msgspec.convert(body, ObservedJob, strict=False))
    assert row.evidence == "alice: new kernel"


def test_jobs_are_in_the_order_of_who_needs_somebody() -> None:
    shown = jobs.view(busy(), {})["jobs"]
    assert [r.phase for r in shown if isinstance(r, jobs.JobRow)] == [
        "NeedsHuman",
        "AwaitingApproval",
        "AwaitingPermit",
        "AwaitingPermit",
        "Running",
        "Running",
        "Verifying",
    ]


@pytest.mark.parametrize(
    ("params", "names"),
    [
        ({"reason": "PDBBlocked"}, {"n00033"}),
        ({"rule": "disk-pressure"}, {"n00062"}),
        ({"zone": "nowhere"}, set()),
        ({"show": "held"}, {"n00004", "n00007", "n00033"}),
        ({"show": "person"}, {"n00062", "n00093"}),
        ({"show": "closed"}, {"n00050"}),
        ({"show": "<nonsense>"}, {"n00004", "n00007", "n00010", "n00033", "n00062", "n00093",
                                  "n00120"}),
    ],
)  # fmt: skip
def test_jobs_are_narrowed_down(params: dict[str, str], names: set[str]) -> None:
    found = jobs.view(busy(), params)["jobs"]
    assert {row.node for row in found if isinstance(row, jobs.JobRow)} == names


def test_a_job_that_waits_for_approval_may_be_approved_and_denied() -> None:
    view = job.view_job(busy(), "n00062-0a1b2c3d4e")
    assert view is not None
    (card,) = view["decide"]
    assert isinstance(card, job.DecideCard)
    assert ([word.word for word in card.words], card.seen) == (["Approve", "Deny"], 0)
    assert "RestartUnit containerd.service" in card.words[0].means


def test_one_that_waits_for_a_permit_may_still_be_denied_and_one_that_acts_may_not() -> None:
    waiting = job.view_job(busy(), "n00004-0a1b2c3d4e")
    acting = job.view_job(busy(), "n00010-0a1b2c3d4e")
    assert waiting is not None and acting is not None
    (card,) = waiting["decide"]
    assert isinstance(card, job.DecideCard)
    assert [word.word for word in card.words] == ["Deny"]
    assert acting["decide"] == []


@pytest.mark.parametrize(("rung", "words"), [(0, "Next Retry Close"), (1, "Retry Close")])
def test_one_that_needs_a_person_can_be_led_on_where_a_rung_follows(rung: int, words: str) -> None:
    body = a_job("n1", "NeedsHuman")
    first = body["spec"]["ladder"][0]
    body["spec"]["ladder"] = [first, {**first, "name": "again"}]
    body["status"]["rung"] = rung
    (card,) = job._decide(msgspec.convert(body, ObservedJob, strict=False))
    assert " ".join(word.word for word in card.words) == words
    assert [word.word for word in card.words if word.ends] == ["Close"]
    assert ("again" in card.words[0].means) and card.seen == 0


def test_a_time_line_says_how_long_each_took_and_what_is_to_come() -> None:
    body = a_job("n1", "Running")
    body["status"]["timeline"] = {
        "faultSeen": "2026-11-22T02:00:00Z",
        "jobCreated": "2026-11-22T02:00:10Z",
        "cordoned": "2026-11-22T02:03:10Z",
    }
    found = job.moments(msgspec.convert(body, ObservedJob, strict=False))
    assert [(m.key, m.took) for m in found if m.at] == [
        ("fault_seen", None),
        ("job_created", 10.0),
        ("cordoned", 180.0),
    ]
    assert [m.key for m in found if not m.at] == ["drained", "acted", "verified", "closed"]


def test_a_closed_job_has_nothing_to_come() -> None:
    found = job.moments(msgspec.convert(a_job("n1", "Cancelled"), ObservedJob, strict=False))
    assert all(m.at for m in found)


@pytest.mark.parametrize(
    ("phase", "decision", "made", "seen", "problem"),
    [
        ("AwaitingApproval", "Approve", [], 0, ""),
        ("AwaitingApproval", "Deny", [], 0, ""),
        ("AwaitingPermit", "Deny", [], 0, ""),
        ("AwaitingPermit", "Approve", [], 0, "does not wait for this any more"),
        ("NeedsHuman", "Retry", [], 0, ""),
        ("NeedsHuman", "Approve", [], 0, "does not wait for this any more"),
        ("Running", "Next", [], 0, "does not wait for this any more"),
        ("Running", "Deny", [], 0, "does not wait for this any more: it is Running"),
        ("AwaitingApproval", "Approve", [{"decision": "Deny", "by": "bob"}], 0, "bob said deny"),
        ("AwaitingApproval", "Approve", [{"decision": "Deny", "by": "bob"}], 1, ""),
        ("AwaitingApproval", "Deny", [{"decision": "Deny"}] * 16, 16, "more it cannot have"),
    ],
)
def test_a_decision_is_written_only_if_it_is_what_the_person_meant(
    phase: str, decision: Any, made: list[dict[str, str]], seen: int, problem: str
) -> None:
    body = {
        "metadata": {"name": "j"},
        "spec": {"approvals": made, "ladder": [{}]},
        "status": {"phase": phase},
    }
    said = cannot_decide(body, decision, seen)
    assert (problem in said) if problem else said == ""


# -- the other pages


def test_budgets_show_every_limit_and_those_without_room_first() -> None:
    shown = budgets.view(a_scene([a_node(f"n{i}", rack=f"r{i}") for i in range(30)]))
    racks = shown["scopes default/2"]
    assert len(racks) == budgets.SHOWN
    (head,) = shown["head default/2"]
    assert isinstance(head, budgets.LimitHead)
    assert (head.scopes, head.hidden, head.title) == (30, 18, "kubenode.io/rack")
    whole = budgets.view(a_scene([a_node(f"n{i}", rack=f"r{i}") for i in range(30)]), "default/2")
    assert len(whole["scopes default/2"]) == 30


def test_a_closed_breaker_is_shown_with_what_is_wrong_in_it() -> None:
    scene = a_scene([a_node(f"n{i}", ready="False" if i == 1 else "True") for i in range(30)])
    found = breakers.view(scene)
    cards = {c.key: c for c in found["scopes default"] if isinstance(c, breakers.ScopeCard)}
    assert cards["cluster"].state == "Closed"
    assert cards["cluster"].members == 30
    assert "topology.kubernetes.io/zone=eu-1a" in cards


def test_an_open_breaker_says_why_and_what_comes_next() -> None:
    sick = [a_node(f"n{i}", ready="False" if i < 20 else "True") for i in range(30)]
    scene = a_scene(sick)
    scene.control.advance(NOW)
    found = breakers.view(scene)
    (summary,) = found["summary"]
    assert isinstance(summary, Summary)
    assert summary.sentence.startswith("Open: ")
    card = found["scopes default"][0]
    assert isinstance(card, breakers.ScopeCard)
    assert card.state == "Open" and card.why and "half-opens" in card.then
    assert found["history"], "it is in the history"
    assert rows(scene, "breaker")[0].title.startswith("Breaker open: ")


def test_rules_for_people_come_first_and_quiet_ones_only_if_requested() -> None:
    shown = [r.key for r in rules.view(busy(), {})["rules"]]
    assert shown == ["kernel-deadlock", "disk-pressure", "gpu-lost"]
    assert len(rules.view(busy(), {"show": "all"})["rules"]) == 4


def of_rollouts(*bodies: dict[str, Any], **given: Any) -> Scene:
    made = [msgspec.json.decode(msgspec.json.encode(body), type=SetRollout) for body in bodies]
    return a_scene([], rollouts={each.metadata.name: each for each in made}, **given)


def test_a_rollout_that_stopped_comes_first_and_says_why_and_where() -> None:
    view = rollouts.view(of_rollouts(*some_rollouts()), {})
    first, second, last = view["rollouts"]
    assert isinstance(first, rollouts.RolloutRow)
    assert (first.key, first.batch, first.failed) == ("containerd", "3, of 10", ("n00017",))
    assert (first.reason, first.share) == ("AutoPaused", 6.7)
    assert "containerd.service is failed" in first.why
    assert first.versions == "2.1.3: 224, 2.1.4: 16 (1 not ready)"
    assert (second.key, last.key) == ("runc", "chrony")
    (summary,) = view["found"]
    assert isinstance(summary, Summary) and not summary.calm


def test_rollouts_that_go_on_ask_for_nobody() -> None:
    (summary,) = rollouts.view(of_rollouts(a_rollout("a", "a-1", "Completed")), {})["found"]
    assert isinstance(summary, Summary) and summary.calm
    assert summary.sentence == "1 component set, 0 at work."


def test_a_cluster_without_our_machines_says_so_and_is_calm() -> None:
    (summary,) = rollouts.view(of_rollouts(rollouts_read=False), {})["found"]
    assert isinstance(summary, Summary) and summary.calm
    assert "not read yet" in summary.sentence


def test_a_rule_that_infers_is_one_of_the_rules() -> None:
    rule = a_rule("correlated", matching=1)
    rule["spec"]["infer"] = {"fact": "zone.dark", "scope": "Zone", "for": "5m"}
    (row,) = rules.view(a_scene([], rule_bodies=[rule]), {})["rules"]
    assert isinstance(row, rules.RuleRow) and row.mode == "Infer"


def test_a_node_is_told_what_it_would_be_answered() -> None:
    view = nodes.view_node(busy(), "n00004")
    assert view is not None
    answers = {a.key: a for a in view["answers"] if isinstance(a, nodes.AnswerRow)}
    assert answers.keys() == {"Host", "Pods", "Node"}
    assert nodes.view_node(busy(), "nobody") is None


def test_a_paused_node_says_so_to_whoever_would_ask() -> None:
    view = nodes.view_node(a_scene([a_node("n1")], pauses_=[Pause(by="ada", why="x")]), "n1")
    assert view is not None
    answer = view["answers"][0]
    assert isinstance(answer, nodes.AnswerRow)
    assert not answer.allowed
    assert answer.against[0] == ("Paused", "cluster is paused by ada: x")


def test_a_search_finds_by_part_of_a_name_and_a_rack_has_pages() -> None:
    scene = a_scene([a_node(f"n{i}") for i in range(450)])
    found = nodes.search(scene, "n44")
    assert {row.key for row in found["nodes"]} == {"n44", *(f"n44{i}" for i in range(10))}
    for page, many in (("1", 200), ("3", 50), ("99", 50), ("x", 200), ("0", 200)):
        shown = nodes.rack(scene, "eu-1a", "r01", page)
        assert shown is not None and len(shown["nodes"]) == many
    assert nodes.rack(scene, "eu-1a", "none") is None


def test_one_pause_in_several_policies_is_one_row() -> None:
    (row,) = pauses.paused(a_scene([], pauses_=[Pause(by="a", why="w")]))
    assert (row.key, row.by, row.policies) == ("cluster", "a", ("default",))


# -- forms


def test_a_pause_wants_a_scope_a_length_and_a_reason() -> None:
    fields = {"scope": "zone=b", "for": "1h", "why": " work ", "now": "yes"}
    scope, pause = wanted_pause(fields, "ada", NOW)
    assert str(scope) == "topology.kubernetes.io/zone=b"
    assert (pause.by, pause.why, pause.now) == ("ada", "work", True)
    assert pause.until == NOW + timedelta(hours=1)
    for wrong in ({"scope": "b"}, {"scope": ""}, {"for": "2w"}, {"why": " "}, {"for": ""}):
        with pytest.raises(ValueError):
            wanted_pause(fields | wrong, "ada", NOW)


def test_a_pause_ends_when_it_is_said_to() -> None:
    assert ends({"for": "resumed"}, NOW) is None
    at = ends({"for": "instant", "until": "2026-11-22T04:30"}, NOW)
    assert at == datetime(2026, 11, 22, 4, 30, tzinfo=UTC)
    for until in ("", "soon", "2026-11-22T02:30"):
        with pytest.raises(ValueError, match="until"):
            ends({"for": "instant", "until": until}, NOW)


# -- moving pods


def a_pod(name: str, labels: Mapping[str, str], **given: Any) -> Pod:
    meta = {"name": name, "namespace": "shop", "labels": dict(labels)} | given
    return msgspec.convert({"metadata": meta, "status": {"phase": "Running"}}, Pod)


def a_budget(name: str, allowed: int, selector: Any) -> PodDisruptionBudget:
    return msgspec.convert(
        {
            "metadata": {"name": name, "namespace": "shop"},
            "spec": {"selector": selector},
            "status": {"disruptionsAllowed": allowed},
        },
        PodDisruptionBudget,
    )


def test_the_preview_says_which_pods_cannot_move_and_why() -> None:
    cart = {"matchLabels": {"app": "cart"}}
    pods = [
        a_pod("web", {"app": "web"}),
        a_pod("cart", {"app": "cart"}),
        a_pod("both", {"app": "cart", "tier": "x"}),
        a_pod("logs", {}, ownerReferences=[{"kind": "DaemonSet", "name": "l", "controller": True}]),
    ]
    tier = {"matchExpressions": [{"key": "tier", "operator": "Exists", "values": []}]}
    found = preview(pods, [a_budget("cart", 0, cart), a_budget("tier", 1, tier)])
    told = {pod.name: (pod.blocked, pod.budget) for pod in found.pods}
    assert told == {"web": (False, ""), "cart": (True, "cart"), "both": (True, "cart, tier")}
    assert found.stay == 1
    assert [pod.name for pod in found.blocked] == ["both", "cart"]


def test_a_selector_of_a_budget_selects_as_kubernetes_says() -> None:
    pods = [a_pod("web", {"app": "web"})]
    assert not preview(pods, [a_budget("none", 0, None)]).blocked
    assert preview(pods, [a_budget("all", 0, {})]).blocked
    assert not preview(pods, [a_budget("other", 0, {"matchLabels": {"app": "x"}})]).blocked


# -- markup


def hostile() -> Scene:
    """Everything that people, rules and kubelets can write is an attack."""
    job_ = a_job(
        "n1", "AwaitingApproval", rule=EVIL, hold=(EVIL, EVIL, EVIL), explanation=EVIL, note=EVIL
    )
    job_["spec"]["approvals"] = [{"decision": "Approve", "by": EVIL, "note": EVIL}]
    job_["status"]["steps"] = [{"name": EVIL, "message": EVIL, "state": EVIL, "by": EVIL}]
    rule = a_rule("x", phase="Rejected", conditions=[{"status": "False", "message": EVIL}])
    rule["metadata"]["name"] = EVIL
    node = a_node("n1", EVIL, EVIL, ready="False", reason=EVIL, message=EVIL)
    node["metadata"]["labels"]["kubenode.io/pool"] = EVIL
    node["status"]["nodeInfo"] = {"kubeletVersion": EVIL, "osImage": EVIL}
    pause = Pause(scope="Label", label="a", value=EVIL, by=EVIL, why=EVIL)
    said = {"type": "Paused", "status": "True", "reason": EVIL, "message": EVIL}
    rollout = a_rollout(EVIL, EVIL, EVIL, conditions=[said], versions=[{"version": EVIL}])
    rollout["status"]["batch"] = {"index": 1, "size": 1, "failed": [EVIL]}
    made = msgspec.json.decode(msgspec.json.encode(rollout), type=SetRollout)
    machine = a_machine("m", EVIL, state="Failed", version=EVIL, message=EVIL, set_=EVIL)
    machine["metadata"]["name"] = EVIL
    machines = {EVIL: msgspec.convert(machine, RolloutMachine, strict=False)}
    waits = [{"type": "Scaled", "status": "False", "reason": EVIL, "message": EVIL}]
    set_body = a_machine_set(EVIL, conditions=waits)
    set_body["spec"]["template"]["spec"]["classRef"] = EVIL
    sets = {EVIL: msgspec.convert(set_body, MachineSetView, strict=False)}
    member = a_member(EVIL, EVIL, EVIL, InstanceReady=(EVIL, EVIL))
    machines["member"] = msgspec.convert(member, RolloutMachine, strict=False)
    return a_scene(
        [node], [job_], [rule], [pause],
        rollouts={EVIL: made}, machines=machines, machine_sets=sets,
    )  # fmt: skip


def parts(view: View | None) -> Iterator[str]:
    renderer = Renderer()
    for models in (view or {}).values():
        for model in models:
            yield renderer.part(model, "")


@pytest.mark.parametrize("page", PAGES, ids=[page.name for page in PAGES])
@pytest.mark.exhaustive
def test_no_text_of_anybody_becomes_markup(page: Any) -> None:
    scene = hostile()
    names = {"node": "n1", "rollout": EVIL, "rule": EVIL, "machine_set": EVIL}
    name = names.get(page.name, "n1-0a1b2c3d4e")
    params = {"name": name, "zone": EVIL, "rack": EVIL, "q": EVIL, "scope": EVIL}
    html = "".join(parts(page.build(scene, params)))
    assert html
    assert "<script" not in html and "<img" not in html
    assert "36863" not in html, "nobody's braces are a template's"
    for tag in re.findall(r"<[a-z][^>]*>", html):
        assert "onerror" not in re.sub(r'"[^"]*"', "", tag)


def test_lengths_of_time_are_said_as_people_say_them() -> None:
    assert [seconds(s) for s in (0.25, 12, 600, 7500)] == ["0.2 s", "12 s", "10 min", "2 h 5 min"]


def test_job_links_to_its_history_if_insight_has_an_address() -> None:
    view = job.view_job(busy(), "n00062-0a1b2c3d4e")
    assert view is not None
    head = view["job"][0]
    assert isinstance(head, job.JobHead)
    head = replace(head, uid="u-1")
    linked = Renderer("https://insight.example").part(head, "")
    assert 'href="https://insight.example/incidents/u-1"' in linked
    assert "incidents" not in Renderer().part(head, "")
