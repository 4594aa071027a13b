"""What every engine behind the port must do; `support.rules_engines.engines` lists them."""

from collections.abc import Iterator
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.rules_builders import a_rule, programs
from support.rules_engines import engines

from rules.engines.port import FALSE, TRUE, UNKNOWN, EngineQuestion, Outputs, RuleEngine, Vector
from rules.program import CompiledRule, Disjunct, RuleProgram, RuleVersion, compile_program

pytestmark = pytest.mark.integration
KNOWN = (FALSE, UNKNOWN, TRUE)
A, B = ({"condition": {"type": letter}} for letter in "AB")
NEAR: dict[str, Any] = {"fact": {"name": "d.near"}}


@pytest.fixture(params=sorted(engines()))
def engine(request: pytest.FixtureRequest) -> Iterator[RuleEngine]:
    made = engines()[request.param]()
    yield made
    made.close()


def holds(disjunct: Disjunct, vector: Vector) -> bool:
    return all(vector[slot] == (TRUE if known else FALSE) for slot, known in disjunct)


def expected(rule: CompiledRule, vector: Vector) -> Outputs:
    """By the alternatives of literals, as far as an engine must be given them."""
    return frozenset(
        name for name, found in rule.given.items() if any(holds(d, vector) for d in found)
    )


def given_of(program: RuleProgram, question: EngineQuestion, fired: Outputs) -> Outputs:
    """Without the outputs that an engine may leave out (rules.program)."""
    rules = program.strata[question.stratum]
    return fired & frozenset(name for rule in rules for name in rule.given)


def test_each_of_three_truths_is_told_apart(engine: RuleEngine) -> None:
    program = compile_program([a_rule("a", when=A, unless=B)])
    engine.load(program)
    for vector in (bytes(values) for values in product(KNOWN, repeat=2)):
        (fired,) = engine.matches([EngineQuestion(0, vector)])
        assert fired == expected(program.rules[0], vector)


def test_only_the_rules_in_question_are_answered(engine: RuleEngine) -> None:
    program = compile_program([a_rule(n, when=A) for n in "abc"])
    engine.load(program)
    vector = bytes([TRUE])
    asked = [EngineQuestion(0, vector, frozenset(n)) for n in ({0}, {1, 2}, set[int]())]
    assert engine.matches(asked) == [{"r0ep"}, {"r1ep", "r2ep"}, set()]
    assert engine.matches([]) == []


def test_answers_are_in_the_order_of_the_questions_and_depend_on_nothing_else(
    engine: RuleEngine,
) -> None:
    program = compile_program([a_rule("a", when={"all": [A, B]})])
    engine.load(program)
    vectors = [bytes(values) for values in product(KNOWN, repeat=2)]
    asked = [EngineQuestion(0, vector) for vector in (*vectors, *reversed(vectors))]
    found = engine.matches(asked)
    assert found == [expected(program.rules[0], question.vector) for question in asked]
    assert engine.matches(asked[::-1]) == found[::-1]


def test_derived_facts_are_read_from_the_vector_not_from_an_earlier_question(
    engine: RuleEngine,
) -> None:
    rules = [a_rule("i", when=A, infer={"fact": "d.near"}), a_rule("r", when={"not": NEAR})]
    engine.load(compile_program(rules))
    for atom, near, fired in ((TRUE, TRUE, "r1en"), (TRUE, FALSE, "r1ep"), (FALSE, TRUE, "r1en")):
        assert engine.matches([EngineQuestion(1, bytes([atom, near]))]) == [{fired}]
    assert engine.matches([EngineQuestion(1, bytes([TRUE, UNKNOWN]))]) == [set()]


def test_load_replaces_all_of_the_program(engine: RuleEngine) -> None:
    engine.load(compile_program([a_rule("a", when=A), a_rule("b", when=B)]))
    engine.load(compile_program([a_rule("b", when={"not": B})]))
    assert engine.matches([EngineQuestion(0, bytes([FALSE]))]) == [{"r0ep"}]


def test_many_rules_of_one_node_all_fire(engine: RuleEngine) -> None:
    program = compile_program([a_rule(f"r{n:03}", when=A) for n in range(200)])
    engine.load(program)
    (fired,) = engine.matches([EngineQuestion(0, bytes([TRUE]))])
    assert fired == {rule.output("e", True) for rule in program.rules}


@settings(max_examples=12, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.data())
def test_random_programs_are_answered_as_their_alternatives_say(
    engine: RuleEngine, rules: list[RuleVersion], data: st.DataObject
) -> None:
    program = compile_program(rules)
    engine.load(program)
    byte = st.sampled_from(KNOWN)
    vectors = st.lists(byte, min_size=program.width, max_size=program.width).map(bytes)
    for stratum, members in enumerate(program.strata):
        vector = data.draw(vectors)
        (fired,) = engine.matches([EngineQuestion(stratum, vector)])
        wanted = frozenset[str]().union(*(expected(rule, vector) for rule in members))
        assert given_of(program, EngineQuestion(stratum, vector), fired) == wanted
