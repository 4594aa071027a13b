"""Judges the permits of an open or half-open breaker, by the observer's own count."""

from collections import Counter
from collections.abc import Mapping

from simulation.demo.books import STALE, PermitView
from simulation.demo.breakers import DemoBreaker, DemoBreakerState, JobView, PolicyBreakerSet

PROOFS = frozenset({"probe", "Provider", "BMC", "Redfish", "HostEvent"})
"""Sources of facts that cannot all fail for one common cause, unlike node conditions."""


class Resuming:
    """Judges permits. Call `granted` for every grant, and `changed` for every write of a permit.

    permits: the open permits.
    while_open: grants while the breaker was open that did not qualify for its reserved slot.
    reserved: grants in a reserved slot.
    most: the most permits open at once in one scope, of those granted since it was half-open.
    """

    def __init__(
        self,
        breakers: PolicyBreakerSet,
        permits: Mapping[str, PermitView],
        jobs: Mapping[str, JobView],
    ) -> None:
        self._breakers = breakers
        self._permits = permits
        self._jobs = jobs
        self._given: dict[str, float] = {}
        self._in_reserve: set[str] = set()
        self.while_open = 0
        self.reserved = 0
        self.most = 0

    def changed(self, name: str) -> None:
        if name not in self._permits:
            self._given.pop(name, None)
            self._in_reserve.discard(name)

    def granted(self, at: float, name: str, permit: PermitView) -> tuple[str, bool]:
        """Judge a grant.

        Return why it is a violation, "" if it is none, and whether it took a reserved slot.
        """
        self._given[name] = at
        for scope in self._breakers.of(permit.node):
            allowed = scope.allowance(at + STALE)
            at_once = self._at_once(scope, at)
            if at_once <= allowed:
                if scope.state is DemoBreakerState.HALF_OPEN:
                    self.most = max(self.most, at_once)
                continue
            if self._may_take_reserve(scope, permit):
                self._in_reserve.add(name)
                self.reserved += 1
                continue
            self.while_open += allowed == 0
            return self._why(scope, at_once, allowed), False
        return "", name in self._in_reserve

    def _at_once(self, scope: DemoBreaker, now: float) -> int:
        """Count open permits of the scope since it is half-open, or open."""
        resumes = scope.resumes_at()
        since = resumes if resumes <= now + STALE else scope.since
        return sum(
            at >= since - STALE and name not in self._in_reserve and self._in(scope, name)
            for name, at in self._given.items()
        )

    def _in(self, scope: DemoBreaker, name: str) -> bool:
        return self._permits[name].node in scope.members

    def _may_take_reserve(self, scope: DemoBreaker, permit: PermitView) -> bool:
        """Return whether the permit qualifies for the reserved slot.

        Its fault must differ from that of most other nodes, and an independent source must confirm
        it.
        """
        job = self._jobs.get(permit.holder)
        if job is None or not job.sources & PROOFS:
            return False
        others = Counter(
            each.fault_class
            for each in self._jobs.values()
            if each.open and each.acts and each.node in scope.members and each.node != job.node
        )
        taken = sum(self._in(scope, name) for name in self._in_reserve)
        alike = others.most_common(1)[0][0] if others else ""
        return job.fault_class != alike and taken < self._breakers.rules.reserved

    @staticmethod
    def _why(scope: DemoBreaker, at_once: int, allowed: float) -> str:
        if allowed == 0:
            return f"{scope.name}: a permit while the breaker is open"
        return f"{scope.name}: {at_once} permits at once while half-open, {allowed:.0f} allowed"
