"""Spans of time, such as why a matching rule made no job, or which fact was inferred."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime


@dataclass(slots=True)
class Span:
    """A time in which `what` held for a rule and a node.

    until: None if it still holds.
    """

    node: str
    rule: str
    what: str
    since: datetime
    until: datetime | None = None


class Spans:
    """All spans, in the order in which they began."""

    def __init__(self) -> None:
        self.all: list[Span] = []
        self._open: dict[str, dict[tuple[str, str], Span]] = {}

    def now(self, node: str, what: Iterable[tuple[str, str]], at: datetime) -> None:
        """Set the pairs of rule and what that hold for the node from `at` on; all others end."""
        wanted = set(what)
        before = self._open.get(node)
        if not wanted and not before:
            return
        open_ = before or {}
        for key in [key for key in open_ if key not in wanted]:
            open_.pop(key).until = at
        for key in sorted(wanted - set(open_)):
            open_[key] = Span(node, key[0], key[1], at)
            self.all.append(open_[key])
        if open_:
            self._open[node] = open_
        else:
            self._open.pop(node, None)
