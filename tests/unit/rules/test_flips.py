"""Every leaf against the same question: does its answer stand until `flips_at`, and change then?

Nobody asks again before that instant, so a late one is a fault unseen, an early one a wasted look.
"""

from datetime import datetime
from typing import Any

from hypothesis import given
from hypothesis import strategies as st
from support.clock import T0
from support.rules_builders import a_condition, a_node, seconds

from kubenode.api.v1alpha1 import Expression
from rules.atoms import read
from rules.facts import AlertFact, EventFact, FactSet, HostEventFact, ProbeFact

AT = st.integers(-1500, 0)
"""When something was said, in seconds from now."""
SPAN = st.integers(0, 1500).map(lambda n: f"{n}s")


def instant(after: float) -> datetime:
    return T0 + seconds(after)


def gap(ends: tuple[int, int]) -> tuple[datetime, datetime]:
    return instant(min(ends)), instant(max(ends))


@st.composite
def factsets(draw: st.DrawFn) -> FactSet:
    status = st.sampled_from(["True", "False", "Unknown"])
    fault = a_condition(
        "Fault", draw(status), since=instant(draw(AT)), heard=instant(draw(AT)), reason="R"
    )
    ready = a_condition("Ready", draw(status), heard=instant(draw(AT)))
    events = [
        EventFact("Oops", "m", "kubelet", "Warning", draw(st.integers(1, 3)), instant(at))
        for at in draw(st.lists(AT, max_size=4))
    ]
    phase = st.sampled_from(["Scheduled", "Active", "Completed", "Expired", ""])
    host_events = [
        HostEventFact(
            "e", "Reboot", "AWS", draw(phase), "Warning", "m", instant(at), instant(at),
            instant(draw(st.integers(-1500, 3000))),
        )
        for at in draw(st.lists(AT, max_size=2))
    ]  # fmt: skip
    alerts = [
        AlertFact("Disk", {}, draw(st.booleans()), instant(at))
        for at in draw(st.lists(AT, max_size=2))
    ]
    return a_node(
        fault,
        ready,
        events=tuple(events),
        host_events=tuple(host_events),
        alerts=tuple(alerts),
        alerts_alive_at=instant(draw(AT)),
        probes={
            "disk.used_pct": ProbeFact(
                draw(st.sampled_from([80, None])),
                instant(draw(AT)),
                tuple((instant(at - 1500), 80) for at in sorted(draw(st.lists(AT, max_size=3)))),
            )
        },
        watched=instant(draw(AT)),
        unchanged_since=instant(draw(AT)),
        sources_alive_at={"AWS": instant(draw(AT))},
        unheard=tuple(draw(st.lists(st.tuples(AT, AT).map(gap), max_size=2))),
    )


def plain() -> st.SearchStrategy[dict[str, Any]]:
    count = st.integers(1, 3)
    return st.one_of(
        st.builds(
            lambda held, age: {"condition": {"type": "Fault", "for": held, "maxAge": age}},
            SPAN,
            SPAN,
        ),
        st.builds(
            lambda n, within: {"event": {"reason": "Oops", "count": n, "within": within}},
            count,
            SPAN,
        ),
        SPAN.map(lambda s: {"hostEvent": {"class": "Reboot", "startsWithin": s}}),
        SPAN.map(lambda held: {"alert": {"name": "Disk", "for": held}}),
        SPAN.map(lambda age: {"probe": {"name": "disk.used_pct", "above": 50, "maxAge": age}}),
        st.builds(
            lambda age, held: {
                "probe": {"name": "disk.used_pct", "above": 50, "maxAge": age, "for": held}
            },
            SPAN,
            SPAN,
        ),
        st.just({"label": {"key": "a"}}),
    )


def absences() -> st.SearchStrategy[dict[str, Any]]:
    remembered = plain().filter(lambda leaf: "probe" not in leaf)
    return st.builds(lambda leaf, held: {"absent": {**leaf, "for": held}}, remembered, SPAN)


@given(factsets(), plain())
def test_answer_stands_until_it_flips_and_changes_then(facts: FactSet, parts: Any) -> None:
    leaf = Expression.model_validate(parts).leaf
    assert leaf is not None
    first = read(leaf, facts, T0)
    if first.flips_at is not None:
        assert first.flips_at > T0
        assert read(leaf, facts, first.flips_at).truth is not first.truth
    for after in range(1, 3000, 97):
        if first.flips_at is None or instant(after) < first.flips_at:
            assert read(leaf, facts, instant(after)).truth is first.truth


@given(factsets(), absences())
def test_absence_is_never_looked_at_too_late(facts: FactSet, parts: Any) -> None:
    """It may be looked at too early: two things have to come together for it to change."""
    leaf = Expression.model_validate(parts).leaf
    assert leaf is not None
    first = read(leaf, facts, T0)
    for after in range(1, 3000, 97):
        if first.flips_at is None or instant(after) < first.flips_at:
            assert read(leaf, facts, instant(after)).truth is first.truth
