"""Which rules speak of a node: by the labels that some selector names, and no others."""

from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from support.rules_builders import a_rule

from rules.program import compile_program
from rules.selection import Selections

VALUES = ("gpu", "cpu")
KEYS = ("pool", "zone", "other")
NODES: list[dict[str, Any]] = [
    {"all": True},
    {"selector": {"matchLabels": {"pool": "gpu"}}},
    {"selector": {"matchExpressions": [{"key": "zone", "operator": "Exists"}]}},
    {"selector": {"matchExpressions": [{"key": "zone", "operator": "DoesNotExist"}]}},
    {"selector": {"matchExpressions": [{"key": "pool", "operator": "NotIn", "values": ["gpu"]}]}},
    {"all": True, "exclude": {"matchLabels": {"zone": "cpu"}}},
]
PROGRAM = compile_program([a_rule(f"r{n}", nodes=nodes) for n, nodes in enumerate(NODES)])
LABELS = st.dictionaries(st.sampled_from(KEYS), st.sampled_from(VALUES))


@settings(deadline=None)
@given(st.lists(LABELS, max_size=8))
def test_selection_is_what_each_selector_says(nodes: list[dict[str, str]]) -> None:
    selections = Selections(PROGRAM)
    for labels in nodes:
        chosen = {r.number for r in PROGRAM.rules if r.rule.remedier.spec.nodes.matches(labels)}
        assert selections.of(labels).numbers == chosen


def test_nodes_that_differ_in_other_labels_share_a_selection() -> None:
    selections = Selections(PROGRAM)
    names = ({"pool": "gpu", "kubernetes.io/hostname": f"n{n}"} for n in range(3))
    assert len({id(selections.of(labels)) for labels in names}) == 1
