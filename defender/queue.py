"""Who waits for a permit, in which order, and when each looks again.

Pure memory. A refused holder that asks again keeps its place; one that stops asking loses it.
"""

from datetime import datetime

from defender.limits.case import Case, Refusal
from kubenode.api.v1alpha1 import Ask, Verdict


class Queue:
    """`refuse` is asked by `defender.verdict` last, when every limit would allow the act."""

    def refuse(self, case: Case) -> Refusal | None:
        """Why others come first, None if none does."""
        return None

    def answered(self, ask: Ask, verdict: Verdict, now: datetime) -> Verdict:
        """Told of every answer that is given; the answer, with the time to ask again."""
        return verdict

    def advance(self, now: datetime) -> None:
        """Let time pass: who stopped asking is forgotten."""
