"""What pausing and resuming do to a policy's pauses."""

from datetime import datetime, timedelta

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0

from defender.decision.pauses import (
    CLUSTER,
    MOST,
    PausedScope,
    PauseOutcome,
    TooManyPauses,
    common,
    describe_scope,
    describe_unmatched,
    lasting,
    paused,
    read_scope,
    resumed,
    scope_of,
)
from kubenode.api.v1alpha1.defenderpolicy import Pause

HOUR = timedelta(hours=1)
ZONE_B = PausedScope("Label", "topology.kubernetes.io/zone", "b")


@pytest.mark.parametrize(
    ("text", "scope"),
    [
        ("cluster", CLUSTER),
        ("zone=b", ZONE_B),
        ("topology.kubernetes.io/zone=b", ZONE_B),
        ("rack=r1", PausedScope("Label", "kubenode.io/rack", "r1")),
        ("pool=gpu", PausedScope("Label", "kubenode.io/pool", "gpu")),
        ("team=a=b", PausedScope("Label", "team", "a=b")),
        ("node=n1.example.com", PausedScope("Node", value="n1.example.com")),
    ],
)
def test_scopes_are_read_as_people_write_them(text: str, scope: PausedScope) -> None:
    assert read_scope(text) == scope
    assert read_scope(str(scope)) == scope
    assert scope_of(scope.pause()) == scope


