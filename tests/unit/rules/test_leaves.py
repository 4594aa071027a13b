"""Leaves that are fed from outside the Node: host events, alerts, probes, counts and facts."""

from collections.abc import Mapping
from datetime import datetime
from types import MappingProxyType
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import a_condition, a_node, seconds

from kubenode.api.v1alpha1 import Expression
from rules.atoms import CountedFact, LeafReading, read
from rules.builtin import BUILTIN, GROWING
from rules.facts import AlertFact, FactSet, HostEventFact, ProbeFact, Value
from rules.truth import Truth

MINUTE = 60


def leaf(**parts: Any) -> Any:
    return Expression.model_validate(parts).leaf


def reading(facts: FactSet, after: float = 0, **parts: Any) -> LeafReading:
    return read(leaf(**parts), facts, T0 + seconds(after))


def flips(found: LeafReading) -> float | None:
    """Seconds from T0."""
    return None if found.flips_at is None else (found.flips_at - T0).total_seconds()


# -- hostEvent -----------------------------------------------------------------------------------


def a_host_event(
    phase: str = "Active",
    *,
    class_: str = "Reboot",
    source: str = "AWS",
    severity: str = "Warning",
    starts: float | None = None,
    seen: float = 0,
) -> HostEventFact:
    not_before = None if starts is None else T0 + seconds(starts)
    last = T0 + seconds(seen)
    return HostEventFact("e1", class_, source, phase, severity, "m", last, last, not_before)


def host_event(
    event: HostEventFact, after: float = 0, asked: Mapping[str, str] = MappingProxyType({})
) -> LeafReading:
    return reading(a_node(host_events=(event,)), after, hostEvent={"class": "Reboot", **asked})


@pytest.mark.parametrize(
    ("phase", "starts", "truth"),
    [
        ("Active", None, Truth.TRUE),
        ("Active", 9000, Truth.TRUE),
        ("", None, Truth.TRUE),
        ("", 9000, Truth.FALSE),
        ("Scheduled", None, Truth.TRUE),
        ("Scheduled", 30 * MINUTE, Truth.TRUE),
        ("Scheduled", 30 * MINUTE + 1, Truth.FALSE),
        ("Scheduled", -5, Truth.TRUE),
        ("AwaitingApproval", 9000, Truth.FALSE),
        ("Completed", None, Truth.FALSE),
        ("Cancelled", None, Truth.FALSE),
        ("Expired", 0, Truth.FALSE),
    ],
)
def test_host_event_counts_while_it_is_open_and_near(
    phase: str, starts: float | None, truth: Truth
) -> None:
    assert host_event(a_host_event(phase, starts=starts)).truth is truth


@pytest.mark.parametrize(
    ("asked", "truth"),
    [
        ({"source": "AWS"}, Truth.TRUE),
        ({"source": "GCP"}, Truth.FALSE),
        ({"class": "Stop"}, Truth.FALSE),
        ({"phase": "Active"}, Truth.TRUE),
        ({"phase": "Scheduled"}, Truth.FALSE),
        ({"severity": "Critical"}, Truth.FALSE),
    ],
)
def test_host_event_must_fit_all_that_is_asked(asked: dict[str, str], truth: Truth) -> None:
    assert host_event(a_host_event(), 0, asked).truth is truth


@pytest.mark.parametrize(("after", "truth"), [(6599, Truth.FALSE), (6600, Truth.TRUE)])
def test_scheduled_event_counts_from_its_lead_time_on(after: float, truth: Truth) -> None:
    asked = {"startsWithin": "10m"}
    event = a_host_event("Scheduled", starts=7200)
    assert host_event(event, after, asked).truth is truth
    assert flips(host_event(event, 0, asked)) == 6600


# -- alert ---------------------------------------------------------------------------------------


def alert(
    *alerts: AlertFact, after: float = 0, heard: float | None = 0, held: str = "0s", **asked: Any
) -> LeafReading:
    alive = None if heard is None else T0 + seconds(heard)
    facts = a_node(alerts=alerts, alerts_alive_at=alive)
    return reading(facts, after, alert={"name": "NodeDisk.*", "for": held, **asked})


def fires(name: str = "NodeDiskIOError", *, since: float = 0, firing: bool = True) -> AlertFact:
    return AlertFact(name, {"severity": "critical"}, firing, T0 + seconds(since))


