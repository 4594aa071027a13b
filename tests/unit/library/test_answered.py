"""Every field and word that a rule may ask for is answered by a program of this tree."""

from collections.abc import Iterator

import pytest

from agent.probes.host import PRODUCED as OF_AGENTS
from kubenode.api.v1alpha1 import Expression, NodeRemedier
from kubenode.api.v1alpha1.leaves import FactLeaf, ProbeLeaf
from kubenode.cli.library import packs
from remedy.hostprobes.desk import PRODUCED as OF_THE_OPERATOR
from remedy.remedier.values import GATHERED
from rules.builtin import BUILTIN, SAME_FAULT, UNREAD
from rules.lint.walk import places
from rules.probes import PROBES, REMOVED
from rules.program import RuleVersion, compile_program

RULES = [rule for pack in packs().values() for rule in pack]
COUNTED = SAME_FAULT | UNREAD | {"time.inWindow"}
"""Facts that the diagnosis answers: counts of nodes by rule, reports that no rule reads, and the
window by its own clock.
"""
INFERRED = frozenset(rule.spec.infer.fact for rule in RULES if rule.spec.infer is not None)


def produced_words(name: str) -> set[str]:
    return {*OF_AGENTS.get(name, ()), *OF_THE_OPERATOR.get(name, ())}


def expressions(rule: NodeRemedier) -> Iterator[tuple[str, Expression]]:
    """Evidence, guards and checks of a rule."""
    yield "spec.when", rule.spec.when
    if rule.spec.unless is not None:
        yield "spec.unless", rule.spec.unless
    for number, rung in enumerate(rule.spec.ladder or []):
        if rung.verify.cleared is not None:
            yield f"spec.ladder[{number}].verify.cleared", rung.verify.cleared


def test_language_has_exactly_the_fields_that_are_answered() -> None:
    assert set(PROBES) == set(OF_AGENTS) | set(OF_THE_OPERATOR)


def test_language_has_exactly_the_words_that_are_answered() -> None:
    words = {name: set(field.values) for name, field in PROBES.items()}
    assert words == {name: produced_words(name) for name in PROBES}


def test_language_has_exactly_the_facts_that_are_gathered() -> None:
    assert set(BUILTIN) == GATHERED | COUNTED


def test_removed_fields_are_gone_and_name_a_way_out() -> None:
    assert not REMOVED.keys() & PROBES.keys()
    assert all(REMOVED.values())


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule.metadata.name)
def test_library_asks_only_what_is_answered(rule: NodeRemedier) -> None:
    dead = []
    for path, expression in expressions(rule):
        for place in places(expression, path):
            leaf = getattr(place.leaf, "leaf", place.leaf)
            if isinstance(leaf, ProbeLeaf):
                wanted = [value for value in (leaf.equals, *(leaf.in_ or ())) if value is not None]
                words = produced_words(leaf.name)
                known = leaf.name in OF_AGENTS or leaf.name in OF_THE_OPERATOR
                if not known or (words and not {str(value) for value in wanted} <= words):
                    dead.append((place.path, leaf.name, wanted))
            elif isinstance(leaf, FactLeaf) and leaf.name not in GATHERED | COUNTED | INFERRED:
                dead.append((place.path, leaf.name, []))
    assert not dead


@pytest.mark.parametrize("part", ["when", "unless"])
@pytest.mark.parametrize("name", sorted(REMOVED))
def test_rule_that_asks_a_removed_field_is_refused(name: str, part: str) -> None:
    spec = next(rule for rule in RULES if rule.metadata.name == "clock-skew").model_dump(
        mode="json", by_alias=True, exclude_none=True
    )
    spec["spec"][part] = {"probe": {"name": name, "above": 3}}
    program = compile_program([RuleVersion("r", NodeRemedier.model_validate(spec))])
    (error,) = program.rejected
    assert error.path == f"spec.{part}.probe.name"
    assert "no program answers it" in error.message and REMOVED[name] in error.message
