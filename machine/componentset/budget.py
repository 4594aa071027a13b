"""How many machines may be down at once, in all and in each domain, and how large a batch is."""

from collections import Counter
from collections.abc import Sequence

from kubenode.api.share import share_of
from kubenode.api.v1alpha1.machinecomponentset import Spread, UpdateStrategy
from machine.componentset.member import RolloutMember


def part_of(share: int | str, total: int) -> int:
    """A percentage is rounded down, and at least 1."""
    return share if isinstance(share, int) else max(1, share_of(share, total))


def size_of(strategy: UpdateStrategy, index: int, members: int) -> int:
    """Machines of batch `index`, from 1; the last size repeats."""
    sizes = strategy.batches
    return max(1, part_of(sizes[min(index, len(sizes)) - 1], members))


def kept_of(partition: int | str, members: int) -> int:
    """Machines that stay at the revision before: a percentage is rounded up."""
    if isinstance(partition, int):
        return min(partition, members)
    return -(-int(partition[:-1]) * members // 100)


def excluded_of(members: Sequence[RolloutMember], share: int | str) -> frozenset[str]:
    """Members that do not answer and are left out of the counts, by name."""
    if share == 0:
        return frozenset()
    silent = sorted(m.name for m in members if not m.answers and not m.newcomer)
    return frozenset(silent[: part_of(share, len(members))])


class DisruptionBudget:
    """Of the members that were in service once: a newcomer takes nothing away from anybody."""

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
        """Whether somebody was refused."""

    def take(self, member: RolloutMember) -> bool:
        """Whether this machine may go out of service now; if so it counts from here on.

        One that is out already costs nothing.
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