def test_alert_matches_as_a_whole_with_its_labels() -> None:
    assert alert(fires()).truth is Truth.TRUE
    assert alert(fires("MyNodeDiskIOError")).truth is Truth.FALSE
    assert alert(fires(), name="NodeDisk").truth is Truth.FALSE
    assert alert(fires(), labels={"severity": "critical"}).truth is Truth.TRUE
    assert alert(fires(), labels={"severity": "page"}).truth is Truth.FALSE
    assert alert(fires(), labels={"team": ""}).truth is Truth.FALSE
    assert alert(fires(firing=False)).truth is Truth.FALSE


@pytest.mark.parametrize(
    ("after", "truth"), [(119, Truth.FALSE), (120, Truth.TRUE), (121, Truth.TRUE)]
)
def test_alert_counts_once_it_has_fired_for_its_time(after: float, truth: Truth) -> None:
    found = alert(fires(), after=after, held="2m")
    assert found.truth is truth
    assert flips(found) == (120 if truth is Truth.FALSE else 600)


@pytest.mark.parametrize(
    ("heard", "after"), [(None, 0), (0, 600), (0, 3600)], ids=["never", "10m ago", "1h ago"]
)
def test_alert_is_unknown_while_its_source_is_silent(heard: float | None, after: float) -> None:
    for alerts in ((), (fires(),)):
        assert alert(*alerts, heard=heard, after=after).truth is Truth.UNKNOWN
    assert alert(heard=0, after=599).truth is Truth.FALSE


# -- probe ---------------------------------------------------------------------------------------


def probe(value: Value | None, after: float = 0, **asked: Any) -> LeafReading:
    facts = a_node(probes={"disk.used_pct": ProbeFact(value, T0)})
    return reading(facts, after, probe={"name": "disk.used_pct", "above": 90, **asked})


def test_probe_compares_while_its_answer_is_young() -> None:
    assert probe(91).truth is Truth.TRUE
    assert probe(90).truth is Truth.FALSE
    assert probe(91, 59).truth is Truth.TRUE
    assert probe(91, 60).truth is Truth.UNKNOWN
    assert flips(probe(91)) == 60
    assert probe(91, 60, maxAge="5m").truth is Truth.TRUE


def test_probe_that_failed_or_was_not_answered_or_misfits_is_unknown() -> None:
    assert probe(None).truth is Truth.UNKNOWN
    assert probe("91").truth is Truth.UNKNOWN
    asked = {"name": "disk.used_pct", "above": 90}
    assert reading(a_node(), probe=asked).truth is Truth.UNKNOWN
    assert reading(a_node(), absent={"probe": asked}).truth is Truth.UNKNOWN


# -- derived facts and counts --------------------------------------------------------------------


def inferred(value: Value | None, **asked: Any) -> Truth:
    facts = a_node(inferred={} if value is None else {"rack.dark": value})
    return reading(facts, fact={"name": "rack.dark", **asked}).truth


def test_stored_fact_is_read_with_its_value_and_unknown_before_anybody_said() -> None:
    assert inferred(None) is Truth.UNKNOWN
    assert inferred(True) is Truth.TRUE
    assert inferred(False) is Truth.FALSE
    assert inferred("high", equals="high") is Truth.TRUE
    assert inferred("high", equals="low") is Truth.FALSE
    assert inferred(7, above=6) is Truth.TRUE


def test_fact_that_does_not_hold_fulfils_no_comparison() -> None:
    for asked in ({"equals": "high"}, {"above": 6}, {"below": 6}, {"in": ["high"]}):
        assert inferred(False, **asked) is Truth.FALSE


def test_same_fault_is_counted_for_each_rule_by_itself() -> None:
    facts = a_node(same_fault={"a@1": {"rack": 4}, "b@1": {"rack": 1}})
    many = leaf(fact={"name": "rack.sameFault", "above": 3})
    found = {rule: read(CountedFact(rule, many), facts, T0).truth for rule in ("a@1", "b@1", "c")}
    assert found == {"a@1": Truth.TRUE, "b@1": Truth.FALSE, "c": Truth.UNKNOWN}
    assert read(many, facts, T0).truth is Truth.UNKNOWN


# -- facts of time -------------------------------------------------------------------------------


