"""The exit-code protocol: meaning of a program's result, and the combined finding of rules.

0 is healthy, 1 is a fault, any other status is unsure. A program that could not be run is no fault
of the node (failure mode F01), and is distinguished from a program that is unsure.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent.detectors.checks import CANNOT_RUN, Finding
from agent.detectors.checks.npd.config import PluginCondition, PluginRule
from agent.detectors.checks.programs import Ran

CANNOT_TELL = "CheckCannotTell"
"""Reason if a working check reports that it is unsure."""
_NO_PROGRAM = {
    126: "it is there but cannot be executed (126)",
    127: "the program or one that it needs is missing (127)",
}
"""Exit statuses of shells if a command could not be run."""


class Word(StrEnum):
    WELL = "well"
    FAULT = "fault"
    UNSURE = "unsure"
    BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class PluginResult:
    word: Word
    output: str


def read(ran: Ran, most: int) -> PluginResult:
    """Interpret a result. most: bytes of the output that are kept."""
    output = ran.output.encode()[:most].decode(errors="ignore")
    match ran.code:
        case None:
            return PluginResult(Word.BROKEN, ran.why)
        case 0:
            return PluginResult(Word.WELL, output)
        case 1:
            return PluginResult(Word.FAULT, output)
        case 126 | 127:
            return PluginResult(
                Word.BROKEN, f"{_NO_PROGRAM[ran.code]}: {output}".removesuffix(": ")
            )
        case _:
            return PluginResult(Word.UNSURE, output or f"exit status {ran.code}")


def judge(
    condition: PluginCondition, results: Sequence[tuple[PluginRule, PluginResult]]
) -> Finding:
    """Combine the results of a condition's rules: one fault is a fault; all healthy is healthy."""
    for rule, result in results:
        if result.word is Word.FAULT:
            return Finding(True, rule.reason, result.output)
    for word, reason in ((Word.BROKEN, CANNOT_RUN), (Word.UNSURE, CANNOT_TELL)):
        for rule, result in results:
            if result.word is word:
                return Finding(None, reason, f"{rule.path}: {result.output}")
    return Finding(False, condition.reason, condition.message)
