"""Two results of `make bench`: no figure of the newer one is worse by more than its noise.

    make bench-compare OLD="before-1.json before-2.json" NEW="after-1.json after-2.json"

Of several runs the median counts. The noise of a figure is how far OLD's own runs lie apart, and no
less than what its kind is known to vary by (NOISE). Ends with 0 if none is worse, 1 if some is, 2
if the two cannot be compared: another machine, other sizes, or nothing in common.
"""

import argparse
import json
import re
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from pathlib import Path
from statistics import median
from typing import Any


class Kind(Enum):
    """What a figure measures; of all but RATE less is better."""

    RATE = "per second"
    PROCESSOR = "processor time"
    MEMORY = "memory"
    COUNT = "requests"
    TIME = "time"


@dataclass(frozen=True, slots=True)
class Noise:
    """A difference is noise up to this share, or up to this much in the figure's own unit."""

    share: float
    least: float


NOISE = {
    Kind.RATE: Noise(0.5, 0),
    Kind.PROCESSOR: Noise(0.25, 0),
    Kind.MEMORY: Noise(0.15, 5),
    Kind.COUNT: Noise(0.1, 0.5),
    Kind.TIME: Noise(0.5, 0.005),
}
"""Seen on two cores that other work shares: waits vary most, requests least."""
WORDS = {
    Kind.PROCESSOR: {"cpu", "processor", "core"},
    Kind.MEMORY: {"rss", "resident", "bytes", "memory", "mib"},
    Kind.COUNT: {"requests"},
    Kind.TIME: {"seconds", "ms", "us", "ns", "p50", "p99", "max", "slowest", "after", "behind"},
}
SIZES = {"nodes", "machines", "components", "policies", "alerts", "leases", "lines", "seed"}
SIZES |= {"cores", "python", "n", "rules", "sets", "scenario", "speed"}
"""What was run, and on what: the same on both sides, or the figures say nothing."""
Names = tuple[str, ...]


class NotComparable(Exception):
    """The two results are not of the same thing."""


@dataclass(frozen=True, slots=True)
class Worse:
    name: str
    before: float
    after: float
    noise: float
    """Share of `before`."""

    def __str__(self) -> str:
        change = f"{self.before:g} -> {self.after:g}"
        return f"{self.name}: {change}, noise is {self.noise:.0%}"


def kind_of(path: Names) -> Kind | None:
    """By the words of its name, and then of what it is a part of; None for what is no figure."""
    for key in reversed(path):
        words = [word.lower() for word in re.findall(r"[A-Z]?[a-z0-9]+|[A-Z]+", key)]
        if words[-2:] == ["per", "second"]:
            return Kind.RATE
        for kind, known in WORDS.items():
            if known & set(words):
                return kind
    return None


def leaves(value: Any, path: Names = ()) -> Iterator[tuple[Names, Any]]:
    """Every figure and size with the names that lead to it."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield from leaves(inner, (*path, key))
    elif isinstance(value, list):
        for number, inner in enumerate(value):
            yield from leaves(inner, (*path, str(number)))
    elif isinstance(value, int | float | str) and not isinstance(value, bool):
        yield path, value


def worse(old: Sequence[Mapping[str, Any]], new: Sequence[Mapping[str, Any]]) -> list[Worse]:
    """The figures that are, of the benchmarks that both sides ran. Raises NotComparable."""
    before, after = [dict(leaves(run)) for run in old], [dict(leaves(run)) for run in new]
    _same_sizes([*before, *after])
    common = {path[0] for path in before[0]} & {path[0] for path in after[0]} - {"machine"}
    figures = [
        (path, kind)
        for path in before[0]
        if path[0] in common and path[-1] not in SIZES and (kind := kind_of(path)) is not None
    ]
    if not figures:
        raise NotComparable("no benchmark is in both: give results of the same benchmarks")
    judged = (_judged(path, kind, before, after) for path, kind in figures)
    return [one for one in judged if one is not None]


def _judged(
    path: Names,
    kind: Kind,
    before: Sequence[Mapping[Names, Any]],
    after: Sequence[Mapping[Names, Any]],
) -> Worse | None:
    olds = [float(run[path]) for run in before if path in run]
    news = [float(run[path]) for run in after if path in run]
    if not news and kind is Kind.COUNT:
        return None  # this request is made no more
    if not news:
        raise NotComparable(f"{'.'.join(path)} is in OLD alone: measure OLD with these benchmarks")
    was, now, known = median(olds), median(news), NOISE[kind]
    share = max(known.share, (max(olds) - min(olds)) / abs(was) if was else 0)
    # A rate that is half is as much worse as a time that is double.
    bad = was / (1 + share) > now if kind is Kind.RATE else now > was * (1 + share) + known.least
    return Worse(".".join(path), was, now, share) if bad else None


def _same_sizes(runs: Sequence[Mapping[Names, Any]]) -> None:
    for path in runs[0]:
        found = {run[path] for run in runs if path in run}
        if path[-1] in SIZES and len(found) > 1:
            told = " and ".join(sorted(map(str, found)))
            raise NotComparable(f"{'.'.join(path)} is {told}: run both with the same")


def main() -> int:
    parser = argparse.ArgumentParser(description=str(__doc__).splitlines()[0])
    for side in ("old", "new"):
        parser.add_argument(f"--{side}", nargs="+", type=Path, required=True, metavar="FILE")
    given = parser.parse_args()
    try:
        old, new = (
            [json.loads(file.read_text()) for file in side] for side in (given.old, given.new)
        )
        found = worse(old, new)
    except (OSError, ValueError, NotComparable) as error:
        sys.stderr.write(f"cannot compare: {error}\n")
        return 2
    for one in found:
        sys.stdout.write(f"worse: {one}\n")
    if not found:
        sys.stdout.write("no figure is worse by more than its noise\n")
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
