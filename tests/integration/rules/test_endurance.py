"""The child is killed, replaced, recycled and kept at work for long: no answer is wrong or lost.

KUBENODE_SOAK_DECISIONS sets how long the soak is.
"""

import os
import random
import signal
import threading
import time
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import LETTERS, a_condition, a_node, a_rule, status_facts
from support.rules_engines import Between, Children
from support.rules_oracle import Oracle

from rules.diagnose import Agreement, Diagnoser
from rules.engines.durable import MOST_AGE, MOST_GROWTH, DurableEngine
from rules.engines.port import EngineError
from rules.facts import FactSet
from rules.program import RuleVersion, compile_program
from rules.truth import Truth

pytestmark = pytest.mark.integration
DECISIONS = int(os.environ.get("KUBENODE_SOAK_DECISIONS", "5000"))
DERIVED = {"fact": {"name": "d.near"}}
NEITHER = {"not": DERIVED}
RULES = [
    a_rule(
        "near", when={"any": [{"condition": {"type": t}} for t in "AB"]}, infer={"fact": "d.near"}
    ),
    a_rule("reader", when=DERIVED, unless={"condition": {"type": "C"}}),
    a_rule("not-near", when=NEITHER),
    *(
        a_rule(f"r-{t.lower()}", when={"all": [{"condition": {"type": t}}, NEITHER]})
        for t in "CDEF"
    ),
]


@pytest.fixture
def children() -> Children:
    return Children()


@pytest.fixture
def diagnoser(children: Children) -> Iterator[Diagnoser]:
    made = Diagnoser(children)
    assert not made.load(RULES).rejected
    yield made
    made.close()
    for child in children.all:
        assert not os.path.exists(f"/proc/{child.pid}")


def a_life(dice: random.Random) -> FactSet:
    return status_facts([dice.choice(("True", "False", "Unknown")) for _ in LETTERS])


def right(diagnoser: Diagnoser, facts: FactSet, rules: list[RuleVersion]) -> set[Agreement]:
    """The labels; fails when one answer is wrong or lost."""
    found = {m.rule_id: m for m in diagnoser.diagnose([facts], T0)[0].matches}
    oracle = Oracle(rules, facts)
    assert {id_: m.evidence for id_, m in found.items()} == {
        rule.id: Truth.of(oracle.evidence(rule)) for rule in rules
    }
    return {match.agreement for match in found.values()}


def restarts(diagnoser: Diagnoser) -> dict[str, int]:
    assert diagnoser.check.durable is not None
    return diagnoser.check.durable.restarts


def test_no_answer_is_wrong_or_lost_while_children_are_killed(
    diagnoser: Diagnoser, children: Children
) -> None:
    dice, done = random.Random(7), threading.Event()

    def killing() -> None:
        while not done.wait(dice.uniform(0.05, 0.4)):
            child = children.all[-1]
            if child._process.poll() is None:  # not waited for: nobody else has its number
                os.kill(child.pid, signal.SIGKILL)

    killer = threading.Thread(target=killing)
    killer.start()
    try:
        deadline, labels, slowest = time.monotonic() + 6, set[Agreement](), 0.0
        while time.monotonic() < deadline:
            began = time.monotonic()
            labels |= right(diagnoser, a_life(dice), RULES)
            slowest = max(slowest, time.monotonic() - began)
    finally:
        done.set()
        killer.join()
    assert labels <= {Agreement.AGREED, Agreement.UNCHECKED}
    assert sum(restarts(diagnoser).values()) >= 3
    assert diagnoser.check.stats.disagreements == 0
    assert slowest < 10


def test_programs_swapped_under_load_dispute_nothing(
    diagnoser: Diagnoser, children: Children
) -> None:
    dice = random.Random(8)
    for n in range(12):
        rules = [*RULES[: 3 + n % 4], a_rule(f"extra{n}", when={"condition": {"type": "F"}})]
        assert not diagnoser.load(rules).rejected
        for _ in range(20):
            assert right(diagnoser, a_life(dice), rules) == {Agreement.AGREED}
    assert len(children.all) == 13
    assert restarts(diagnoser) == {}


