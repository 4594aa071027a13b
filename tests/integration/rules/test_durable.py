"""durable_rules in its real child: it says what the reference says, whatever is done to it."""

import json
import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from support.clock import T0
from support.rules_builders import STATUSES, a_condition, a_node, a_rule, programs, status_facts
from support.rules_engines import CHILD, Between, Children

from kubenode.runtime.child import ChildProcess
from rules.diagnose import Agreement, Diagnoser
from rules.engines.durable import EVALUATE_SECONDS
from rules.engines.talk import HEAD
from rules.program import RuleVersion
from rules.truth import Truth

pytestmark = pytest.mark.integration
PROGRAMS = int(os.environ.get("KUBENODE_FUZZ_PROGRAMS", "60"))
"""Random programs per run; more for a longer fuzz."""


@pytest.fixture
def children() -> Children:
    return Children()


@pytest.fixture
def diagnoser(children: Children) -> Iterator[Diagnoser]:
    made = Diagnoser(children)
    yield made
    made.close()
    for child in children.all:
        assert not os.path.exists(f"/proc/{child.pid}")


def agreement(diagnoser: Diagnoser) -> Agreement:
    match = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches[0]
    assert match.evidence is Truth.TRUE
    return match.agreement


@settings(max_examples=PROGRAMS, deadline=None)
@given(programs(), STATUSES, STATUSES)
def test_both_engines_agree_on_random_programs(
    rules: list[RuleVersion], one: list[str], other: list[str]
) -> None:
    diagnoser = Diagnoser(lambda: ChildProcess(CHILD))
    try:
        assert set(diagnoser.load(rules).quarantined) == set()
        for found in diagnoser.diagnose([status_facts(one), status_facts(other)], T0):
            assert {m.agreement for m in found.matches} <= {Agreement.AGREED}
        assert diagnoser.check.stats.disagreements == 0
        assert diagnoser.check.trouble == ""
    finally:
        diagnoser.close()


def test_killed_child_is_replaced_and_the_question_answered(
    diagnoser: Diagnoser, children: Children
) -> None:
    diagnoser.load([a_rule("a")])
    os.kill(children.pid, signal.SIGKILL)
    assert agreement(diagnoser) is Agreement.AGREED
    assert diagnoser.check.durable is not None
    assert sum(diagnoser.check.durable.restarts.values()) == 1


def test_frozen_child_is_replaced_after_its_time(diagnoser: Diagnoser, children: Children) -> None:
    diagnoser.load([a_rule("a")])
    os.kill(children.pid, signal.SIGSTOP)
    began = time.monotonic()
    assert agreement(diagnoser) is Agreement.AGREED
    assert time.monotonic() - began >= EVALUATE_SECONDS
    assert diagnoser.check.durable is not None
    assert diagnoser.check.durable.restarts == {"timeout": 1}


def test_child_that_keeps_dying_leaves_matches_unchecked_and_comes_back(
    children: Children,
) -> None:
    now = [0.0]
    diagnoser = Diagnoser(children, lambda: now[0])
    try:
        diagnoser.load([a_rule("a")])
        os.kill(children.pid, signal.SIGKILL)
        assert agreement(diagnoser) is Agreement.AGREED
        os.kill(children.pid, signal.SIGKILL)
        assert agreement(diagnoser) is Agreement.UNCHECKED
        assert "later" in diagnoser.check.trouble
        now[0] += 60
        assert agreement(diagnoser) is Agreement.AGREED
        assert diagnoser.check.trouble == ""
    finally:
        diagnoser.close()


def test_new_program_gets_a_new_child_and_the_old_one_ends(
    diagnoser: Diagnoser, children: Children
) -> None:
    diagnoser.load([a_rule("a")])
    first = children.pid
    diagnoser.load([a_rule("a"), a_rule("b")])
    assert children.pid != first
    assert not os.path.exists(f"/proc/{first}")
    assert agreement(diagnoser) is Agreement.AGREED


