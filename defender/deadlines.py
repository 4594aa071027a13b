"""Evacuations that did not get their permit before the planned event: counted, for people.

Pure memory. Only who still asked when the time came was kept waiting; who had given up before was
not.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Ask, Operation, Verdict

STILL_ASKS = timedelta(minutes=2)
"""Past the time to look again that the last answer named."""
MOST = 10_000
Key = tuple[str, str]
"""UID of the holder, and the node."""


@dataclass(slots=True)
class DeadlineWait:
    deadline: datetime
    asks_until: datetime
    policies: tuple[str, ...]


class Deadlines:
    """Told of every answer; `missed` counts since the start, by policy."""

    def __init__(self) -> None:
        self.missed: dict[str, int] = {}
        self._waiting: dict[Key, DeadlineWait] = {}

    def answered(self, ask: Ask, verdict: Verdict, policies: tuple[str, ...], at: datetime) -> None:
        """`policies` are those that rule the act."""
        if ask.operation is not Operation.EVACUATE or ask.deadline is None or ask.dry_run:
            return
        key = (ask.holder.uid, ask.node)
        if verdict.allowed:
            self._waiting.pop(key, None)
        elif ask.deadline > at and (key in self._waiting or len(self._waiting) < MOST):
            again = verdict.look_again_at or at
            self._waiting[key] = DeadlineWait(ask.deadline, again + STILL_ASKS, policies)

    def advance(self, now: datetime) -> None:
        for key, waiting in list(self._waiting.items()):
            if waiting.deadline > now:
                continue
            del self._waiting[key]
            if waiting.deadline <= waiting.asks_until:
                for policy in waiting.policies:
                    self.missed[policy] = self.missed.get(policy, 0) + 1
