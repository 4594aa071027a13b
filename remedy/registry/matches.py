"""Which nodes each rule matches now: kept by what changed, never by walking rules or nodes."""

from collections.abc import Collection
from datetime import datetime


class Matches:
    """By name of the rule: generations of one rule are one."""

    def __init__(self) -> None:
        self._nodes: dict[str, set[str]] = {}
        self._rules: dict[str, frozenset[str]] = {}
        self._last: dict[str, datetime] = {}
        self._judged: set[str] = set()

    def says(self, node: str, names: frozenset[str], now: datetime) -> Collection[str]:
        """`names` match `node` now; the rules whose number changed by that."""
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
                if left := self._rules.get(node, frozenset()) - {name}:
                    self._rules[node] = left
                else:
                    self._rules.pop(node, None)
        for name in [name for name in self._last if name not in names]:
            del self._last[name]

    def forget(self, node: str) -> None:
        """Count a node that is gone no longer among the judged ones."""
        self._judged.discard(node)

    @property
    def judged(self) -> int:
        """Nodes whose matches are known since our start."""
        return len(self._judged)

    def count(self, name: str) -> int:
        return len(self._nodes.get(name, ()))

    def last(self, name: str) -> datetime | None:
        """When a node last began to match; None: not since our start."""
        return self._last.get(name)
