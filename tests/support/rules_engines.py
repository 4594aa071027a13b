"""Second engines for tests: durable_rules itself, near or far, and some that err."""

import json
from collections.abc import Callable, Sequence
from typing import Any

import durable_rules_engine

from kubenode.runtime.child import ChildProcess
from rules.diagnose import Diagnoser
from rules.engines.child import EngineService
from rules.engines.crosscheck import CrossCheck
from rules.engines.durable import DurableEngine
from rules.engines.port import EngineError, EngineQuestion, Outputs, RuleEngine
from rules.engines.reference import ReferenceEngine
from rules.engines.talk import HEAD, Child
from rules.program import RuleProgram

CHILD = "rules.engines.child"


class Children:
    """Starts children and remembers them, to be killed and frozen."""

    def __init__(self) -> None:
        self.all: list[ChildProcess] = []

    def __call__(self) -> Child:
        child = ChildProcess(CHILD)
        self.all.append(child)
        return child

    @property
    def pid(self) -> int:
        return self.all[-1].pid


class Near:
    """What the child does, in this process: no start to wait for, but a crash would be ours."""

    def __init__(self) -> None:
        self._service = EngineService(durable_rules_engine)
        self._answers = bytearray()
        self._say({"ready": True})

    def send(self, data: bytes, seconds: float) -> None:
        self._say(self._service.answer(json.loads(data[HEAD.size :])))

    def receive(self, length: int, seconds: float) -> bytes:
        found = bytes(self._answers[:length])
        del self._answers[:length]
        return found

    def kill(self) -> None:
        pass

    def _say(self, answer: object) -> None:
        body = json.dumps(answer).encode()
        self._answers += HEAD.pack(len(body)) + body


class Between:
    """A real child, and a hand on the wire: `asks` and `says` may change what passes."""

    def __init__(self) -> None:
        self.real = ChildProcess(CHILD)

    def asks(self, request: dict[str, Any]) -> dict[str, Any]:
        return request

    def says(self, answer: dict[str, Any]) -> dict[str, Any]:
        return answer

    def send(self, data: bytes, seconds: float) -> None:
        body = json.dumps(self.asks(json.loads(data[HEAD.size :]))).encode()
        self.real.send(HEAD.pack(len(body)) + body, seconds)

    def receive(self, length: int, seconds: float) -> bytes:
        if not (waiting := getattr(self, "_waiting", b"")):
            (size,) = HEAD.unpack(self.real.receive(HEAD.size, seconds))
            body = json.dumps(self.says(json.loads(self.real.receive(size, seconds)))).encode()
            waiting = HEAD.pack(len(body)) + body
        self._waiting = waiting[length:]
        return waiting[:length]

    def kill(self) -> None:
        self.real.kill()


class Second(DurableEngine):
    """The reference in the place of durable_rules; `lie` may turn outputs of a question round."""

    def __init__(self, lie: Callable[[EngineQuestion], Outputs] | None = None) -> None:
        self._reference = ReferenceEngine()
        self.lie = lie
        self.loaded = RuleProgram()
        self.asked: list[EngineQuestion] = []
        self.replaced = 0
        self.restarts = {}

    def load(self, program: RuleProgram) -> None:
        self.loaded = program
        self._reference.load(program)

    def matches(self, questions: Sequence[EngineQuestion]) -> list[Outputs]:
        self.asked += questions
        answers = self._reference.matches(questions)
        if self.lie is None:
            return answers
        return [said ^ self.lie(q) for said, q in zip(answers, questions, strict=True)]

    def replace(self, reason: str) -> None:
        self.replaced += 1

    def revived(self) -> bool:
        return True

    def close(self) -> None:
        pass

    def about(self, number: int, question: EngineQuestion) -> Outputs:
        """The evidence of a rule turned round, if it is asked about."""
        if question.rules is None or number not in question.rules:
            return frozenset()
        return frozenset({self.loaded.rules[number].output("e", True)})


class Silent(Second):
    def matches(self, questions: Sequence[EngineQuestion]) -> list[Outputs]:
        raise EngineError("timeout", "it hangs")


def diagnoser_with(second: DurableEngine | None) -> Diagnoser:
    diagnoser = Diagnoser()
    diagnoser.check = CrossCheck(second)
    return diagnoser


def engines() -> dict[str, Callable[[], RuleEngine]]:
    """Every implementation of the port; a new one is added here and has to keep the contract."""
    return {
        "reference": ReferenceEngine,
        "durable_rules": lambda: DurableEngine(lambda: ChildProcess(CHILD), lambda: 0.0),
    }
