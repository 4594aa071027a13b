"""The parent's side of durable_rules: a child process that may die, hang, swell or lie.

A new program is loaded into a new child, which takes over after its canary: vectors whose answers
the reference has given before, chosen so that an altered or missing term shows. The old child stays
live until then. Asking is bounded in time; a child that does not answer is ended, another one gets
the same program (which has passed its canary: the child's own self-test is enough), and the
question is asked once more. A child that was too slow leaves its successor twice the time, within
a bound: on a throttled processor the next child is no faster. Restarts back off. A child that is
old or holds much memory is replaced before it hurts, in the way of a new program: its successor
takes over after the canary.

Process and socket come from outside (`Spawn`), so does the time of the backoff.
"""

import time
from collections.abc import Callable, Iterable, Sequence

from rules.engines.canary import Case, canaries
from rules.engines.limit import TimeLimit
from rules.engines.port import EngineError, EngineQuestion, Outputs
from rules.engines.program_index import Packed
from rules.engines.talk import MOST_FRAME_QUERIES, Child, EngineQuery, ask, evaluate, frames, hear
from rules.program import RuleProgram

EVALUATE_SECONDS, EVALUATE_MOST = 1.0, 8.0
"""For one frame: at first, and at most after children that were too slow."""
LOAD_SECONDS, LOAD_MOST = 5.0, 20.0
"""For a start, a load, and each frame of a canary; the most is for a program that has passed it."""
BACKOFF_LOW, BACKOFF_HIGH = 0.2, 30.0
MOST_AGE = 6 * 3600.0
"""Seconds after which a child is replaced."""
MOST_GROWTH = 128 * 1024**2
"""Bytes of memory by which a child may grow before it is replaced."""
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
        self._program: RuleProgram | None = None
        self._packed = Packed(RuleProgram())
        self._proven = False
        """The program has passed its canary."""
        self._child: Child | None = None
        self._born = 0.0
        self._renew_not_before = float("-inf")
        self._first_memory_bytes = 0
        self.memory_bytes = 0
        """Bytes of memory that the child said it holds."""
        self._evaluating = TimeLimit(EVALUATE_SECONDS, EVALUATE_MOST)
        self._loading = TimeLimit(LOAD_SECONDS, LOAD_MOST)
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

    def load(self, program: RuleProgram) -> None:
        """A child that does not start is tried again later, with the new program.

        Raises EngineError. With a reason of REFUSALS it is the program's fault (`fatal`: the child
        dies of it or hangs, while another one takes an empty program), and the old one stays.
        """
        packed = Packed(program)
        try:
            child = self._started(program, packed, canary=True)
        except EngineError as error:
            if error.reason in _NO_ANSWER and self._takes_nothing():
                why = f"durable_rules does not survive it: {error}"
                raise EngineError("fatal", why) from error
            if error.reason not in REFUSALS:
                self.adopt(program, str(error))
            raise
        self._take(child)
        self._program, self._packed, self._proven = program, packed, True
        self._failures = 0

    def adopt(self, program: RuleProgram, why: str) -> None:
        """Take `program` without a child: one is started later, and `why` is said until then."""
        self.close()
        self._program, self._packed = program, Packed(program)
        self._proven, self._last = False, why

    def matches(self, questions: Sequence[EngineQuestion]) -> list[Outputs]:
        """A fact that answers several of the questions is asked once."""
        if self._program is None:
            raise EngineError("empty", "no program is loaded")
        self._renew()
        queries = [self._packed.build_queries(question) for question in questions]
        different = list(dict.fromkeys(fact for facts in queries for fact in facts))
        fired: dict[EngineQuery, Outputs] = {}
        for frame in frames(different):
            fired |= zip(frame, self._frame(frame), strict=True)
        return [
            self._packed.outputs(question, [fired[fact] for fact in facts])
            for question, facts in zip(questions, queries, strict=True)
        ]

    def revived(self) -> bool:
        """Whether there is a child now: one that is gone is started again when it is time."""
        if self._child is None and self._program is not None:
            try:
                self._revive()
            except EngineError:
                return False
        return self._child is not None

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

    def _take(self, child: Child) -> None:
        """Let `child` answer from now on, and end the one before."""
        self.close()
        self._child, self._born = child, self._monotonic()
        self._first_memory_bytes = self.memory_bytes = 0

    def _renew(self) -> None:
        """Replace a child that is old or large; one that is still needed stays if that fails."""
        now = self._monotonic()
        if self._child is None or self._program is None or now < self._renew_not_before:
            return
        swollen = self.memory_bytes - self._first_memory_bytes > MOST_GROWTH
        if not swollen and now - self._born <= MOST_AGE:
            return
        why = "memory" if swollen else "age"
        self._renew_not_before = now + BACKOFF_HIGH
        try:
            child = self._started(self._program, self._packed, canary=True)
        except EngineError:
            return
        self.restarts[why] = self.restarts.get(why, 0) + 1
        self._take(child)

    def _started(self, program: RuleProgram, packed: Packed, *, canary: bool) -> Child:
        """A new child that has the program and, if asked to, passed its canary."""
        seconds = LOAD_SECONDS if canary else self._loading.seconds
        child = self._spawned(seconds)
        try:
            answer = ask(child, {"op": "load", "rulesets": packed.rulesets}, seconds)
            if "loaded" not in answer:
                raise EngineError("refused", f"durable_rules refused: {answer.get('refused')}")
            if canary:
                _check(child, packed, canaries(program, packed))
        except BaseException:
            child.kill()
            raise
        return child

    def _spawned(self, seconds: float) -> Child:
        try:
            child = self._spawn()
        except OSError as error:
            raise EngineError("spawn", f"the engine's child cannot be started: {error}") from error
        try:
            hello = hear(child, time.monotonic() + seconds)
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
            self._started(RuleProgram(), Packed(RuleProgram()), canary=False).kill()
        except EngineError:
            return False
        return True

    def _frame(self, queries: Sequence[EngineQuery]) -> list[Outputs]:
        try:
            return self._evaluate_frame(queries)
        except EngineError as error:
            if error.reason == "backoff":
                raise
            self._last = str(error)
            self.replace(error.reason)
            return self._evaluate_frame(queries)

    def _evaluate_frame(self, queries: Sequence[EngineQuery]) -> list[Outputs]:
        if self._child is None:
            self._revive()
        assert self._child is not None
        began = self._monotonic()
        try:
            fired, self.memory_bytes = evaluate(self._child, queries, self._evaluating.seconds)
        except EngineError as error:
            if error.reason == "timeout":
                self._evaluating.lengthen()
            raise
        self._evaluating.adapt(self._monotonic() - began)
        self._first_memory_bytes = self._first_memory_bytes or self.memory_bytes
        self._failures = 0
        return fired

    def _revive(self) -> None:
        if self._program is None or self._monotonic() < self._not_before:
            raise EngineError("backoff", f"{self._last}; it is started again later")
        self._failures += 1
        pause = min(BACKOFF_LOW * 2 ** min(self._failures - 1, 20), BACKOFF_HIGH)
        self._not_before = self._monotonic() + pause
        began = self._monotonic()
        try:
            self._take(self._started(self._program, self._packed, canary=not self._proven))
            self._proven = True
        except EngineError as error:
            if error.reason in ("timeout", "spawn"):
                self._loading.lengthen()
            self._last = str(error)
            raise
        self._loading.adapt(self._monotonic() - began)