def test_old_child_is_replaced_by_one_that_passed_its_canary(children: Children) -> None:
    now = [0.0]
    diagnoser = Diagnoser(children, lambda: now[0])
    try:
        diagnoser.load(RULES)
        first = children.pid
        ill = status_facts(["True"] * len(LETTERS))
        assert right(diagnoser, ill, RULES) == {Agreement.AGREED}
        now[0] = MOST_AGE + 1
        assert right(diagnoser, ill, RULES) == {Agreement.AGREED}
        assert children.pid != first and not os.path.exists(f"/proc/{first}")
        assert restarts(diagnoser) == {"age": 1}
        assert right(diagnoser, ill, RULES) == {Agreement.AGREED}
        assert len(children.all) == 2
    finally:
        diagnoser.close()


class Swelling(Between):
    """It says that it holds more with every answer."""

    grown = 0

    def says(self, answer: dict[str, Any]) -> dict[str, Any]:
        if "rss" in answer:
            self.grown += 1
            answer["rss"] = 30_000_000 + (MOST_GROWTH // 3) * self.grown
        return answer


def test_child_that_swells_is_replaced_before_it_hurts() -> None:
    now = [0.0]
    diagnoser = Diagnoser(Swelling, lambda: now[0])
    try:
        diagnoser.load([a_rule("a")])
        for _ in range(10):
            now[0] += 31
            match = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches[0]
            assert match.agreement is Agreement.AGREED
        assert restarts(diagnoser).keys() == {"memory"}
        assert 1 <= restarts(diagnoser)["memory"] <= 3
    finally:
        diagnoser.close()


def test_successor_that_does_not_start_leaves_the_old_child_at_work(children: Children) -> None:
    now, broken = [0.0], [False]

    def spawn() -> object:
        if broken[0]:
            raise OSError("no more processes")
        return children()

    diagnoser = Diagnoser(spawn, lambda: now[0])  # type: ignore[arg-type]
    try:
        diagnoser.load(RULES)
        now[0], broken[0] = MOST_AGE + 1, True
        ill = status_facts(["True"] * len(LETTERS))
        assert right(diagnoser, ill, RULES) == {Agreement.AGREED}
        assert len(children.all) == 1 and restarts(diagnoser) == {}
        assert diagnoser.check.trouble == ""
    finally:
        diagnoser.close()


def test_child_may_not_take_the_machine_s_memory(children: Children) -> None:
    children().receive(4, 20)
    limits = Path(f"/proc/{children.pid}/limits").read_text()
    children.all[0].kill()
    space = next(line for line in limits.splitlines() if line.startswith("Max address space"))
    assert int(space.split()[3]) <= 2 * 1024**3


def test_refused_program_leaves_the_old_child_with_its_program(children: Children) -> None:
    engine = DurableEngine(children, lambda: 0.0)

    class Deadly(Between):
        def asks(self, request: dict[str, Any]) -> dict[str, Any]:
            if request["op"] == "load" and request["rulesets"]:
                os.kill(self.real.pid, signal.SIGKILL)
            return request

    try:
        engine.load(compile_program([a_rule("a")]))
        before = children.pid
        engine._spawn = Deadly
        with pytest.raises(EngineError) as error:
            engine.load(compile_program([a_rule("poison"), a_rule("b")]))
        assert error.value.reason == "fatal"
        assert engine.up and not children.all[0]._process.poll()
        assert os.path.exists(f"/proc/{before}")
    finally:
        engine.close()


@pytest.mark.timeout(7200)
def test_memory_and_descriptors_stay_flat_over_a_long_life(
    diagnoser: Diagnoser, children: Children
) -> None:
    """Ours and the child's: nodes come and go, fall ill and get well."""
    dice, now = random.Random(9), T0
    held: list[tuple[int, int, int]] = []
    for n in range(DECISIONS):
        now += timedelta(seconds=1)
        statuses = [dice.choice(("True", "False", "Unknown")) for _ in LETTERS]
        pairs = zip(LETTERS, statuses, strict=True)
        conditions = {t: a_condition(t, s, since=now, heard=now) for t, s in pairs}
        node = FactSet(f"n{n % 300}", f"u{n % 700}", conditions=conditions)
        assert {m.agreement for m in diagnoser.diagnose([node], now)[0].matches} == {
            Agreement.AGREED
        }
        if n in (DECISIONS // 2, DECISIONS - 1):
            held.append((_rss(os.getpid()), _rss(children.pid), _descriptors(children.pid)))
    (ours, theirs, open_), (ours_after, theirs_after, open_after) = held
    assert ours_after - ours < 8_000_000
    assert theirs_after - theirs < 2_000_000
    assert open_after == open_
    assert len(children.all) == 1


def _rss(pid: int) -> int:
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def _descriptors(pid: int) -> int:
    return len(os.listdir(f"/proc/{pid}/fd"))
