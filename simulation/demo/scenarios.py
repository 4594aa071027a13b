"""The demo's scenarios: named plans of faults, the same for the same seed, fleet and speed.

- mixed: single faults of every kind, noise, and now and then a storm
- storm: most of a zone fails at once, while single faults occur elsewhere
- rollout: a component is upgraded in batches, and the third fails
- quiet: no faults at all; you bring your own

The scenario `release` has no nodes and no faults: see simulation.demo.release.

Times are seconds of the demo, each of which stands for `speed` seconds of a real fleet. Single
faults occur below the rate that opens a breaker (`newFaultsPer10m`), and in one zone after the
other.
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
"""Weights of single faults. Faults that need a second rung are rare, since three such escalations
of one rule within an hour open a breaker.
"""
CURABLE: dict[Kind, int] = {Kind.KUBELET_DOWN: 32, Kind.RUNTIME_HUNG: 28, Kind.CLOCK: 18}

OPENING = (
    Kind.KUBELET_DOWN, Kind.HOST_HUNG, Kind.RUNTIME_SHIMS, Kind.FLAP, Kind.CLOCK, Kind.DEADLOCK,
    Kind.RUNTIME_HUNG, Kind.EVENT, Kind.READONLY,
)  # fmt: skip
"""The first faults of a mixed run, so that a visitor sees each kind within ten seconds."""
OF_ITS_OWN = 30.0
"""Seconds of a real fleet after the start of a storm at which another fault of the zone begins."""
REMNANT_SHARE = 0.1
"""The share of the nodes of a storm that stay faulty when it is over."""


@dataclass(frozen=True, slots=True)
class FaultPace:
    """How often faults occur, in seconds of a real fleet of 300 nodes.

    every: mean time between single faults.
    first: time of the first single fault.
    storm: time of the first storm.
    storms: time between two storms.
    lasts: duration of a storm.
    spread: up to this much longer on single nodes.
    share: share of the zone's workers that a storm hits.
    """

    every: float
    storm: float
    storms: float
    lasts: float
    spread: float
    share: float
    first: float = 10.0


FLAP = 6.0
"""Seconds for which a flapping condition is True, below every `for` of the library."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A scenario.

    about: one line of description.
    nodes, speed: defaults that show the scenario within a minute on a busy machine.
    sorts: weights of single faults.
    opening: the first single faults, in order.
    rollout: whether the nodes are Machines whose components are upgraded.
    quiet: whether there are no faults, nor budgets that allow no eviction.
    pauses: whether no single fault begins while a breaker is not closed.
    """

    name: str
    about: str
    nodes: int
    speed: float
    pace: FaultPace
    sorts: dict[Kind, int]
    opening: tuple[Kind, ...] = ()
    rollout: bool = False
    quiet: bool = False
    pauses: bool = False

    @property
    def has_faults(self) -> bool:
        """Return whether faults begin within the first minutes."""
        return not (self.quiet or self.rollout)

    def plan(self, seed: int, fleet: Sequence[Place], speed: float) -> Plan:
        """Return the plan, the same for the same arguments."""
        if self.quiet:
            return iter(())
        rng = random.Random(seed)
        workers = [place for place in fleet if not place.control_plane]
        singles = self._singles(rng, workers, len(fleet), speed)
        storms = self._storms(rng, workers, seed, speed)
        return _merged(singles, storms)

    def _singles(
        self, rng: random.Random, workers: Sequence[Place], nodes: int, speed: float
    ) -> Plan:
        """Yield single faults.

        A node gets no second real fault before all others had one: perNode limits and attempts
        would rightly hold its repair, and that is not what the scenario shows.
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
        """Yield storms. Some nodes recover when a storm is over, the others need a repair.

        During the storm one more node of the zone gets another fault, which its host confirms. An
        open breaker reserves a slot for such faults.
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
    """Merge two endless plans in the order of time."""
    first, second = next(base), next(other)
    while True:
        if first.at <= second.at:
            yield first
            first = next(base)
        else:
            yield second
            second = next(other)


def _in_turn(rng: random.Random, workers: Sequence[Place]) -> Iterator[str]:
    """Yield every worker once, then again in the same order, zone after zone.

    So faults pile up neither in a zone nor on a node. A new order in each round might repeat the
    last node at once.
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
    pauses=True,
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
QUIET = Scenario(
    "quiet",
    "nothing fails by itself; for rules and faults of your own",
    nodes=60,
    speed=1,
    pace=MIXED.pace,
    sorts=MIX,
    quiet=True,
)
SCENARIOS = {scenario.name: scenario for scenario in (MIXED, STORM, ROLLOUT, QUIET)}
RELEASE = "release"
"""The scenario of simulation.demo.release."""