def _check(child: Child, packed: Packed, cases: Iterable[Case]) -> None:
    """The canary. Raises EngineError naming the first rule that answers wrongly."""
    some: list[tuple[EngineQuestion, Outputs, list[EngineQuery]]] = []
    facts = 0
    for question, expected in cases:
        some.append((question, expected, packed.build_queries(question)))
        facts += len(some[-1][2])
        if facts >= MOST_FRAME_QUERIES // 2:
            _compare(child, packed, some)
            some, facts = [], 0
    _compare(child, packed, some)


def _compare(
    child: Child, packed: Packed, cases: Sequence[tuple[EngineQuestion, Outputs, list[EngineQuery]]]
) -> None:
    """Few at a time, so that a large program's canary needs no memory for all of its vectors."""
    queries = list(dict.fromkeys(fact for _, _, facts in cases for fact in facts))
    fired: dict[EngineQuery, Outputs] = {}
    for frame in frames(queries):
        fired |= zip(frame, evaluate(child, frame, LOAD_SECONDS)[0], strict=True)
    for question, expected, facts in cases:
        got = packed.outputs(question, [fired[fact] for fact in facts])
        if wrong := sorted(expected ^ got):
            raise EngineError("canary", f"durable_rules answers wrongly for {wrong[0]}")
