"""The parent's side of durable_rules: a child process that may die, hang or lie.

A new program is loaded into a new child, which takes over after its canary: vectors whose answers
the reference has given before, chosen so that an altered or missing term shows. The old child stays
live until then. Asking is bounded in time; a child that does not answer is ended, another one gets
the same program (which has passed its canary: the child's own self-test is enough), and the
question is asked once more. Restarts back off.

Process and socket come from outside (`Spawn`), so does the time of the backoff.
"""

import time
from collections.abc import Callable, Sequence

from rules.engines.canary import canaries
from rules.engines.port import EngineError, Outputs, Vector
from rules.engines.ruleset import Term, rulesets
from rules.engines.talk import Child, ask, evaluate, frames, hear
from rules.program import CompiledRule, Program

EVALUATE_SECONDS = 1.0
"""For one frame."""
LOAD_SECONDS = 5.0
"""For a start, a load, and each frame of a canary."""
BACKOFF_LOW, BACKOFF_HIGH = 0.2, 30.0
REFUSALS = frozenset({"refused", "canary", "fatal"})
"""Reasons that lie in the program, not in the child."""
_NO_ANSWER = frozenset({"died", "timeout", "protocol"})
HOW_TO_GET_IT = (
    "durable_rules cannot be imported ({why}): it needs CPython 3.11 or 3.12 and the package"
    " durable-rules; until then rules are only observed, and nothing destructive is done"
)

Spawn = Callable[[], Child]


class DurableEngine:
    """monotonic  seconds, for the backoff of restarts"""

    def __init__(self, spawn: Spawn, monotonic: Callable[[], float]) -> None:
        self._spawn, self._monotonic = spawn, monotonic
        self._program: Program | None = None
        self._proven = False
        """The program has passed its canary."""
        self._child: Child | None = None
        self._failures = 0
        self._not_before = float("-inf")
        self._last = ""
        self.restarts: dict[str, int] = {}
        """How often a child was replaced, by reason."""

    @property
    def parts(self) -> tuple[Spawn, Callable[[], float]]:
        """What another engine of the same kind is made of."""
        return self._spawn, self._monotonic

    @property
    def up(self) -> bool:
        return self._child is not None

    def load(self, program: Program) -> None:
        """A child that does not start is tried again later, with the new program.

        Raises EngineError. With a reason of REFUSALS it is the program's fault (`fatal`: the child
        dies of it or hangs, while another one takes an empty program), and the old one stays.
        """
        try:
            child = self._started(program, canary=True)
        except EngineError as error:
            if error.reason in _NO_ANSWER and self._takes_nothing():
                why = f"durable_rules does not survive it: {error}"
                raise EngineError("fatal", why) from error
            if error.reason not in REFUSALS:
                self.adopt(program, str(error))
            raise
        self.close()
        self._child, self._program, self._proven = child, program, True
        self._failures = 0

    def adopt(self, program: Program, why: str) -> None:
        """Take `program` without a child: one is started later, and `why` is said until then."""
        self.close()
        self._program, self._proven, self._last = program, False, why

    def matches(self, stratum: int, vectors: Sequence[Vector]) -> list[Outputs]:
        if self._program is None:
            raise EngineError("empty", "no program is loaded")
        terms = _count(self._program.strata[stratum])
        return [fired for frame in frames(vectors, terms) for fired in self._frame(stratum, frame)]

    def replace(self, reason: str) -> None:
        """End the child and start another with the same program. Raises EngineError."""
        self.close()
        self.restarts[reason] = self.restarts.get(reason, 0) + 1
        self._revive()

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    # -- one child

    def _started(self, program: Program, *, canary: bool) -> Child:
        """A new child that has the program and, if asked to, passed its canary."""
        child = self._spawned()
        try:
            strata = [rulesets(_terms(stratum)) for stratum in program.strata]
            answer = ask(child, {"op": "load", "strata": strata}, LOAD_SECONDS)
            if "loaded" not in answer:
                raise EngineError("refused", f"durable_rules refused: {answer.get('refused')}")
            if canary:
                _check(child, program)
        except BaseException:
            child.kill()
            raise
        return child

    def _spawned(self) -> Child:
        try:
            child = self._spawn()
        except OSError as error:
            raise EngineError("spawn", f"the engine's child cannot be started: {error}") from error
        try:
            hello = hear(child, time.monotonic() + LOAD_SECONDS)
        except EngineError as error:
            child.kill()
            raise EngineError("spawn", f"the engine's child does not start: {error}") from error
        if "missing" in hello:
            child.kill()
            raise EngineError("missing", HOW_TO_GET_IT.format(why=hello["missing"]))
        return child

    def _takes_nothing(self) -> bool:
        """Whether a child starts and takes an empty program: then it is able to load."""
        try:
            self._started(Program(), canary=False).kill()
        except EngineError:
            return False
        return True

    def _frame(self, stratum: int, vectors: Sequence[Vector]) -> list[Outputs]:
        try:
            return self._asked(stratum, vectors)
        except EngineError as error:
            if error.reason == "backoff":
                raise
            self._last = str(error)
            self.replace(error.reason)
            return self._asked(stratum, vectors)

    def _asked(self, stratum: int, vectors: Sequence[Vector]) -> list[Outputs]:
        if self._child is None:
            self._revive()
        assert self._child is not None
        fired = evaluate(self._child, stratum, vectors, EVALUATE_SECONDS)
        self._failures = 0
        return fired

    def _revive(self) -> None:
        if self._program is None or self._monotonic() < self._not_before:
            raise EngineError("backoff", f"{self._last}; it is started again later")
        self._failures += 1
        pause = min(BACKOFF_LOW * 2 ** min(self._failures - 1, 20), BACKOFF_HIGH)
        self._not_before = self._monotonic() + pause
        try:
            self._child = self._started(self._program, canary=not self._proven)
            self._proven = True
        except EngineError as error:
            self._last = str(error)
            raise


def _terms(rules: Sequence[CompiledRule]) -> list[Term]:
    return [
        (f"{name}#{n}", sorted(disjunct))
        for rule in rules
        for name, alternatives in rule.given.items()
        for n, disjunct in enumerate(alternatives)
    ]


def _count(rules: Sequence[CompiledRule]) -> int:
    return sum(len(alternatives) for rule in rules for alternatives in rule.given.values())


def _check(child: Child, program: Program) -> None:
    """The canary. Raises EngineError naming the first rule that answers wrongly."""
    for stratum, rules in enumerate(program.strata):
        for cases in frames(canaries(rules, program.width), _count(rules)):
            answers = evaluate(child, stratum, [vector for vector, _ in cases], LOAD_SECONDS)
            for (_, expected), got in zip(cases, answers, strict=True):
                if wrong := sorted(expected ^ got):
                    raise EngineError("canary", f"durable_rules answers wrongly for {wrong[0]}")
