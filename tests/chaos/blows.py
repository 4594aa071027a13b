"""Which process is struck when, how, and for how long: the same for the same seed.

KILL    SIGKILL; it starts again after `lasts`
FREEZE  SIGSTOP for `lasts`
CUT     every process at once as by KILL, as when the power of a rack fails
"""

import random
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum

EVERYBODY = "all"
SHORT = (0.0, 6.0)
"""Seconds that most blows last."""
LONG_SHARE = 0.3


class Sort(StrEnum):
    KILL = "kill"
    FREEZE = "freeze"
    CUT = "cut"


@dataclass(frozen=True, slots=True)
class Blow:
    """`at` seconds after the begin, for `lasts` seconds."""

    at: float
    victim: str
    sort: Sort
    lasts: float

    @property
    def over(self) -> float:
        return self.at + self.lasts


@dataclass(frozen=True, slots=True)
class Target:
    """weight  how often it is chosen beside others
    longest  seconds that a blow of a sort lasts at most; what is not named is not done to it
    """

    weight: float = 1.0
    longest: Mapping[Sort, float] = field(
        default_factory=lambda: {Sort.KILL: 20.0, Sort.FREEZE: 60.0}
    )


def blows(seed: int, seconds: float, targets: Mapping[str, Target], every: float) -> Iterator[Blow]:
    """In the order of their time, all over after `seconds`; nobody is struck twice at once.

    every  mean seconds between two of them
    """
    chance = random.Random(f"blows {seed}")
    names = sorted(targets)
    busy = dict.fromkeys(names, 0.0)
    at = chance.uniform(0.5, 1.5) * every
    while at < seconds:
        free = [name for name in names if busy[name] <= at]
        if len(free) == len(names) and chance.random() < 0.05:
            found = Blow(at, EVERYBODY, Sort.CUT, chance.uniform(*SHORT))
        elif free:
            (name,) = chance.choices(free, weights=[targets[n].weight for n in free])
            longest = targets[name].longest
            sort = chance.choice(sorted(longest))
            found = Blow(at, name, sort, _lasts(chance, longest[sort]))
        else:
            found = None
        if found is not None and found.over <= seconds:
            for name in names if found.sort is Sort.CUT else (found.victim,):
                busy[name] = found.over
            yield found
        at += chance.expovariate(1 / every)


def _lasts(chance: random.Random, longest: float) -> float:
    if chance.random() < LONG_SHARE:
        return chance.uniform(min(SHORT[1], longest), longest)
    return chance.uniform(SHORT[0], min(SHORT[1], longest))
