"""Rules, facts and random programs for tests of the rule engine."""

from collections.abc import Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any

from hypothesis import strategies as st
from support.clock import T0

from kubenode.api.v1alpha1 import NodeRemedier
from rules.facts import ConditionFact, FactSet
from rules.program import RuleVersion

LADDER = [{"name": "tell", "steps": [{"notify": {}}]}]


def a_rule(
    name: str = "rule",
    *,
    when: Mapping[str, Any] | None = None,
    unless: Mapping[str, Any] | None = None,
    infer: Mapping[str, Any] | None = None,
    priority: int = 500,
    nodes: Mapping[str, Any] | None = None,
    **parts: Any,
) -> RuleVersion:
    """Evidence by default: condition Fault is True. `parts`: other fields of the spec."""
    spec: dict[str, Any] = {
        "mode": "Enforce",
        "priority": priority,
        "nodes": nodes or {"all": True},
        "when": when or {"condition": {"type": "Fault"}},
    }
    spec |= {"infer": infer} if infer is not None else {"ladder": LADDER}
    spec |= ({"unless": unless} if unless is not None else {}) | parts
    metadata = {"name": name.partition("@")[0]}
    return RuleVersion(name, NodeRemedier.from_user({"metadata": metadata, "spec": spec}))


def a_condition(
    type_: str = "Fault",
    status: str = "True",
    *,
    since: datetime = T0,
    heard: datetime = T0,
    reason: str = "Because",
    message: str = "it is so",
) -> ConditionFact:
    return ConditionFact(type_, status, reason, message, since, heard)


def a_node(*conditions: ConditionFact, **changes: Any) -> FactSet:
    return FactSet(node="n1", uid="u1", conditions={c.type: c for c in conditions}, **changes)


def seconds(count: float) -> timedelta:
    return timedelta(seconds=count)


LETTERS = "ABCDEF"
"""Condition types of random programs: True, False and Unknown give the three truths."""


def status_facts(statuses: Sequence[str]) -> FactSet:
    """One node whose conditions A, B, ... have these statuses."""
    pairs = zip(LETTERS, statuses, strict=True)
    return a_node(*(a_condition(letter, status) for letter, status in pairs))


CONDITIONS = st.sampled_from(LETTERS).map(lambda t: {"condition": {"type": t}})
Leaves = st.SearchStrategy[dict[str, Any]]


def expressions(names: Sequence[str] = (), depth: int = 2, leaves: Leaves = CONDITIONS) -> Leaves:
    """Random `when`s over `leaves` and the derived facts `names`."""
    leaf = leaves
    if names:
        leaf = st.one_of(leaves, st.sampled_from(names).map(lambda n: {"fact": {"name": n}}))
    if depth == 0:
        return leaf
    below = expressions(names, depth - 1, leaves)
    several = st.lists(below, min_size=1, max_size=3)
    return st.one_of(
        leaf,
        several.map(lambda members: {"all": members}),
        several.map(lambda members: {"any": members}),
        below.map(lambda member: {"not": member}),
    )


@st.composite
def programs(draw: st.DrawFn, leaves: Leaves = CONDITIONS) -> list[RuleVersion]:
    """Rules that chain: some infer d.f0, d.f1 ..., later ones read what earlier ones infer."""
    rules: list[RuleVersion] = []
    names: list[str] = []
    for n in range(draw(st.integers(0, 2))):
        when = draw(expressions(names, 2, leaves))
        rules.append(a_rule(f"infer{n}", when=when, infer={"fact": f"d.f{n}"}))
        names.append(f"d.f{n}")
    for n in range(draw(st.integers(1, 3))):
        unless = draw(st.one_of(st.none(), expressions(names, 2, leaves)))
        when = draw(expressions(names, 2, leaves))
        rules.append(a_rule(f"rule{n}", when=when, unless=unless))
    return rules


STATUSES = st.lists(
    st.sampled_from(["True", "False", "Unknown"]), min_size=len(LETTERS), max_size=len(LETTERS)
)
