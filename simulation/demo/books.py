"""Keeps the usage and health of one set of budgets up to date with every change."""

from collections import deque
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field

from kubenode.api.v1alpha1 import DefenderPolicy
from simulation.demo.budgets import Budget, budgets

STALE = 1.0
"""Seconds. A grant is judged by the best health of its group within this time, since nobody can
know of an unhealthy node before the watch reports it.
"""
ROUNDING = 1.0
"""Grants above the rate that are no violation: our clock and that of Kube Defender differ."""


@dataclass(frozen=True, slots=True)
class PermitView:
    """A permit as the observer sees it.

    holder: the name of the job that holds it.
    """

    node: str
    class_: str
    open: bool
    holder: str = ""


@dataclass(slots=True)
class _Health:
    """How many nodes of one group were healthy, over the last STALE seconds."""

    observations: deque[tuple[float, int]] = field(default_factory=deque)

    def note(self, at: float, healthy: int) -> None:
        self.observations.append((at, healthy))
        self._forget(at)

    def _forget(self, at: float) -> None:
        """Drop old values, except the newest value older than STALE: it was true until the next
        one.
        """
        while len(self.observations) > 1 and self.observations[1][0] <= at - STALE:
            self.observations.popleft()

    def best(self, at: float) -> int:
        self._forget(at)
        return max((healthy for _, healthy in self.observations), default=0)


class Books:
    """Budgets with their usage.

    permits: the open permits by name; the observer maintains the mapping.
    """

    def __init__(self, policy: DefenderPolicy, permits: Mapping[str, PermitView]) -> None:
        self._policy = policy
        self._permits = permits
        self.budgets: list[Budget] = []
        self._groups: dict[str, list[Budget]] = {}
        self._health: dict[str, _Health] = {}
        self._healthy: dict[str, set[str]] = {}
        self._grants_at: dict[str, deque[float]] = {}

    def regroup(
        self,
        at: float,
        labels: Mapping[str, Mapping[str, str]],
        well: Callable[[str], bool],
        dark: Mapping[str, frozenset[str]],
    ) -> None:
        """Compute all budgets again.

        well: whether a node is healthy.
        dark: scope to the nodes that only the budgets of that scope count.
        """
        self.budgets = budgets(self._policy, labels, dark)
        self._groups, self._healthy = {}, {}
        for budget in self.budgets:
            healthy = {name for name in budget.members if well(name)}
            self._healthy[budget.key] = healthy
            self._health.setdefault(budget.key, _Health()).note(at, len(healthy))
            for name in budget.members:
                self._groups.setdefault(name, []).append(budget)

    def count(self, at: float, name: str, well: bool) -> None:
        for budget in self._groups.get(name, ()):
            healthy = self._healthy[budget.key]
            if well == (name in healthy):
                continue
            (healthy.add if well else healthy.discard)(name)
            self._health[budget.key].note(at, len(healthy))

    def healthy(self, budget: Budget) -> int:
        return len(self._healthy[budget.key])

    def disrupted(self, budget: Budget) -> set[str]:
        """Return nodes of the budget's group with an open permit that counts in it."""
        return {
            p.node
            for p in self._permits.values()
            if p.class_ in budget.classes and p.node in budget.members
        }

    def judge(self, at: float, permit: PermitView, *, reserved: bool = False) -> dict[str, str]:
        """Judge a permit that was just granted. Return the violated budgets with the reason.

        It must be called for every grant, since it also counts grants for rates.

        reserved: the permit took a breaker's reserved slot, to which `minHealthy` does not apply.
        """
        return {
            budget.key: f"{budget.name}: {why}"
            for budget in self._groups.get(permit.node, ())
            if permit.class_ in budget.classes
            for why in self._beyond(at, budget, permit, reserved)
        }

    def _beyond(
        self, at: float, budget: Budget, permit: PermitView, reserved: bool
    ) -> Iterator[str]:
        taken = self.disrupted(budget)
        if budget.at_most is not None and len(taken) > budget.at_most:
            yield f"{len(taken)} nodes disrupted at once, {budget.at_most} allowed"
        if budget.keep and not reserved:
            healthy = self._healthy[budget.key]
            others = self._health[budget.key].best(at) - (permit.node in healthy)
            if others < budget.keep:
                yield f"{others} others healthy, {budget.keep} must be"
        if budget.rate is not None and (why := self._too_fast(at, budget, budget.rate)):
            yield why

    def _too_fast(self, at: float, budget: Budget, rate: float) -> str:
        """Return why grants exceed a token bucket in some span up to now, "" if they do not."""
        grants = self._grants_at.setdefault(budget.key, deque(maxlen=4096))
        grants.append(at)
        for count, began in enumerate(reversed(grants), start=1):
            most = budget.burst + rate * (at - began) + ROUNDING
            if count > most:
                return f"{count} permits in {at - began:.1f} s, {most:.0f} allowed"
        return ""