@given(
    st.sampled_from(sorted(GROWING)),
    st.sampled_from(["above", "below"]),
    st.integers(0, 5000),
    st.integers(-5000, 5000),
)
def test_number_that_grows_flips_when_it_says(name: str, op: str, value: int, ahead: int) -> None:
    bound = float(max(value + ahead, 0))

    def at(after: float) -> LeafReading:
        values: dict[str, Value | None] = {name: value + after, "node.ready": False}
        return reading(a_node(values=values), after, fact={"name": name, op: bound})

    first = at(0)
    if first.flips_at is None:
        assert at(20_000).truth is first.truth
        return
    when = (first.flips_at - T0).total_seconds()
    assert when > 0
    assert at(max(when - 0.001, 0)).truth is first.truth
    assert at(when).truth is not first.truth


def test_ready_node_does_not_grow_unready() -> None:
    values = {"node.notReadyFor": 0.0, "node.ready": True}
    found = reading(a_node(values=values), fact={"name": "node.notReadyFor", "above": 60})
    assert (found.truth, found.flips_at) == (Truth.FALSE, None)


def test_never_repaired_and_far_bounds_do_not_flip() -> None:
    infinite = a_node(values={"node.lastRepairAgo": float("inf")})
    for asked in ({"above": 60}, {"below": 60}):
        assert reading(infinite, fact={"name": "node.lastRepairAgo", **asked}).flips_at is None
    far = reading(a_node(values={"node.age": 1.0}), fact={"name": "node.age", "above": 1e300})
    assert far.flips_at is None


def test_maintenance_flips_when_its_annotation_runs_out() -> None:
    until = {"kubenode.io/maintenance-until": (T0 + seconds(90)).isoformat()}
    node = a_node(values={"maintenance.active": True}, annotations=until)
    assert flips(reading(node, fact={"name": "maintenance.active"})) == 90


def test_every_fact_says_what_time_does_to_it() -> None:
    assert {b.time for b in BUILTIN.values()} == {"still", "grows", "passes"}
    assert all(b.type == "number" and b.unit == "seconds" for b in map(BUILTIN.get, GROWING) if b)


# -- absence -------------------------------------------------------------------------------------


def gone(facts: FactSet, after: float, inner: Mapping[str, Any], held: str = "") -> LeafReading:
    return reading(facts, after, absent={**inner, **({"for": held} if held else {})})


def test_absent_alert_needs_its_source_alive_and_its_time() -> None:
    asked = {"alert": {"name": "NodeDisk.*"}}
    resolved = a_node(alerts=(fires(firing=False),), alerts_alive_at=T0 + seconds(50))
    assert gone(resolved, 60, asked).truth is Truth.TRUE
    assert gone(resolved, 119, asked, "2m").truth is Truth.FALSE
    assert gone(resolved, 120, asked, "2m").truth is Truth.TRUE
    assert flips(gone(resolved, 60, asked, "2m")) == 120
    assert gone(a_node(alerts_alive_at=T0), 60, asked, "2m").truth is Truth.TRUE
    assert gone(a_node(), 60, asked, "2m").truth is Truth.UNKNOWN
    young = a_node(alerts=(fires(),), alerts_alive_at=T0)
    for_long = {"alert": {"name": "NodeDisk.*", "for": "5m"}}
    assert gone(young, 60, for_long, "1s").truth is Truth.FALSE


def test_absent_host_event_needs_its_source_alive_and_its_time() -> None:
    asked = {"hostEvent": {"class": "Reboot", "source": "AWS"}}
    alive = {"AWS": T0, "GCP": T0 - seconds(9000)}
    assert gone(a_node(), 0, asked).truth is Truth.UNKNOWN
    assert gone(a_node(sources_alive_at={"GCP": T0}), 0, asked).truth is Truth.UNKNOWN
    assert gone(a_node(sources_alive_at=alive), 0, asked).truth is Truth.TRUE
    anybodys = {"hostEvent": {"class": "Reboot"}}
    assert gone(a_node(sources_alive_at=alive), 0, anybodys).truth is Truth.UNKNOWN
    done = a_node(host_events=(a_host_event("Completed"),), sources_alive_at=alive)
    assert gone(done, 299, asked, "5m").truth is Truth.FALSE
    assert gone(done, 300, asked, "5m").truth is Truth.TRUE
    expired = a_node(host_events=(a_host_event("Expired"),), sources_alive_at=alive)
    assert gone(expired, 300, asked, "5m").truth is Truth.UNKNOWN