@pytest.mark.parametrize("text", ["", "Cluster", "zone", "zone=", "=b", "node="])
def test_what_is_no_scope_is_named_with_the_forms_there_are(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no scope: write cluster, node=NAME"):
        read_scope(text)


def test_a_scope_has_the_nodes_that_a_pause_of_it_stops() -> None:
    labels = {"topology.kubernetes.io/zone": "b"}
    assert CLUSTER.has("n1", {})
    assert ZONE_B.has("n1", labels)
    assert not ZONE_B.has("n1", {})
    assert read_scope("node=n1").has("n1", {})
    assert not read_scope("node=n1").has("n11", {})


def test_pausing_twice_prolongs() -> None:
    first = paused([], ZONE_B.pause(until=T0 + HOUR, by="ann", why="disks"), T0)
    assert first.outcome is PauseOutcome.PAUSED
    later = ZONE_B.pause(until=T0 + 2 * HOUR, by="bob", why="switch")
    again = paused(first.pauses, later, T0)
    assert again.outcome is PauseOutcome.PROLONGED
    (kept,) = again.pauses
    assert (kept.until, kept.by) == (T0 + 2 * HOUR, "bob")
    assert kept.why == "switch (before: ann: disks)"


def test_the_same_pause_again_changes_nothing() -> None:
    wanted = ZONE_B.pause(until=T0 + HOUR)
    once = paused([], wanted, T0)
    twice = paused(once.pauses, wanted, T0)
    assert twice.outcome is PauseOutcome.UNCHANGED
    assert not twice.changes
    assert twice.pauses == once.pauses


@pytest.mark.parametrize("until", [T0 + HOUR, T0 + 2 * HOUR])
def test_a_pause_without_end_is_not_given_one_by_another_pause(until: datetime) -> None:
    held = paused([], CLUSTER.pause(by="ann"), T0).pauses
    edit = paused(held, CLUSTER.pause(until=until, by="bob"), T0)
    assert edit.outcome is PauseOutcome.UNCHANGED
    assert edit.pauses[0].by == "ann"


def test_now_is_added_to_a_pause_that_lasts_longer() -> None:
    held = paused([], CLUSTER.pause(by="ann"), T0).pauses
    edit = paused(held, CLUSTER.pause(until=T0 + HOUR, now=True), T0)
    assert edit.outcome is PauseOutcome.SHARPENED
    assert edit.pauses == [held[0].model_copy(update={"now": True})]


def test_prolonging_keeps_that_permits_are_taken_back() -> None:
    held = paused([], CLUSTER.pause(until=T0 + HOUR, now=True), T0).pauses
    edit = paused(held, CLUSTER.pause(until=T0 + 2 * HOUR), T0)
    assert edit.pauses[0].now


def test_what_is_over_goes_with_the_next_edit_and_is_no_pause() -> None:
    old = CLUSTER.pause(until=T0)
    edit = paused([old], CLUSTER.pause(until=T0 + HOUR), T0)
    assert (edit.outcome, edit.expired, edit.before) == (PauseOutcome.PAUSED, 1, [])
    ended = resumed([old], CLUSTER, T0)
    assert (ended.outcome, ended.pauses, ended.changes) == (PauseOutcome.UNCHANGED, [], True)


def test_a_policy_that_is_full_says_so_and_expired_pauses_make_room() -> None:
    full = [PausedScope("Node", value=f"n{i}").pause() for i in range(MOST)]
    with pytest.raises(TooManyPauses, match="it has 32 pauses"):
        paused(full, ZONE_B.pause(), T0)
    assert (
        paused(full, PausedScope("Node", value="n3").pause(), T0).outcome is PauseOutcome.UNCHANGED
    )
    room = [*full[1:], PausedScope("Node", value="n0").pause(until=T0)]
    assert len(paused(room, ZONE_B.pause(), T0).pauses) == MOST


def test_resume_ends_one_scope_or_all() -> None:
    pauses = [CLUSTER.pause(), ZONE_B.pause(by="ann")]
    one = resumed(pauses, ZONE_B, T0)
    assert (one.outcome, one.pauses) == (PauseOutcome.RESUMED, [CLUSTER.pause()])
    assert one.before[0].by == "ann"
    assert resumed(pauses, None, T0).pauses == []
    assert resumed(pauses, read_scope("zone=c"), T0).outcome is PauseOutcome.UNCHANGED


def test_what_every_policy_pauses_holds_where_no_policy_does() -> None:
    pause = ZONE_B.pause
    lists = [[pause(until=T0 + HOUR), CLUSTER.pause()], [pause(until=T0 + 2 * HOUR)]]
    assert common(lists, T0) == [pause(until=T0 + HOUR)]
    assert common(lists, T0 + HOUR) == []
    assert common([], T0) == []
    assert common([lists[0], []], T0) == []


scopes = st.sampled_from(
    [CLUSTER, ZONE_B, PausedScope("Node", value="n1"), PausedScope("Node", value="n2")]
)
ends = st.none() | st.integers(-3, 5).map(lambda hours: T0 + hours * HOUR)
acts = st.tuples(st.sampled_from(["pause", "resume"]), scopes, ends, st.booleans())


@given(st.lists(acts, max_size=12))
def test_whatever_people_do_a_scope_has_one_pause_that_none_of_them_shortened(
    done: list[tuple[str, PausedScope, datetime | None, bool]],
) -> None:
    pauses: list[Pause] = []
    promised: dict[PausedScope, list[datetime | None]] = {}
    for what, scope, until, sharp in done:
        if what == "resume":
            pauses = resumed(pauses, scope, T0).pauses
            promised.pop(scope, None)
        elif until is None or until > T0:
            pauses = paused(pauses, scope.pause(until=until, now=sharp), T0).pauses
            promised.setdefault(scope, []).append(until)
    assert {scope_of(pause): pause.until for pause in pauses} == {
        scope: None if None in times else max(time for time in times if time)
        for scope, times in promised.items()
    }
    assert len(pauses) == len(promised)
    assert lasting(pauses, T0) == pauses


LABELS = {"n1": {"topology.kubernetes.io/zone": "a"}, "n2": {"topology.kubernetes.io/zone": "b"}}


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("cluster", ""),
        ("zone=b", ""),
        ("node=n1", ""),
        ("zone=x", "no node has topology.kubernetes.io/zone=x; there are: a, b"),
        ("rack=r1", "and no node has the label kubenode.io/rack"),
        ("node=n9", "node n9 is not in the cluster"),
    ],
)
def test_scope_without_nodes_is_named_with_the_values_that_there_are(
    text: str, problem: str
) -> None:
    found = describe_unmatched(read_scope(text), LABELS)
    assert (problem in found) if problem else found == ""


@pytest.mark.parametrize(
    ("scope", "text"),
    [
        ("cluster", "cluster"),
        ("node=n1", "node n1"),
        ("topology.kubernetes.io/zone=b", "zone b"),
        ("kubenode.io/rack=r1", "rack r1"),
        ("team.example.com/tier=gold", "team.example.com/tier=gold"),
    ],
)
def test_a_scope_is_described_by_the_short_name_of_its_label(scope: str, text: str) -> None:
    assert describe_scope(scope) == text
