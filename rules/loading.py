"""Which rules the second engine takes, when it does not take all of them.

Rules are offered in the order of their strata, in halves, and always together with all that was
taken before: so a rule is tried with the facts that it reads, rules that fail only together cost
the later of them, and what is left at the end has been loaded as a whole.
"""

from collections.abc import Sequence

from rules.engines.port import Engine, EngineError
from rules.program import Program, Rule, compile_program, facts_of


class Sieve:
    """refusals  the reasons of an EngineError that lie in the program"""

    def __init__(self, trial: Engine, program: Program, refusals: frozenset[str]) -> None:
        self._trial, self._refusals = trial, refusals
        by_stratum = sorted(program.rules, key=lambda rule: rule.stratum)
        self._offered = [rule.rule for rule in by_stratum]
        self._place = {rule.id: n for n, rule in enumerate(program.rules)}
        self._taken: list[Rule] = []
        self._lost: set[str] = set()
        self.refused: dict[str, str] = {}
        """Rule id to why."""

    def sift(self) -> Program:
        """What is left. Raises EngineError when the engine fails for no fault of the rules."""
        self._offer(self._offered)
        return self._compiled(())

    def _offer(self, rules: Sequence[Rule]) -> None:
        rules = self._readable(rules)
        if not rules:
            return
        why = self._refusal(rules)
        if why and len(rules) == 1:
            why = self._refusal(rules)  # once more: a busy machine must not cost a good rule
        if not why:
            self._taken += rules
        elif len(rules) == 1:
            self.refused[rules[0].id] = why
            self._lost |= facts_of(rules)
        else:
            middle = len(rules) // 2
            self._offer(rules[:middle])
            self._offer(rules[middle:])

    def _readable(self, rules: Sequence[Rule]) -> list[Rule]:
        """Without those that read a fact of a refused rule."""
        errors = self._compiled(rules).rejected
        for error in errors:
            self.refused[error.rule] = f"{error.path}: {error.message}"
            self._lost |= facts_of(rule for rule in rules if rule.id == error.rule)
        gone = {error.rule for error in errors}
        return [rule for rule in rules if rule.id not in gone]

    def _refusal(self, rules: Sequence[Rule]) -> str:
        """Why the engine does not take `rules` besides those taken; "" if it does."""
        try:
            self._trial.load(self._compiled(rules))
        except EngineError as error:
            if error.reason not in self._refusals:
                raise
            return str(error)
        return ""

    def _compiled(self, more: Sequence[Rule]) -> Program:
        rules = sorted([*self._taken, *more], key=lambda rule: self._place[rule.id])
        return compile_program(rules, self._lost)
