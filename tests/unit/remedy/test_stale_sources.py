"""A cache of Events or HostEvents that is away makes what reads it unknown, and nothing else."""

from dataclasses import replace
from typing import Any

import pytest
from support.remedy_facts import Facts

from remedy.remedier.choice import guards_of
from remedy.remedier.facts import FactStore
from rules.diagnose import Agreement, Diagnoser, Match
from rules.program import RuleVersion
from rules.sources import EVENTS, HOST_EVENTS
from rules.truth import Truth

CONDITION = {"condition": {"type": "KernelDeadlock", "status": "True"}}
EVENT = {"event": {"reason": "OOMKilling", "within": "1h"}}
ANY_EVENT = {"event": {"message": "oops", "within": "1h"}}
HOST_EVENT = {"hostEvent": {"class": "Freeze"}}
ALERT = {"alert": {"name": "NodeDown"}}
MAINTENANCE = {"fact": {"name": "maintenance.active"}}


class Source:
    def __init__(self) -> None:
        self.current = True

    def fresh(self) -> bool:
        return self.current


class World(Facts):
    def __init__(self) -> None:
        super().__init__()
        self.events_cache, self.host_events_cache = Source(), Source()
        self.store = FactStore(
            self.nodes,
            lambda node: (),
            self.clock,
            sources=(self.events_cache, self.host_events_cache),
            accept_single_engine=True,
        )
        self.load(
            **{
                name: {"when": leaf}
                for name, leaf in {
                    **{"condition": CONDITION, "event": EVENT, "any_event": ANY_EVENT},
                    **{"host_event": HOST_EVENT, "alert": ALERT, "maintenance": MAINTENANCE},
                }.items()
            },
            guarded={"when": CONDITION, "unless": HOST_EVENT},
        )
        self.node("a", KernelDeadlock="True")
        self.alert("Watchdog", node="")

    def unknown(self) -> set[str]:
        found = self.diagnosis("a").matches
        names = {match.rule_id.partition("@")[0] for match in found if unknown(match)}
        return names


def unknown(match: Match) -> bool:
    return match.evidence is Truth.UNKNOWN


def test_only_leaves_on_events_are_unknown_when_the_events_store_is_away() -> None:
    world = World()
    assert world.unknown() == set()
    world.events_cache.current = False
    assert world.unknown() == {"event", "any-event"}
    assert world.evidence("a", "condition") is Truth.TRUE
    assert world.facts("a").fresh
    world.events_cache.current = True
    assert world.unknown() == set()


def test_only_leaves_on_host_events_are_unknown_when_their_cache_is_stale() -> None:
    world = World()
    world.host_events_cache.current = False
    assert world.unknown() == {"any-event", "host-event", "alert", "maintenance"}


def test_an_event_that_was_there_is_unknown_too_while_its_cache_is_stale() -> None:
    world = World()
    world.event("e", "OOMKilling")
    assert world.evidence("a", "event") is Truth.TRUE
    world.events_cache.current = False
    assert world.evidence("a", "event") is Truth.UNKNOWN


def test_a_guard_that_reads_a_stale_source_holds_back_until_it_is_current() -> None:
    world = World()
    world.host_events_cache.current = False
    match, facts = world.match("a", "guarded"), world.facts("a")
    unless = world.rules["guarded@1"].spec.unless
    assert match.evidence is Truth.TRUE
    assert guards_of(match, unless, facts, world.clock.now()) == (Truth.UNKNOWN, True)
    world.host_events_cache.current = True
    match, facts = world.match("a", "guarded"), world.facts("a")
    assert guards_of(match, unless, facts, world.clock.now()) == (Truth.FALSE, False)


def test_an_annotation_tells_of_a_maintenance_while_host_events_are_stale() -> None:
    world = World()
    world.host_events_cache.current = False
    until = {"kubenode.io/maintenance-until": "2999-01-01T00:00:00Z"}
    world.node("a", annotations=until, KernelDeadlock="True")
    assert world.evidence("a", "maintenance") is Truth.TRUE


@pytest.mark.parametrize("stale", [{EVENTS}, {HOST_EVENTS}, {EVENTS, HOST_EVENTS}])
def test_a_diagnoser_that_remembers_says_the_same_as_one_that_starts(stale: Any) -> None:
    world = World()
    world.event("e", "OOMKilling")
    now = world.clock.now()
    facts = world.facts("a")
    late = replace(facts, stale=frozenset(stale))
    world.diagnoser.diagnose([facts], now)
    (remembered,) = world.diagnoser.diagnose([late], now)
    other = Diagnoser()
    other.load([RuleVersion(id_, rule) for id_, rule in world.rules.items()])
    (anew,) = other.diagnose([late], now)
    assert remembered == anew
    assert {match.agreement for match in anew.matches} == {Agreement.UNCHECKED}