@pytest.mark.parametrize("kind", ["label", "annotation", "taint"])
def test_absent_key_counts_from_when_it_became_what_it_is(kind: str) -> None:
    asked = {kind: {"key": "a", "value": "x"}}
    changed = a_node(changed={f"{kind}:a": T0 + seconds(40)}, unchanged_since=T0)
    assert gone(changed, 99, asked, "1m").truth is Truth.FALSE
    assert gone(changed, 100, asked, "1m").truth is Truth.TRUE
    assert flips(gone(changed, 50, asked, "1m")) == 100
    never = a_node(unchanged_since=T0)
    assert gone(never, 60, asked, "1m").truth is Truth.TRUE
    assert gone(a_node(), 60, asked, "1m").truth is Truth.UNKNOWN
    assert gone(a_node(), 60, asked).truth is Truth.TRUE


def test_absent_fact_is_the_fact_turned_round() -> None:
    node = a_node(values={"node.gpuCount": 5})
    asked = {"fact": {"name": "node.gpuCount", "above": 9}}
    assert gone(node, 0, asked).truth is Truth.TRUE
    assert gone(a_node(), 0, asked).truth is Truth.UNKNOWN


READY = a_condition("Ready", heard=T0)
DETECTOR = a_condition("KernelDeadlock", "False", heard=T0)


def no_event(facts: FactSet, after: float, held: str = "5m", **asked: Any) -> LeafReading:
    return gone(facts, after, {"event": {"reason": "Oops", "within": "10m", **asked}}, held)


def test_absent_event_needs_somebody_who_would_have_told() -> None:
    watched = {"watched": T0 - seconds(3600)}
    both = a_node(READY, DETECTOR, **watched)
    assert no_event(both, 0).truth is Truth.TRUE
    assert flips(no_event(both, 0)) == 900
    assert no_event(both, 900).truth is Truth.UNKNOWN
    assert no_event(a_node(READY, DETECTOR), 0).truth is Truth.UNKNOWN
    assert no_event(a_node(**watched), 0).truth is Truth.UNKNOWN
    kubelet = a_node(READY, **watched)
    assert no_event(kubelet, 0).truth is Truth.TRUE
    assert no_event(kubelet, 0, source="kubelet").truth is Truth.TRUE
    assert no_event(kubelet, 0, source="kernel-monitor").truth is Truth.UNKNOWN
    silent = a_condition("KernelDeadlock", "False", heard=T0 - seconds(901))
    assert no_event(a_node(READY, silent, **watched), 0).truth is Truth.UNKNOWN
    lost = a_condition("Ready", "Unknown", heard=T0)
    assert no_event(a_node(lost, DETECTOR, **watched), 0).truth is Truth.UNKNOWN


def test_absent_event_needs_to_have_been_listened_for() -> None:
    since = a_node(READY, DETECTOR, watched=T0)
    found = no_event(since, 899)
    assert (found.truth, flips(found)) == (Truth.UNKNOWN, 900)
    later = a_node(a_condition("Ready", heard=T0 + seconds(800)), watched=T0)
    assert no_event(later, 900).truth is Truth.TRUE


def test_stale_cache_makes_every_leaf_unknown() -> None:
    stale = a_node(READY, fresh=False, alerts_alive_at=T0, host_events=(a_host_event(),))
    for parts in (
        {"hostEvent": {"class": "Reboot"}},
        {"alert": {"name": ".*"}},
        {"absent": {"label": {"key": "a"}}},
        {"fact": {"name": "time.inWindow", "window": {"from": "00:00", "to": "00:00"}}},
    ):
        assert reading(stale, 0, **parts).truth is Truth.UNKNOWN


def test_instant_of_a_reading_is_never_past() -> None:
    now: datetime = T0 + seconds(100)
    node = a_node(READY, alerts_alive_at=T0, alerts=(fires(),))
    for parts in ({"alert": {"name": ".*", "for": "2m"}}, {"condition": {"type": "Ready"}}):
        found = read(leaf(**parts), node, now)
        assert found.flips_at is not None and found.flips_at > now
