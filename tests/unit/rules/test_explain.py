import json
from dataclasses import replace
from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule, seconds

from rules.explain import explain, explained
from rules.facts import FactSet, ProbeFact
from rules.program import compile_program
from rules.truth import Truth


def test_names_what_is_missing_for_a_match() -> None:
    when = {"all": [{"condition": {"type": "Fault", "for": "30s"}}, {"label": {"key": "gpu"}}]}
    text = explain(a_rule("r", when=when).remedier, a_node(a_condition()), T0 + seconds(5))
    assert "does not match; what is missing:" in text
    assert "condition Fault=True for 30s; it is True (Because) for 5 s" in text
    assert "label gpu exists; it is absent" in text


def test_names_the_guard_that_holds_a_match_back() -> None:
    unless = {"any": [{"fact": {"name": "maintenance.active"}}]}
    rule = a_rule("r", unless=unless).remedier
    held = a_node(a_condition(), values={"maintenance.active": True})
    assert "held back by its guards" in explain(rule, held, T0)
    unknown = explain(rule, a_node(a_condition()), T0)
    assert "must be known to be false: fact maintenance.active is true; it is not known" in unknown
    assert "held back by" not in unknown, "the operator waits for it only while it is asked"
    free = a_node(a_condition(), values={"maintenance.active": False})
    assert explain(rule, free, T0).endswith("  matches")


def test_names_window_and_once() -> None:
    """T0 is a Thursday, 12:00."""
    parts: dict[str, Any] = {
        "window": {"days": ["Fri"], "from": "09:00", "to": "16:00", "timeZone": "Europe/Berlin"},
        "once": {"per": "Rack", "within": "4h"},
        "ladder": [
            {
                "name": "page",
                "window": {"from": "08:00", "to": "20:00"},
                "steps": [{"notify": {"message": "lost"}}],
            }
        ],
    }
    rule, opens_at = a_rule("r", **parts).remedier, "2026-01-02T08:00:00.000Z"
    text = explain(rule, a_node(a_condition()), T0).splitlines()
    assert text[-4:] == [
        f"  jobs begin in the window Fri 09:00-16:00 Europe/Berlin: opens at {opens_at}",
        "  rung page begins in the window daily 08:00-20:00 UTC: open now",
        "  one job for each Rack within 4h, not one for each node",
        "  matches",
    ]
    assert len(explained(rule, a_node(a_condition()), T0).to_json()["limits"]) == 3


def test_says_when_the_node_is_not_selected() -> None:
    rule = a_rule("r", nodes={"selector": {"matchLabels": {"pool": "gpu"}}}).remedier
    assert "does not select this node" in explain(rule, a_node(), T0)


def test_says_in_plain_words_what_is_missing_and_how_it_stands() -> None:
    when = {"all": [{"condition": {"type": "Fault", "for": "30s"}}, {"label": {"key": "gpu"}}]}
    found = explained(a_rule("r", when=when).remedier, a_node(a_condition()), T0 + seconds(12))
    assert found.missing == (
        "needs condition Fault=True for 30s; it is True (Because) for 12 s",
        "needs label gpu exists; it is absent",
    )
    assert found.flips_at == T0 + seconds(30)


STATES: list[tuple[dict[str, Any], FactSet, str]] = [
    ({"condition": {"type": "Other"}}, a_node(), "it is not reported"),
    (
        {"condition": {"type": "Fault", "maxAge": "1m"}},
        a_node(a_condition(heard=T0 - seconds(600))),
        "it was last heard from 11 min ago, saying True",
    ),
    (
        {"condition": {"type": "Fault"}},
        a_node(replace(a_condition(status="False"), settles=T0 + seconds(180))),
        "it is False for 60 s, when its reporter started: that is no finding yet",
    ),
    (
        {"condition": {"type": "Fault", "for": "2m"}},
        a_node(replace(a_condition(), began=T0 - seconds(600))),
        "it is True (Because) for 60 s, perhaps for 11 min: its reporter has not repeated it",
    ),
    (
        {"condition": {"type": "Fault", "for": "30s"}},
        a_node(a_condition(), unheard=[(T0 + seconds(5), T0 + seconds(45))]),
        "it is True (Because) for 60 s, but its reporter could not be heard for 40 s of it",
    ),
    (
        {"condition": {"type": "Fault", "maxAge": "30s"}},
        a_node(a_condition(), unheard=[(T0 + seconds(5), T0 + seconds(45))]),
        "it was last heard from 60 s ago, saying True",
    ),
    (
        {"condition": {"type": "Fault", "reason": "Docker"}},
        a_node(a_condition()),
        "it is True for 60 s, but with reason 'Because' and message 'it is so'",
    ),
    ({"fact": {"name": "node.age", "above": 90}}, a_node(values={"node.age": 60.0}), "60 seconds"),
    (
        {"fact": {"name": "node.age", "below": 90}},
        a_node(values={"node.age": 4320.4}),
        "1h12m (4320 seconds)",
    ),
    ({"fact": {"name": "zone.sameFault", "below": 3}}, a_node(), "it is not counted yet"),
    (
        {"fact": {"name": "node.lastRepairAgo", "below": 9}},
        a_node(values={"node.lastRepairAgo": float("inf")}),
        "it is infinite",
    ),
    (
        {"fact": {"name": "node.cordonedBy", "equals": ""}},
        a_node(values={"node.cordonedBy": "somebody"}),
        "it is 'somebody'",
    ),
    (
        {"probe": {"name": "disk.used_pct", "above": 90}},
        a_node(probes={"disk.used_pct": ProbeFact(80, T0 + seconds(30))}),
        "it is 80 percent, 30 s ago",
    ),
    ({"probe": {"name": "disk.used_pct", "above": 90}}, a_node(), "was not answered"),
    (
        {"event": {"reason": "Oops", "count": 3}},
        a_node(),
        "it occurred 0 times in that time for certain",
    ),
    ({"alert": {"name": "Disk"}}, a_node(), "no source of alerts was ever heard from"),
    ({"label": {"key": "pool", "value": "gpu"}}, a_node(labels={"pool": "cpu"}), "it is 'cpu'"),
    ({"label": {"key": "pool"}}, a_node(fresh=False), "stale"),
]


