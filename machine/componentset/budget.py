"""Limits of a rollout: machines down at once, in total and in each domain, and batch sizes."""

from collections import Counter
from collections.abc import Sequence

from kubenode.api.share import share_of
from kubenode.api.v1alpha1.machinecomponentset import Spread, UpdateStrategy
from machine.componentset.member import RolloutMember


def part_of(share: int | str, total: int) -> int:
    """Return the number for a count or percentage of `total`. A percentage yields at least 1."""
    return share if isinstance(share, int) else max(1, share_of(share, total))


def size_of(strategy: UpdateStrategy, index: int, members: int) -> int:
    """Return the number of machines in batch `index`, counted from 1. The last size repeats."""
    sizes = strategy.batches
    return max(1, part_of(sizes[min(index, len(sizes)) - 1], members))


def count_staying(partition: int | str, members: int) -> int:
    """Return the number of machines that stay on the old revision. A percentage is rounded up."""
    if isinstance(partition, int):
        return min(partition, members)
    return -(-int(partition[:-1]) * members // 100)


def excluded_of(members: Sequence[RolloutMember], share: int | str) -> frozenset[str]:
    """Return the names of unresponsive members to leave out of the counts.

    share: ignoreUnresponsive of the strategy, the greatest number or percentage of them.
    """
    if share == 0:
        return frozenset()
    silent = sorted(m.name for m in members if not m.answers and not m.newcomer)
    return frozenset(silent[: part_of(share, len(members))])


class DisruptionBudget:
    """The number of members that may be out of service at once.

    Newcomers do not count, because they have not been in service.

    excluded: members to leave out of the count of those that are down.
    """

    def __init__(
        self, members: Sequence[RolloutMember], strategy: UpdateStrategy, excluded: frozenset[str]
    ) -> None:
        base = [m for m in members if not m.newcomer]
        down = [m for m in base if m.down and m.name not in excluded]
        self.limit = part_of(strategy.max_unavailable, len(base))
        self.down = len(down)
        self._spread: list[Spread] = strategy.spread
        self._sizes = [Counter(m.domains[i] for m in base) for i in range(len(self._spread))]
        self._down = [Counter(m.domains[i] for m in down) for i in range(len(self._spread))]
        self.short = False
        """Whether `take` has refused a member."""

    def take(self, member: RolloutMember) -> bool:
        """Return whether the member may go out of service now, and count it if so.

        Newcomers and members that are already down cost nothing.
        """
        if member.newcomer or member.down:
            return True
        if self.down >= self.limit or any(
            self._down[i][member.domains[i]]
            >= part_of(spread.max_unavailable, self._sizes[i][member.domains[i]])
            for i, spread in enumerate(self._spread)
        ):
            self.short = True
            return False
        self.down += 1
        for i in range(len(self._spread)):
            self._down[i][member.domains[i]] += 1
        return True
