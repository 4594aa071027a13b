from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule, seconds

from rules.explain import explain


def test_names_what_is_missing_for_a_match() -> None:
    when = {"all": [{"condition": {"type": "Fault", "for": "30s"}}, {"label": {"key": "gpu"}}]}
    text = explain(a_rule("r", when=when).remedier, a_node(a_condition()), T0 + seconds(5))
    assert "does not match; what is missing:" in text
    assert "not yet for 30s" in text
    assert "label gpu is absent" in text


def test_names_the_guard_that_holds_a_match_back() -> None:
    unless = {"any": [{"fact": {"name": "maintenance.active"}}]}
    rule = a_rule("r", unless=unless).remedier
    held = a_node(a_condition(), values={"maintenance.active": True})
    assert "held back by its guards" in explain(rule, held, T0)
    unknown = explain(rule, a_node(a_condition()), T0)
    assert "fact maintenance.active is not known" in unknown
    free = a_node(a_condition(), values={"maintenance.active": False})
    assert explain(rule, free, T0).endswith("  matches")


def test_says_when_the_node_is_not_selected() -> None:
    rule = a_rule("r", nodes={"selector": {"matchLabels": {"pool": "gpu"}}}).remedier
    assert "does not select this node" in explain(rule, a_node(), T0)
