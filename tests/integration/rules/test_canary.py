"""A program that was altered on its way to the second engine is refused before it takes over."""

import json
from itertools import product
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.rules_builders import programs
from support.rules_engines import Near

from rules.engines.canary import canaries
from rules.engines.durable import DurableEngine
from rules.engines.port import EngineError, EngineQuestion, Outputs, Vector
from rules.engines.program_index import Packed
from rules.engines.talk import HEAD
from rules.program import RuleProgram, RuleVersion, compile_program

pytestmark = pytest.mark.integration
KINDS = ("lose a leaf", "turn a leaf", "lose a term", "swap two terms")
MOST_SLOTS = 6
"""Of which all 729 vectors are tried."""


class Altering(Near):
    """One thing in what is loaded becomes another: `kind`, at places that `pick` chooses."""

    def __init__(self, kind: str, pick: int) -> None:
        super().__init__()
        self._kind, self._pick = kind, pick

    def send(self, data: bytes, seconds: float) -> None:
        request = json.loads(data[HEAD.size :])
        if request["op"] == "load" and request["rulesets"]:
            rulesets = request["rulesets"]
            self._alter(rulesets[self._pick % len(rulesets)]["rules"])
            body = json.dumps(request).encode()
            data = HEAD.pack(len(body)) + body
        super().send(data, seconds)

    def _alter(self, rules: dict[str, Any]) -> None:
        names = sorted(rules)
        one, other = (names[(self._pick + n) % len(names)] for n in range(2))
        asked: list[dict[str, bool]] = rules[one]["all"][0]["m"]["$and"]
        place = 1 + self._pick % (len(asked) - 1)
        if self._kind == "lose a leaf" and len(asked) > 2:
            del asked[place]
        elif self._kind == "turn a leaf":
            (name,) = asked[place]
            asked[place] = {("f" if name[0] == "t" else "t") + name[1:]: True}
        elif self._kind == "lose a term" and len(rules) > 1:
            del rules[one]
        else:
            rules[one], rules[other] = rules[other], rules[one]


def said(engine: DurableEngine, program: RuleProgram) -> list[Outputs]:
    """Of every vector and stratum."""
    vectors: list[Vector] = [bytes(v) for v in product(range(3), repeat=program.width)]
    strata = range(len(program.strata))
    return engine.matches(
        [EngineQuestion(stratum, vector) for stratum in strata for vector in vectors]
    )


@settings(max_examples=40, deadline=None, suppress_health_check=list(HealthCheck))
@given(programs(), st.sampled_from(KINDS), st.integers(0, 1000))
def test_altered_program_that_passes_is_the_same_program(
    rules: list[RuleVersion], kind: str, pick: int
) -> None:
    program = compile_program(rules)
    if not program.rules or program.width > MOST_SLOTS:
        return
    altered = DurableEngine(lambda: Altering(kind, pick), lambda: 0.0)
    try:
        altered.load(program)
    except EngineError as error:
        assert error.reason == "canary"
        return
    meant = DurableEngine(Near, lambda: 0.0)
    meant.load(program)
    assert said(altered, program) == said(meant, program)


@given(programs())
@settings(max_examples=40, deadline=None)
def test_every_term_is_asked_about_alone(rules: list[RuleVersion]) -> None:
    program = compile_program(rules)
    asked = [question.vector for question, _ in canaries(program, Packed(program))]
    for rule in program.rules:
        for disjunct in (d for found in rule.given.values() for d in found):
            exact = bytearray([1]) * program.width
            for slot, known in disjunct:
                exact[slot] = 2 if known else 0
            assert bytes(exact) in asked
