"""Finds the new version that makes a previously good rule fail. Pure.

The compiler names one rule of a cycle, which may be the older one that was there first. So new
versions are tried on top of the good ones, in halves; a version that would make the compiler reject
a good rule is rejected itself.
"""

from collections.abc import Iterable, Mapping, Sequence

from kubenode.api.v1alpha1 import NodeRemedier
from remedy.registry.select import id_of
from rules.program import RuleVersion, compile_program


def blamed(good: Iterable[NodeRemedier], new: Iterable[NodeRemedier]) -> dict[str, str]:
    """Return the names in `new` that must not be loaded, with the reason. `new` replaces `good` by
    name.
    """
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
    """Return why the compiler rejects rules of this set, by name."""
    program = compile_program([RuleVersion(name, rule) for name, rule in sorted(rules.items())])
    return {error.rule: f"{error.path}: {error.message}" for error in program.rejected}
