"""The breakers of all policies: they stop acts in a scope when too much is wrong at once."""

from collections.abc import Sequence
from datetime import datetime

from defender.census import Census
from defender.jobs import Job
from defender.ledger import Ledger
from defender.limits.case import Case, Refusal
from defender.policies import Policy
from kubenode.api.v1alpha1.defenderpolicy import BreakerStatus


class Breakers:
    """Told of every change; `refuse` is asked by `defender.verdict` for each policy of an act."""

    def __init__(self, census: Census, ledger: Ledger) -> None:
        self._census, self._ledger = census, ledger

    def govern(self, policies: Sequence[Policy], now: datetime) -> None:
        """These policies hold from now on; a breaker that is new here takes its policy's status."""

    def node_changed(self, name: str, now: datetime) -> None:
        """The census has counted it already; it may be gone."""

    def job_changed(self, old: Job | None, new: Job | None, now: datetime) -> None: ...

    def advance(self, now: datetime) -> bool:
        """Let time pass. Whether the state of a breaker changed."""
        return False

    def refuse(self, case: Case) -> Refusal | None:
        """Why the breaker forbids this act, None if it does not."""
        return None

    def status(self, policy: str) -> list[BreakerStatus]:
        """What is told in the policy's status: breakers that are not closed, and closed lately."""
        return []