def test_missing_library_is_named_and_nothing_may_act(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    code = (
        "import sys; sys.modules['durable_rules_engine'] = None\n"
        "from rules.engines.child import main; main(sys.argv[1:])"
    )
    monkeypatch.setattr("kubenode.runtime.child.sys.executable", _fake_python(code, tmp_path))
    diagnoser = Diagnoser(lambda: ChildProcess(CHILD))
    try:
        diagnoser.load([a_rule("a")])
        assert agreement(diagnoser) is Agreement.UNCHECKED
        assert "build the package durable-rules" in diagnoser.check.trouble
    finally:
        diagnoser.close()


def _fake_python(code: str, folder: Path) -> str:
    """An interpreter that runs `code` in place of the module that it is asked for."""
    (folder / "main.py").write_text(code)
    script = folder / "python"
    script.write_text(f'#!/bin/sh\nexec {sys.executable} {folder}/main.py "$3"\n')
    script.chmod(0o755)
    return str(script)


def ask(child: ChildProcess, request: dict[str, Any]) -> dict[str, Any]:
    data = json.dumps(request).encode()
    child.send(HEAD.pack(len(data)) + data, 5)
    return hear(child)


def hear(child: ChildProcess) -> dict[str, Any]:
    (length,) = HEAD.unpack(child.receive(HEAD.size, 5))
    answer: dict[str, Any] = json.loads(child.receive(length, 5))
    return answer


@pytest.fixture
def bare() -> Iterator[ChildProcess]:
    """A child without a program."""
    child = ChildProcess(CHILD)
    assert hear(child) == {"ready": True}
    yield child
    child.kill()


def test_poisoned_ruleset_is_refused_and_the_child_lives(bare: ChildProcess) -> None:
    poison = {"r0ep#0": {"all": [{"m": {"$and": [{"k": "eval"}, {"t0": {"$regex": "a+"}}]}}]}}
    answer = ask(bare, {"op": "load", "rulesets": [{"rules": poison, "slots": [0]}]})
    assert "refused" in answer
    good = {"r0ep#0": {"all": [{"m": {"$and": [{"k": "eval"}, {"t0": True}]}}]}}
    assert ask(bare, {"op": "load", "rulesets": [{"rules": good, "slots": [0]}]}) == {"loaded": 1}
    answer = ask(bare, {"op": "eval", "asked": [[0, "t"], [0, "f"], [0, "u"]]})
    assert answer["fired"] == [["r0ep"], [], []]
    assert answer["rss"] > 1_000_000


def test_child_ends_with_its_parent_and_dumps_no_core(bare: ChildProcess) -> None:
    limits = Path(f"/proc/{bare.pid}/limits").read_text()
    core = next(line for line in limits.splitlines() if line.startswith("Max core file size"))
    assert core.split()[4:6] == ["0", "0"]
    bare._socket.close()
    assert bare._process.wait(20) == 0


class Altered(Between):
    """A child whose program lost one term on its way."""

    def asks(self, request: dict[str, Any]) -> dict[str, Any]:
        if request["op"] == "load":
            rules = request["rulesets"][0]["rules"]
            pattern = rules[next(iter(rules))]["all"][0]["m"]["$and"]
            if len(pattern) > 2:
                pattern.pop()
        return request


def test_canary_refuses_an_altered_program_and_names_the_rule() -> None:
    diagnoser = Diagnoser(Altered)
    two = {"all": [{"condition": {"type": "Fault"}}, {"condition": {"type": "More"}}]}
    try:
        report = diagnoser.load([a_rule("a", when=two), a_rule("b")])
        assert "a" in report.rejected
        assert "answers wrongly" in report.rejected["a"]
    finally:
        diagnoser.close()


def test_memory_and_descriptors_stay_flat_over_many_questions(
    diagnoser: Diagnoser, children: Children
) -> None:
    diagnoser.load([a_rule(f"r{n}") for n in range(40)])
    node = a_node(a_condition())

    def rss() -> int:
        return int(Path(f"/proc/{children.pid}/statm").read_text().split()[1]) * 4096

    for _ in range(300):
        diagnoser.diagnose([node], T0)
    before, descriptors = rss(), len(os.listdir(f"/proc/{children.pid}/fd"))
    for _ in range(1500):
        diagnoser.diagnose([node], T0)
    assert rss() - before < 2_000_000
    assert len(os.listdir(f"/proc/{children.pid}/fd")) == descriptors
