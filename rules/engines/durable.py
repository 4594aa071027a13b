"""Parent's side of durable_rules: a child process that may die, hang, leak or answer wrongly.

A new program is loaded into a new child, which takes over after its canary: vectors with known
answers of the reference, which reveal an altered or missing term. The old child answers until then.
Each question has a timeout. A child that does not answer is killed. Another one loads the same
program, which has passed its canary, so that the child's self-test is enough, and the question is
repeated once.

After a timeout the next child gets twice the time, within a bound, because it is no faster on a
throttled processor. Restarts back off. A child that is old or uses much memory is replaced early,
by a new child with a canary.

The caller provides the process and its socket (`Spawn`), and the clock for the backoff.
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
"""Seconds for one frame: at first, and at most after timeouts."""
LOAD_SECONDS, LOAD_MOST = 5.0, 20.0
"""Seconds for a start, a load or a frame of a canary. The larger bound is for proven programs."""
BACKOFF_LOW, BACKOFF_HIGH = 0.2, 30.0
MOST_AGE = 6 * 3600.0
"""Seconds after which a child is replaced."""
MOST_GROWTH = 128 * 1024**2
"""Bytes of memory by which a child may grow before it is replaced."""
REFUSALS = frozenset({"refused", "canary", "fatal"})
"""Reasons of an EngineError that lie in the program, not in the child."""
_NO_ANSWER = frozenset({"died", "timeout", "protocol"})
HOW_TO_GET_IT = (
    "durable_rules cannot be imported ({why}): build the package durable-rules for this Python"
    " with `make venv`; until then rules are only observed, and nothing destructive is done"
)

Spawn = Callable[[], Child]


class DurableEngine:
    """Second engine, in a child process. monotonic: clock in seconds, for the backoff of
    restarts.
    """

    def __init__(self, spawn: Spawn, monotonic: Callable[[], float]) -> None:
        self._spawn, self._monotonic = spawn, monotonic
        self._program: RuleProgram | None = None
        self._packed = Packed(RuleProgram())
        self._proven = False
        """Whether the program has passed its canary."""
        self._child: Child | None = None
        self._born = 0.0
        self._renew_not_before = float("-inf")
        self._first_memory_bytes = 0
        self.memory_bytes = 0
        """Memory in bytes that the child reported last."""
        self._evaluating = TimeLimit(EVALUATE_SECONDS, EVALUATE_MOST)
        self._loading = TimeLimit(LOAD_SECONDS, LOAD_MOST)
        self._failures = 0
        self._not_before = float("-inf")
        self._last = ""
        self.restarts: dict[str, int] = {}
        """Number of replaced children, by reason."""

    @property
    def parts(self) -> tuple[Spawn, Callable[[], float]]:
        """Return the arguments for another engine of the same kind."""
        return self._spawn, self._monotonic

    @property
    def up(self) -> bool:
        return self._child is not None

    def load(self, program: RuleProgram) -> None:
        """Load a program. If no child starts, the new program is loaded later.

        Raises EngineError. With a reason in REFUSALS the program is at fault, and the old one
        stays. `fatal` means that the child dies or hangs with it, while another one loads an empty
        program.
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
        """Take `program` without a child. One starts later; until then errors say `why`."""
        self.close()
        self._program, self._packed = program, Packed(program)
        self._proven, self._last = False, why

    def matches(self, questions: Sequence[EngineQuestion]) -> list[Outputs]:
        """Answer the questions. A fact that several questions share is evaluated once."""
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
        """Return whether a child runs. Start a missing one once it is due."""
        if self._child is None and self._program is not None:
            try:
                self._revive()
            except EngineError:
                return False
        return self._child is not None

    def replace(self, reason: str) -> None:
        """Kill the child and start another with the same program. Raises EngineError."""
        self.close()
        self.restarts[reason] = self.restarts.get(reason, 0) + 1
        self._revive()

    def close(self) -> None:
        child, self._child = self._child, None
        if child is not None:
            child.kill()

    # -- one child

    def _take(self, child: Child) -> None:
        """Let `child` answer from now on, and kill the previous one."""
        self.close()
        self._child, self._born = child, self._monotonic()
        self._first_memory_bytes = self.memory_bytes = 0

    def _renew(self) -> None:
        """Replace a child that is old or large. It stays if that fails."""
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
        """Start a child and load the program; with `canary`, also run the canary."""
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
        """Return whether a child can start and load an empty program."""
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
    """Run the canary. Raises EngineError naming the first wrong output."""
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
    """Compare the answers to some cases; a large program's canary does not fit in memory at
    once.
    """
    queries = list(dict.fromkeys(fact for _, _, facts in cases for fact in facts))
    fired: dict[EngineQuery, Outputs] = {}
    for frame in frames(queries):
        fired |= zip(frame, evaluate(child, frame, LOAD_SECONDS)[0], strict=True)
    for question, expected, facts in cases:
        got = packed.outputs(question, [fired[fact] for fact in facts])
        if wrong := sorted(expected ^ got):
            raise EngineError("canary", f"durable_rules answers wrongly for {wrong[0]}")
