"""Rules that are compiled once for many worlds, with the reference engine alone."""

from collections.abc import Sequence
from datetime import datetime

from kubenode.api.v1alpha1 import NodeRemedier
from rules.diagnose import Diagnoser, Diagnosis, LoadReport
from rules.engines.crosscheck import CrossCheck
from rules.facts import FactSet
from rules.program import RuleProgram, RuleVersion, compile_program


class Compiled:
    """The engine of one world after another, never of two at once: each world loads its rules
    first.
    """

    def __init__(self) -> None:
        self._diagnoser = Diagnoser()
        self._rules: list[NodeRemedier] = []
        self._report = LoadReport()
        self._program: RuleProgram | None = None

    @property
    def check(self) -> CrossCheck:
        return self._diagnoser.check

    def load(self, rules: Sequence[RuleVersion]) -> LoadReport:
        """Load the rules, compiling them only if they changed, and forget what was learned of
        nodes.
        """
        wanted = [rule.remedier for rule in rules]
        same = len(wanted) == len(self._rules) and all(
            a is b for a, b in zip(wanted, self._rules, strict=True)
        )
        if same:
            self._diagnoser.forget()
        else:
            self._rules, self._program = wanted, None
            self._report = self._diagnoser.load(rules)
        return self._report

    def diagnose(self, factsets: Sequence[FactSet], now: datetime) -> list[Diagnosis]:
        return self._diagnoser.diagnose(factsets, now)

    def program(self, rules: Sequence[RuleVersion]) -> RuleProgram:
        """Return the program of the rules that were loaded last, for explanations."""
        if self._program is None:
            self._program = compile_program(rules)
        return self._program
