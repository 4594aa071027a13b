"""The exit-code protocol: what a program's result says, and of several rules which one is told.

0 is well, 1 is a fault, and everything else says nothing. A program that could not be run at all
is no fault of the node (failure mode F01): it is told apart from one that looked and does not know.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from agent.detectors.checks import CANNOT_RUN, Finding
from agent.detectors.checks.npd.config import PluginCondition, PluginRule
from agent.detectors.checks.programs import Ran

CANNOT_TELL = "CheckCannotTell"
"""Reason while a check that works says that it does not know."""
_NO_PROGRAM = {
    126: "it is there but cannot be executed (126)",
    127: "the program or one that it needs is missing (127)",
}
"""What shells exit with when a command could not be run."""


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
    """`most` bytes of what it said are told."""
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
    """What all rules of a condition say together: a fault if one says so, well only if all do."""
    for rule, result in results:
        if result.word is Word.FAULT:
            return Finding(True, rule.reason, result.output)
    for word, reason in ((Word.BROKEN, CANNOT_RUN), (Word.UNSURE, CANNOT_TELL)):
        for rule, result in results:
            if result.word is word:
                return Finding(None, reason, f"{rule.path}: {result.output}")
    return Finding(False, condition.reason, condition.message)
