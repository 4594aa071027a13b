"""How long the engine waits for its child: a slow child is not taken for a hung one for ever."""

import pytest
from support.clock import T0
from support.rules_builders import a_condition, a_node, a_rule
from support.rules_engines import Near

from rules.diagnose import Agreement, Diagnoser
from rules.engines.durable import EVALUATE_MOST, EVALUATE_SECONDS, LOAD_MOST, LOAD_SECONDS
from rules.engines.limit import TimeLimit


class Machine:
    """A machine on which an answer takes a number of seconds; it starts children.

    evaluating, loading  seconds of an answer from now on
    """

    def __init__(self) -> None:
        self.now = 0.0
        self.evaluating = self.loading = 0.01
        self.started = 0
        self.waits: list[float] = []
        """Seconds that each question which timed out had."""

    def __call__(self) -> "SlowChild":
        self.started += 1
        return SlowChild(self)

    def take(self, needed: float, seconds: float) -> None:
        self.now += min(needed, seconds)
        if needed > seconds:
            self.waits.append(round(seconds))
            raise TimeoutError


class SlowChild(Near):
    def __init__(self, machine: Machine) -> None:
        self._machine, self._needed = machine, 0.0
        super().__init__()

    def send(self, data: bytes, seconds: float) -> None:
        machine = self._machine
        self._needed = machine.loading if b'"op":"load"' in data else machine.evaluating
        super().send(data, seconds)

    def receive(self, length: int, seconds: float) -> bytes:
        needed, self._needed = self._needed, 0.0
        self._machine.take(needed, seconds)
        return super().receive(length, seconds)


@pytest.fixture
def machine() -> Machine:
    return Machine()


@pytest.fixture
def diagnoser(machine: Machine) -> Diagnoser:
    made = Diagnoser(machine, lambda: machine.now)
    made.load([a_rule("a")])
    return made


def agreement(diagnoser: Diagnoser, machine: Machine) -> Agreement:
    """Of a question that is asked after the pause between two starts of a child."""
    machine.now += 60
    return diagnoser.diagnose([a_node(a_condition())], T0)[0].matches[0].agreement


def test_engine_answers_on_when_the_processor_is_throttled(
    diagnoser: Diagnoser, machine: Machine
) -> None:
    machine.evaluating = 5 * EVALUATE_SECONDS
    for _ in range(3):
        agreement(diagnoser, machine)
    started = machine.started
    assert [agreement(diagnoser, machine) for _ in range(5)] == [Agreement.AGREED] * 5
    assert machine.started == started
    assert machine.waits == [1, 2, 4]


def test_engine_waits_its_normal_time_again_when_the_child_is_fast_again(
    diagnoser: Diagnoser, machine: Machine
) -> None:
    machine.evaluating = 5 * EVALUATE_SECONDS
    for _ in range(3):
        agreement(diagnoser, machine)
    machine.evaluating = 0.01
    assert agreement(diagnoser, machine) is Agreement.AGREED
    machine.evaluating, machine.waits = 100.0, []
    agreement(diagnoser, machine)
    assert machine.waits[0] == EVALUATE_SECONDS


def test_engine_waits_no_longer_than_its_bound_when_the_child_never_answers(
    diagnoser: Diagnoser, machine: Machine
) -> None:
    machine.evaluating = 1000.0
    for _ in range(6):
        assert agreement(diagnoser, machine) is Agreement.UNCHECKED
    assert max(machine.waits) == EVALUATE_MOST


def test_engine_comes_back_when_the_load_of_a_new_child_is_slow_too(
    diagnoser: Diagnoser, machine: Machine
) -> None:
    machine.evaluating, machine.loading = 2 * EVALUATE_SECONDS, 3 * LOAD_SECONDS
    for _ in range(6):
        agreement(diagnoser, machine)
    assert agreement(diagnoser, machine) is Agreement.AGREED
    assert max(machine.waits) < LOAD_MOST


def test_time_limit_stays_long_while_answers_are_slow() -> None:
    limit = TimeLimit(1.0, 8.0)
    limit.lengthen()
    limit.lengthen()
    limit.adapt(3.0)
    assert limit.seconds == 4.0
    limit.adapt(0.5)
    assert limit.seconds == 2.0
    limit.adapt(0.1)
    assert limit.seconds == 1.0
