"""Chooses the rules to load if not all of them can be loaded.

If there are too many, rules that were loaded before stay, and new ones are refused until there is
room. If the second engine does not accept a program, its rules are offered in the order of their
strata, in halves, and each time together with all that was accepted. So a rule is tried with the
facts that it reads, of rules that fail only together the later ones are refused, and the result has
been loaded as a whole.
"""

from collections.abc import Collection, Sequence

from rules.engines.port import EngineError, RuleEngine
from rules.program import CompiledRule, RuleProgram, RuleVersion, compile_program, facts_of

MOST_RULES = 1_000
"""Rules of one program. Measured: each costs the second engine 2 ms at load and some 150 KB."""
MOST_TERMS = 16_000
"""Alternatives of all rules together in the second engine, some 25 KB each."""
_ADVICE = "delete rules that are not needed, or join some into one"


class Limited:
    """A program of as many of `rules` as the limits allow.

    loaded: ids of the rules that were loaded before
    refused: rule id to the reason, also for rules that do not compile
    """

    def __init__(self, rules: Sequence[RuleVersion], loaded: Collection[str]) -> None:
        self._loaded = loaded
        self._rules = list(rules)
        self.refused: dict[str, str] = {}
        admitted = sorted(rules, key=lambda rule: rule.id not in loaded)[:MOST_RULES]
        self._refuse(rules, {r.id for r in admitted}, f"more than {MOST_RULES} rules")
        self.program = self._compiled()
        admitted_ids = {rule.id for rule in self._within(MOST_TERMS)}
        if len(admitted_ids) < len(self.program.rules):
            why = f"more than {MOST_TERMS} alternatives in all rules together"
            self._refuse([rule.rule for rule in self.program.rules], admitted_ids, why)
            self.program = self._compiled()
        for error in self.program.rejected:
            self.refused.setdefault(error.rule, f"{error.path}: {error.message}")

    def _compiled(self) -> RuleProgram:
        lost = facts_of(rule for rule in self._rules if rule.id in self.refused)
        return compile_program([r for r in self._rules if r.id not in self.refused], lost)

    def _refuse(self, rules: Sequence[RuleVersion], admitted: Collection[str], why: str) -> None:
        gone = [rule.id for rule in rules if rule.id not in admitted]
        self.refused |= dict.fromkeys(gone, f"spec: {why} cannot be loaded: {_ADVICE}")

    def _within(self, most: int) -> list[CompiledRule]:
        """Return the first rules with at most `most` terms together, those loaded before first."""
        admitted, terms = [], 0
        for rule in sorted(self.program.rules, key=lambda rule: rule.id not in self._loaded):
            terms += sum(map(len, rule.given.values()))
            if terms > most:
                break
            admitted.append(rule)
        return admitted


class Sieve:
    """Finds the rules that the engine accepts.

    refusals: reasons of an EngineError that lie in the program
    """

    def __init__(self, trial: RuleEngine, program: RuleProgram, refusals: frozenset[str]) -> None:
        self._trial, self._refusals = trial, refusals
        by_stratum = sorted(program.rules, key=lambda rule: rule.stratum)
        self._offered = [rule.rule for rule in by_stratum]
        self._place = {rule.id: n for n, rule in enumerate(program.rules)}
        self._taken: list[RuleVersion] = []
        self._lost: set[str] = set()
        self.refused: dict[str, str] = {}
        """Rule id to the reason."""

    def sift(self) -> RuleProgram:
        """Return the accepted program. Raises EngineError if the engine fails for another
        reason.
        """
        self._offer(self._offered)
        return self._compiled(())

    def _offer(self, rules: Sequence[RuleVersion]) -> None:
        rules = self._readable(rules)
        if not rules:
            return
        why = self._refusal(rules)
        if why and len(rules) == 1:
            why = self._refusal(rules)  # retry: a busy machine must not cost a good rule
        if not why:
            self._taken += rules
        elif len(rules) == 1:
            self.refused[rules[0].id] = why
            self._lost |= facts_of(rules)
        else:
            middle = len(rules) // 2
            self._offer(rules[:middle])
            self._offer(rules[middle:])

    def _readable(self, rules: Sequence[RuleVersion]) -> list[RuleVersion]:
        """Return the rules without those that read a fact of a refused rule."""
        errors = self._compiled(rules).rejected
        for error in errors:
            self.refused[error.rule] = f"{error.path}: {error.message}"
            self._lost |= facts_of(rule for rule in rules if rule.id == error.rule)
        gone = {error.rule for error in errors}
        return [rule for rule in rules if rule.id not in gone]

    def _refusal(self, rules: Sequence[RuleVersion]) -> str:
        """Describe why the engine does not accept `rules` with those accepted; "" if it does."""
        try:
            self._trial.load(self._compiled(rules))
        except EngineError as error:
            if error.reason not in self._refusals:
                raise
            return str(error)
        return ""

    def _compiled(self, more: Sequence[RuleVersion]) -> RuleProgram:
        rules = sorted([*self._taken, *more], key=lambda rule: self._place[rule.id])
        return compile_program(rules, self._lost)
