"""Which nodes each rule matches now, updated by changes without a pass over all rules or nodes."""

from collections.abc import Collection
from datetime import datetime


class Matches:
    """Matches by rule name: all generations of a rule count together."""

    def __init__(self) -> None:
        self._nodes: dict[str, set[str]] = {}
        self._rules: dict[str, frozenset[str]] = {}
        self._last: dict[str, datetime] = {}
        self._judged: set[str] = set()

    def says(self, node: str, names: frozenset[str], now: datetime) -> Collection[str]:
        """Record that `names` match `node` now; return the rules with a changed count."""
        self._judged.add(node)
        before = self._rules.get(node, frozenset())
        if names == before:
            return ()
        for name in names - before:
            self._nodes.setdefault(name, set()).add(node)
            self._last[name] = now
        for name in before - names:
            self._nodes.get(name, set()).discard(node)
        if names:
            self._rules[node] = names
        else:
            self._rules.pop(node, None)
        return names ^ before

    def keep(self, names: Collection[str]) -> None:
        """Forget all other rules."""
        for name in [name for name in self._nodes if name not in names]:
            for node in self._nodes.pop(name):
                if remaining := self._rules.get(node, frozenset()) - {name}:
                    self._rules[node] = remaining
                else:
                    self._rules.pop(node, None)
        for name in [name for name in self._last if name not in names]:
            del self._last[name]

    def forget(self, node: str) -> None:
        """Remove a node that is gone from the evaluated ones."""
        self._judged.discard(node)

    @property
    def judged(self) -> int:
        """Number of nodes that were evaluated since our start."""
        return len(self._judged)

    def count(self, name: str) -> int:
        return len(self._nodes.get(name, ()))

    def nodes(self, name: str) -> Collection[str]:
        """Return the nodes that the rule matches."""
        return self._nodes.get(name, ())

    def last(self, name: str) -> datetime | None:
        """Return when a node last began to match; None: not since our start."""
        return self._last.get(name)
