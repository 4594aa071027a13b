"""The demo's scenarios: plans of faults by name, the same for the same seed, fleet and speed.

    mixed    faults of every sort one at a time, noise between them, now and then a storm
    storm    a zone fails, most of it at once, while single faults elsewhere go on
    rollout  a component is upgraded in batches, and the third goes bad

Times are seconds of the demo, of which each stands for `speed` seconds of a real fleet. Single
faults come below the rate that opens a breaker (`newFaultsPer10m`), one zone after the other.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import cycle, zip_longest

from simulation.demo.faults import Kind, Plan, Planned
from simulation.demo.fleet import ZONES, Place

MIX: dict[Kind, int] = {
    Kind.KUBELET_DOWN: 32,
    Kind.KUBELET_WEDGED: 1,
    Kind.RUNTIME_HUNG: 28,
    Kind.RUNTIME_SHIMS: 1,
    Kind.CLOCK: 18,
    Kind.DEADLOCK: 2,
    Kind.READONLY: 2,
    Kind.HOST_HUNG: 2,
    Kind.FLAP: 14,
    Kind.EVENT: 8,
}
"""Weights of what comes one at a time. What needs a second rung is rare: three such escalations of
one rule within an hour open a breaker."""
CURABLE: dict[Kind, int] = {Kind.KUBELET_DOWN: 32, Kind.RUNTIME_HUNG: 28, Kind.CLOCK: 18}

OPENING = (
    Kind.KUBELET_DOWN, Kind.HOST_HUNG, Kind.RUNTIME_SHIMS, Kind.FLAP, Kind.CLOCK, Kind.DEADLOCK,
    Kind.RUNTIME_HUNG, Kind.EVENT, Kind.READONLY,
)  # fmt: skip
"""The first faults of a mixed run: a visitor sees each sort within ten seconds."""
OF_ITS_OWN = 30.0
"""Seconds of a real fleet after a storm's begin."""
REMNANT_SHARE = 0.1
"""Of the nodes that a storm hit: those that stay ill when it has passed."""


@dataclass(frozen=True, slots=True)
class FaultPace:
    """How often things happen, in seconds of a real fleet of 300 nodes.

    every   mean time between single faults, after the `first`
    storm   when the first storm comes; again every `storms`
    lasts   how long it lasts, and `spread` more on its last node
    share   of the zone's workers that it hits
    """

    every: float
    storm: float
    storms: float
    lasts: float
    spread: float
    share: float
    first: float = 10.0


FLAP = 6.0
"""Seconds that a flapping condition stays True: below every `for` of the library."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """about  one line for people
    nodes    and `speed` that show it within a minute on a busy machine
    sorts    weights of single faults, after `opening`
    rollout  whether its nodes are Machines, whose software is upgraded
    """

    name: str
    about: str
    nodes: int
    speed: float
    pace: FaultPace
    sorts: dict[Kind, int]
    opening: tuple[Kind, ...] = ()
    rollout: bool = False

    def plan(self, seed: int, fleet: Sequence[Place], speed: float) -> Plan:
        """The same for the same arguments."""
        rng = random.Random(seed)
        workers = [place for place in fleet if not place.control_plane]
        singles = self._singles(rng, workers, len(fleet), speed)
        storms = self._storms(rng, workers, seed, speed)
        return _merged(singles, storms)

    def _singles(
        self, rng: random.Random, workers: Sequence[Place], nodes: int, speed: float
    ) -> Plan:
        """A node that had a real fault gets no other before all others had one: perNode limits
        and attempts would rightly hold it, and the demo shows that on its own.
        """
        every = self.pace.every / speed * max(0.6, 300 / nodes)
        at, turn = self.pace.first / speed, _in_turn(rng, workers)
        kinds = _kinds(rng, self.opening, self.sorts)
        while True:
            kind = next(kinds)
            yield Planned(at, kind, (next(turn),), FLAP / speed if kind is Kind.FLAP else None)
            at += rng.uniform(0.7, 1.3) * every

    def _storms(
        self, rng: random.Random, workers: Sequence[Place], seed: int, speed: float
    ) -> Plan:
        """Every storm is one moment and two kinds: what passes, and what stays until repaired.

        Then one more node of the zone has a fault of its own, which its host confirms: for such
        ones an open breaker keeps a slot.
        """
        pace, number = self.pace, 0
        while True:
            zone = ZONES[(seed + number) % len(ZONES)]
            there = [p.name for p in workers if p.zone == zone]
            hit = rng.sample(there, k=max(1, round(len(there) * pace.share)))
            remaining = max(1, round(len(hit) * REMNANT_SHARE))
            at = (pace.storm + number * pace.storms) / speed
            for kind, nodes in (
                (Kind.STORM, hit[remaining:]),
                (Kind.STORM_REMNANT, hit[:remaining]),
            ):
                if nodes:
                    lasts, spread = pace.lasts / speed, pace.spread / speed
                    yield Planned(at, kind, tuple(sorted(nodes)), lasts, spread)
            at += OF_ITS_OWN / speed
            yield Planned(at, Kind.CLOCK_PROVEN, (rng.choice([n for n in there if n not in hit]),))
            number += 1


def _merged(base: Plan, other: Plan) -> Plan:
    """Both without end, by time."""
    first, second = next(base), next(other)
    while True:
        if first.at <= second.at:
            yield first
            first = next(base)
        else:
            yield second
            second = next(other)


def _in_turn(rng: random.Random, workers: Sequence[Place]) -> Iterator[str]:
    """Every worker once, then again in the same order, zone after zone, so that faults pile up
    neither in a zone nor on a node: dealt anew, the last of one round may be the first of the next.
    """
    zones: dict[str, list[str]] = {}
    for place in workers:
        zones.setdefault(place.zone, []).append(place.name)
    for names in zones.values():
        rng.shuffle(names)
        names.reverse()
    yield from cycle([name for row in zip_longest(*zones.values()) for name in row if name])


def _kinds(rng: random.Random, opening: Sequence[Kind], sorts: dict[Kind, int]) -> Iterator[Kind]:
    yield from opening
    while True:
        yield rng.choices(list(sorts), weights=list(sorts.values()))[0]


MIXED = Scenario(
    "mixed",
    "faults of every sort one at a time, and now and then a storm",
    nodes=300,
    speed=20,
    pace=FaultPace(every=25, storm=720, storms=4800, lasts=280, spread=20, share=0.45),
    sorts=MIX,
    opening=OPENING,
)
STORM = Scenario(
    "storm",
    "a zone fails, most of it at once, while single faults elsewhere go on",
    nodes=150,
    speed=50,
    pace=FaultPace(every=66, storm=120, storms=6000, lasts=240, spread=60, share=0.7),
    sorts=CURABLE,
)
ROLLOUT = Scenario(
    "rollout",
    "containerd is upgraded in batches; the third gets a build that crashes, and it stops",
    nodes=33,
    speed=1,
    pace=FaultPace(every=600, storm=1e9, storms=1e9, lasts=1, spread=1, share=0.1, first=86400),
    sorts=CURABLE,
    rollout=True,
)
SCENARIOS = {scenario.name: scenario for scenario in (MIXED, STORM, ROLLOUT)}
