"""Which new version costs a rule that was good before. Pure.

The compiler names one rule of a cycle, and it may name the wrong one: the old rule that was there
first. New versions are therefore tried on top of what was good, in halves; one with which a good
rule would be refused is refused itself.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubenode.api.v1alpha1 import NodeRemedier
from remedy.registry.select import id_of
from rules.program import RuleVersion, compile_program


def blamed(good: Iterable[NodeRemedier], new: Iterable[NodeRemedier]) -> dict[str, str]:
    """Names of those of `new` that must not be loaded, with why. `new` replaces by name."""
    trial = _Trial(good)
    trial.offer(sorted(new, key=id_of))
    return trial.refused


class _Trial:
    def __init__(self, good: Iterable[NodeRemedier]) -> None:
        self._taken = {rule.metadata.name: rule for rule in good}
        self._lost = frozenset(_rejected(self._taken))
        self.refused: dict[str, str] = {}

    def offer(self, new: Sequence[NodeRemedier]) -> None:
        if not new:
            return
        joined = {**self._taken, **{rule.metadata.name: rule for rule in new}}
        offered = {rule.metadata.name for rule in new}
        after = _rejected(joined)
        cost = {n: why for n, why in after.items() if n not in self._lost and n not in offered}
        if not cost:
            self._taken = joined
        elif len(new) == 1:
            (name, why), mine = min(cost.items()), new[0].metadata.name
            both = [after.get(mine, ""), f"with it rule {name} would be refused: {why}"]
            self.refused[mine] = "; ".join(filter(None, both))
        else:
            middle = len(new) // 2
            self.offer(new[:middle])
            self.offer(new[middle:])


def _rejected(rules: Mapping[str, NodeRemedier]) -> dict[str, str]:
    """By name, why the compiler refuses a rule of these."""
    program = compile_program([RuleVersion(name, rule) for name, rule in sorted(rules.items())])
    return {error.rule: f"{error.path}: {error.message}" for error in program.rejected}
