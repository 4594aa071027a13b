"""Questions to hosts are shared fairly: by zone, by rule and by mode."""

from datetime import timedelta

import pytest
from support.clock import T0
from support.remedy_facts import Facts

from remedy.hostprobes.schedule import OF_AGENTS, UNANSWERED, Wait, plan
from remedy.hostprobes.shares import MOST_IN_ALL, OpenQuestions, Shares, shares_of
from remedy.remedier.choice import probe_rules
from remedy.remedier.facts import FactStore
from rules.diagnose import Agreement, Diagnosis, Match
from rules.truth import Truth

LATER = T0 + UNANSWERED


def fill(open_: OpenQuestions, prefix: str, shares: Shares, most: int = 10_000) -> int:
    """Ask until there is no room for these shares; how many were asked."""
    for number in range(most):
        if not open_.room(shares):
            return number
        open_.add(f"{prefix}-{number}", LATER, shares)
    return most


def test_a_host_of_another_zone_is_asked_at_once_while_a_zone_of_a_thousand_is_dead() -> None:
    open_ = OpenQuestions()
    dead = shares_of("a", ["hung"], enforced=True)
    assert 90 <= fill(open_, "dead", dead) <= MOST_IN_ALL // 2
    assert open_.room(shares_of("b", ["disk"], enforced=True)) >= 3


def test_the_same_rule_asks_a_host_of_another_zone_while_one_zone_is_dead() -> None:
    open_ = OpenQuestions()
    for rule in ("one", "two", "three", "one"):
        fill(open_, rule, shares_of("a", [rule], enforced=True))
    assert open_.room(shares_of("b", ["one"], enforced=True)) >= 3


def test_there_is_room_for_a_last_zone_when_many_are_dead() -> None:
    open_ = OpenQuestions()
    for zone in range(6):
        fill(open_, f"z{zone}", shares_of(f"z{zone}", [f"r{zone}"], enforced=True))
    assert len(open_) < MOST_IN_ALL
    assert open_.room(shares_of("b", ["r1"], enforced=True)) >= 3


def test_rules_in_dry_run_leave_room_for_those_that_act() -> None:
    open_ = OpenQuestions()
    for number in range(50):
        fill(open_, f"d{number}", shares_of(f"z{number}", [f"r{number}"], enforced=False))
    assert len(open_) <= MOST_IN_ALL // 4
    assert open_.room(shares_of("z0", ["acts"], enforced=True)) >= 3
    assert open_.room(shares_of("z0", ["would"], enforced=False)) == 0


def test_what_is_answered_or_too_old_makes_room_again() -> None:
    open_ = OpenQuestions()
    shares = shares_of("a", ["r"], enforced=True)
    asked = fill(open_, "n", shares)
    assert not open_.room(shares)
    open_.remove("n-0")
    open_.remove("n-1")
    room = open_.room(shares)
    assert room >= 1
    open_.add("n-2", LATER)  # the informer brings it: its shares are known
    assert open_.room(shares) == room
    open_.expire(LATER)
    assert (len(open_), fill(open_, "m", shares)) == (0, asked)


@pytest.mark.parametrize("count", [1, 5])
def test_a_share_that_is_used_up_is_told_from_the_limit_of_all(count: int) -> None:
    found = plan(["clock.offset_s", "disk.used_pct"], [], count, T0, room=1)
    assert (found.ask, found.waits) == (("clock",), (("disk", Wait.SHARE),))
    assert found.at == LATER


def test_a_host_whose_agent_is_silent_is_not_asked_what_only_it_answers() -> None:
    found = plan(["disk.used_pct", "host.agent", "peers.verdict"], [], 0, T0, silent=True)
    assert found.ask == ("host", "peers")
    assert found.waits == (("disk", Wait.SILENT),)


def test_what_a_silent_agent_would_answer_is_unknown_at_once() -> None:
    silent: set[str] = {"a"}
    world = Facts()
    world.store = FactStore(
        world.nodes, lambda node: (), world.clock, is_silent=lambda n: n.metadata.name in silent
    )
    for name in ("a", "b"):
        world.node(name)
    assert world.facts("a").probes.keys() >= OF_AGENTS
    assert world.facts("a").probes["disk.used_pct"].value is None
    assert "host.agent" not in world.facts("a").probes
    assert "disk.used_pct" not in world.facts("b").probes
    silent.clear()
    assert "disk.used_pct" not in world.facts("a").probes


def test_a_question_of_a_rule_that_acts_is_no_question_of_one_that_would() -> None:
    world = Facts()
    probe = {"probe": {"name": "disk.used_pct", "above": 90}}
    world.load(acts={"when": probe}, would={"when": probe, "mode": "DryRun"})
    frozen = Match("old@1", Truth.UNKNOWN, Truth.FALSE, Agreement.AGREED, probes=("disk.used_pct",))
    matches = [
        Match(f"{name}@1", Truth.UNKNOWN, Truth.FALSE, Agreement.AGREED, probes=("disk.used_pct",))
        for name in ("acts", "would")
    ]
    acting, dry = probe_rules(Diagnosis("a", (*matches, frozen)), world.rules)
    assert acting == {"disk.used_pct": {"acts", "old"}}
    assert dry == {"disk.used_pct": {"would"}}


def test_many_zones_of_silent_hosts_never_take_all() -> None:
    open_, now = OpenQuestions(), T0
    for second in range(120):
        now = T0 + timedelta(seconds=second)
        open_.expire(now)
        for zone in ("a", "b", "c"):
            shares = shares_of(zone, ["hung"], enforced=True)
            for number in range(open_.room(shares)):
                open_.add(f"{zone}-{second}-{number}", now + UNANSWERED, shares)
        assert open_.room(shares_of("live", ["disk"], enforced=True)) >= 3, second
