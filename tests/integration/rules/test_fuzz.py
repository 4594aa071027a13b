"""Random rules and timelines: both engines say what a brute-force evaluator says, at every step.

KUBENODE_FUZZ_PROGRAMS sets how many cases; the engine of a case is durable_rules in this process,
so that ten thousand need no ten thousand children.
"""

import os

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.rules_builders import programs
from support.rules_engines import Near
from support.rules_oracle import Oracle
from support.rules_timelines import LEAVES, LIVES, Life, Step

from rules.diagnose import Agreement, Diagnoser
from rules.program import RuleVersion
from rules.truth import Truth

pytestmark = pytest.mark.integration
CASES = int(os.environ.get("KUBENODE_FUZZ_PROGRAMS", "200"))
PLAIN = [
    leaf
    for leaf in LEAVES
    if leaf.keys().isdisjoint({"absent", "all"})
    and "message" not in leaf.get("event", {})
    and "reason" not in leaf.get("condition", {})
    and not leaf.get("fact", {}).get("name", "").startswith("node.unread")
]
"""What the oracle can read."""


@pytest.mark.timeout(7200)
@settings(max_examples=CASES, deadline=None)
@given(programs(st.sampled_from(PLAIN)), LIVES)
def test_engines_and_brute_force_agree_over_random_timelines(
    rules: list[RuleVersion], life: list[Step]
) -> None:
    diagnoser, node = Diagnoser(Near), Life()
    refused = diagnoser.load(rules).rejected
    good = [rule for rule in rules if rule.id not in refused]
    for step in life:
        facts = node.take(step)
        oracle = Oracle(good, facts, node.now)
        found = {m.rule_id: m for m in diagnoser.diagnose([facts], node.now)[0].matches}
        for rule in good:
            match = found[rule.id]
            assert match.agreement is Agreement.AGREED
            assert match.evidence is Truth.of(oracle.evidence(rule))
            assert match.guards is Truth.of(oracle.guards(rule))
    assert diagnoser.check.stats.disagreements == 0
    assert diagnoser.check.trouble == ""
