"""Count evacuations that got no permit before their planned event. In memory only.

Only a holder that still asked at the deadline counts; one that had given up earlier does not.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta

from kubenode.api.v1alpha1 import Ask, Operation, Verdict

STILL_ASKS = timedelta(minutes=2)
"""Time after the last answer's time to ask again, for which a holder counts as still asking."""
MOST = 10_000
"""Greatest number of evacuations to track."""
Key = tuple[str, str]
"""UID of the holder, and the node."""


@dataclass(slots=True)
class DeadlineWait:
    """An evacuation without a permit.

    deadline: time of the planned event.
    asks_until: time until which the holder counts as asking.
    policies: the policies that rule the act.
    """

    deadline: datetime
    asks_until: datetime
    policies: tuple[str, ...]


class Deadlines:
    """Tracker of evacuations. `missed` counts since the start, by policy."""

    def __init__(self) -> None:
        self.missed: dict[str, int] = {}
        self._waiting: dict[Key, DeadlineWait] = {}

    def answered(self, ask: Ask, verdict: Verdict, policies: tuple[str, ...], at: datetime) -> None:
        """Record an answer.

        policies: the policies that rule the act.
        """
        if ask.operation is not Operation.EVACUATE or ask.deadline is None or ask.dry_run:
            return
        key = (ask.holder.uid, ask.node)
        if verdict.allowed:
            self._waiting.pop(key, None)
        elif ask.deadline > at and (key in self._waiting or len(self._waiting) < MOST):
            again = verdict.look_again_at or at
            self._waiting[key] = DeadlineWait(ask.deadline, again + STILL_ASKS, policies)

    def advance(self, now: datetime) -> None:
        """Count the evacuations whose deadline has passed."""
        for key, waiting in list(self._waiting.items()):
            if waiting.deadline > now:
                continue
            del self._waiting[key]
            if waiting.deadline <= waiting.asks_until:
                for policy in waiting.policies:
                    self.missed[policy] = self.missed.get(policy, 0) + 1