@pytest.mark.parametrize(("when", "facts", "words"), STATES, ids=lambda value: str(value)[:40])
def test_every_kind_of_leaf_says_how_it_stands(
    when: dict[str, Any], facts: FactSet, words: str
) -> None:
    (sentence,) = explained(a_rule("r", when=when).remedier, facts, T0 + seconds(60)).missing
    assert sentence.endswith(words)


def test_a_page_says_each_thing_once() -> None:
    unless = {
        "any": [
            {"fact": {"name": "node.foreignOwner"}},
            {"fact": {"name": "zone.unhealthyRatio", "above": 0.4}},
            {"fact": {"name": "time.inWindow", "window": WINDOW}},
            {"event": {"reason": "Oops", "within": "72m"}},
            {"probe": {"name": "mount.answers", "is": False}},
        ]
    }
    facts = a_node(
        a_condition(),
        values={"node.foreignOwner": True, "zone.unhealthyRatio": 0.125},
        probes={"mount.answers": ProbeFact(None, T0)},
    )
    found = explained(a_rule("r", unless=unless).remedier, facts, T0 + seconds(30))
    assert found.text().splitlines()[3:] == [
        "  unless:",
        "    + any of",
        "      + fact node.foreignOwner is true",
        "      - fact zone.unhealthyRatio > 0.4: it is 0.125",
        "      - fact time.inWindow Sun 01:00-05:00 UTC: now is outside",
        "      - event Oops within 1h12m: it occurred 0 times in that time for certain",
        "      ? probe mount.answers is false: it failed, or its answer does not have it, 30 s ago",
        "  matches, but is held back by its guards:",
        "    must be false: fact node.foreignOwner is true",
    ]


WINDOW = {"days": ["Sun"], "from": "01:00", "to": "05:00", "timeZone": "UTC"}


def test_a_stale_cache_is_told_once() -> None:
    unless = {"fact": {"name": "maintenance.active"}}
    found = explained(a_rule("r", unless=unless).remedier, a_node(fresh=False), T0)
    assert found.missing == (
        "needs a current view of the node: what is known of the node is stale",
    )
    assert found.text().count("stale") == 1


def test_alternatives_are_one_sentence() -> None:
    when = {"any": [{"label": {"key": "a"}}, {"not": {"label": {"key": "b"}}}]}
    (sentence,) = explained(a_rule("r", when=when).remedier, a_node(labels={"b": ""}), T0).missing
    assert sentence == (
        "one of: needs label a exists; it is absent; or must be false: label b exists; it is ''"
    )


def test_derived_facts_are_followed_into_the_rules_that_infer_them() -> None:
    elsewhere = {"selector": {"matchLabels": {"pool": "gpu"}}}
    rules = [
        a_rule("base", when={"label": {"key": "a"}}, infer={"fact": "d.low"}),
        a_rule("high", when={"fact": {"name": "d.low"}}, infer={"fact": "d.high"}),
        a_rule("other", infer={"fact": "d.high"}, nodes=elsewhere),
        a_rule("reader", when={"fact": {"name": "d.high"}}),
    ]
    program = compile_program(rules)
    reader = rules[-1].remedier
    assert explained(reader, a_node(labels={"a": ""}), T0, program).matches is Truth.TRUE
    found = explained(reader, a_node(), T0, program)
    assert found.matches is Truth.FALSE
    assert "needs label a exists; it is absent" in found.missing[0]
    assert "rule other does not select this node" in found.text()
    assert explained(reader, a_node(), T0).matches is Truth.UNKNOWN


def test_wide_facts_and_counts_are_what_was_fed() -> None:
    many = {"fact": {"name": "rack.sameFault", "above": 3}}
    rules = [
        a_rule("dark@2", infer={"fact": "rack.dark", "scope": "Rack"}),
        a_rule(
            "reader@2",
            when={"all": [{"fact": {"name": "rack.dark"}}, {"label": {"key": "a"}}, many]},
        ),
    ]
    facts = a_node(
        labels={"a": ""}, inferred={"rack.dark": True}, same_fault={"reader@2": {"rack": 2}}
    )
    found = explained(rules[1].remedier, facts, T0, compile_program(rules))
    assert found.missing == ("needs fact rack.sameFault > 3; it is 2 nodes",)


def test_explanation_is_json() -> None:
    when = {"all": [{"condition": {"type": "Fault", "for": "30s"}}]}
    unless = {"fact": {"name": "node.lastRepairAgo", "below": 60}}
    rule = a_rule("r", when=when, unless=unless).remedier
    facts = a_node(a_condition(), values={"node.lastRepairAgo": float("inf")})
    found = json.loads(
        json.dumps(explained(rule, facts, T0 + seconds(12)).to_json(), allow_nan=False)
    )
    assert found["matches"] == "false"
    (leaf,) = found["when"]["members"]
    assert (leaf["truth"], leaf["value"], leaf["ageSeconds"]) == ("false", "True", 12.0)
    assert leaf["flipsAt"] == "2026-01-01T12:00:30+00:00"
    assert found["unless"]["value"] == "infinite"
    outside = a_rule("r", nodes={"selector": {"matchLabels": {"a": "b"}}}).remedier
    assert explained(outside, a_node(), T0).to_json()["selected"] is False
