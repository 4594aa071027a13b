"""Programs that the real child does not survive, and how much is asked of it at once."""

import json
import os
import signal
from typing import Any

import pytest
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule

from kubenode.runtime.child import ChildProcess
from rules.diagnose import Agreement, Diagnoser
from rules.engines.talk import HEAD, MOST_FRAME_QUERIES

pytestmark = pytest.mark.integration


class Watched:
    """A real child, and what it is asked."""

    def __init__(self, asked: list[dict[str, Any]]) -> None:
        self.real = ChildProcess("rules.engines.child")
        self._asked = asked

    def send(self, data: bytes, seconds: float) -> None:
        self._asked.append(json.loads(data[HEAD.size :]))
        self.real.send(data, seconds)

    def receive(self, length: int, seconds: float) -> bytes:
        return self.real.receive(length, seconds)

    def kill(self) -> None:
        self.real.kill()


def leaves(request: dict[str, Any]) -> int:
    """Of the longest pattern that is to be loaded."""
    rules = (ruleset["rules"] for ruleset in request["rulesets"])
    patterns = (rule["all"][0]["m"]["$and"] for ruleset in rules for rule in ruleset.values())
    return max((len(pattern) - 1 for pattern in patterns), default=0)


class Poisoned(Watched):
    """A pattern of three leaves kills it, or makes it hang."""

    def __init__(self, hangs: bool) -> None:
        super().__init__([])
        self._hangs, self._hung = hangs, False

    def send(self, data: bytes, seconds: float) -> None:
        request = json.loads(data[HEAD.size :])
        if request["op"] == "load" and leaves(request) >= 3:
            self._hung = self._hangs
            if not self._hangs:
                os.kill(self.real.pid, signal.SIGKILL)
        super().send(data, seconds)

    def receive(self, length: int, seconds: float) -> bytes:
        if self._hung:
            raise TimeoutError
        return super().receive(length, seconds)


@pytest.mark.parametrize("hangs", [False, True])
def test_rule_that_kills_or_hangs_the_child_is_refused_and_the_others_act(hangs: bool) -> None:
    diagnoser = Diagnoser(lambda: Poisoned(hangs))
    three = {"all": [{"condition": {"type": letter}} for letter in "ABC"]}
    try:
        report = diagnoser.load([a_rule("a"), a_rule("poison", when=three), a_rule("b")])
        assert set(report.rejected) == {"poison"}
        found = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches
        assert {m.rule_id: m.agreement for m in found} == {
            "a": Agreement.AGREED,
            "b": Agreement.AGREED,
        }
        assert diagnoser.check.trouble == ""
    finally:
        diagnoser.close()


def test_canary_covers_the_last_rule_of_many_and_frames_are_small() -> None:
    asked: list[dict[str, Any]] = []
    diagnoser = Diagnoser(lambda: Watched(asked))
    four = [{"all": [{"condition": {"type": f"A{n}{k}"}} for k in range(4)]} for n in range(60)]
    try:
        assert not diagnoser.load([a_rule(f"r{n}", when=w) for n, w in enumerate(four)]).rejected
        frames = [request["asked"] for request in asked if request["op"] == "eval"]
        # All four hold, one of them is unknown or turned round; one is false, or true, alone.
        assert sum(map(len, frames)) >= 60 * (1 + 4 * 2 + 4 * 2)
        diagnoser.diagnose([a_node(a_condition(f"A{n}0")) for n in range(60)] * 3, T0)
        frames = [request["asked"] for request in asked if request["op"] == "eval"]
        assert max(map(len, frames)) <= MOST_FRAME_QUERIES
    finally:
        diagnoser.close()


def test_restart_with_the_same_program_asks_no_canary() -> None:
    asked: list[dict[str, Any]] = []
    children: list[Watched] = []

    def spawn() -> Watched:
        children.append(Watched(asked))
        return children[-1]

    diagnoser = Diagnoser(spawn)
    try:
        diagnoser.load([a_rule("a")])
        os.kill(children[-1].real.pid, signal.SIGKILL)
        asked.clear()
        found = diagnoser.diagnose([a_node(a_condition())], T0)[0].matches[0]
        assert found.agreement is Agreement.AGREED
        assert [request["op"] for request in asked] == ["eval", "load", "eval"]
    finally:
        diagnoser.close()
