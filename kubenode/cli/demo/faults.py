"""What goes wrong in the demo, when, where and for how long: planned ahead from a seed.

The plan mixes what must be healed with what must be left alone:

- real and curable: a kubelet that died, a runtime that hangs (some only come back when the node is
  empty), a clock without its daemon;
- real and for people: a kernel deadlock, a read-only file system. They are latched; a person boots
  the machine some time after it was handed over;
- real and too many at once: in a storm nearly half of a zone loses its runtime to a cause outside
  of the hosts, so that no restart helps. Kube Defender must hold it; after a while it passes;
- noise, never to be acted on: conditions that flap below a rule's `for`, single Events.

Times here are seconds of the demo, of which each stands for `speed` seconds of a real fleet.
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum

from kubenode.cli.demo.fleet import ZONES, Place


class Kind(StrEnum):
    KUBELET_DOWN = "KubeletDown"
    KUBELET_WEDGED = "KubeletWedged"
    RUNTIME_HUNG = "RuntimeHung"
    RUNTIME_SHIMS = "RuntimeShimsHang"
    CLOCK = "ClockUnkept"
    DEADLOCK = "KernelDeadlock"
    READONLY = "ReadonlyFilesystem"
    STORM = "ZoneStorm"
    FLAP = "Flapping"
    EVENT = "SingleEvent"

    @property
    def real(self) -> bool:
        """Whether something is wrong that somebody should act on."""
        return self not in (Kind.FLAP, Kind.EVENT)

    @property
    def for_people(self) -> bool:
        return self in (Kind.DEADLOCK, Kind.READONLY)


MIX: dict[Kind, int] = {
    Kind.KUBELET_DOWN: 30,
    Kind.KUBELET_WEDGED: 4,
    Kind.RUNTIME_HUNG: 24,
    Kind.RUNTIME_SHIMS: 8,
    Kind.CLOCK: 16,
    Kind.DEADLOCK: 2,
    Kind.READONLY: 2,
    Kind.FLAP: 16,
    Kind.EVENT: 12,
}
"""Weights of what comes one at a time."""

OPENING = (
    Kind.KUBELET_DOWN, Kind.RUNTIME_SHIMS, Kind.FLAP, Kind.CLOCK, Kind.DEADLOCK, Kind.RUNTIME_HUNG,
    Kind.EVENT, Kind.READONLY,
)  # fmt: skip
"""The first faults of any run: a visitor sees each sort within ten seconds."""

STORM_SHARE = 0.45
"""Of a zone: more than minHealthy 60% allows, less than the whole zone."""


@dataclass(frozen=True, slots=True)
class Planned:
    """One fault to come. `lasts`: seconds after which it passes by itself, None for never."""

    at: float
    kind: Kind
    nodes: tuple[str, ...]
    lasts: float | None = None


@dataclass(frozen=True, slots=True)
class Pace:
    """How often. Per second of the demo, and for the whole fleet.

    first   when the first fault comes
    every   mean seconds between faults
    storm   when the first storm comes, and how long one lasts; again every `storms` seconds
    flap    seconds that a flapping condition stays True: below every `for` of the library
    """

    first: float
    every: float
    storm: float
    storms: float
    storm_lasts: float
    flap: float

    @classmethod
    def at_speed(cls, speed: float, nodes: int) -> "Pace":
        """At speed 20 and 300 nodes a fault per second, a storm at 36 s, then one per 2 minutes."""
        slow = 20 / speed
        return cls(
            first=0.5 * slow,
            every=0.8 * slow * max(0.6, 300 / nodes),
            storm=36 * slow,
            storms=120 * slow,
            storm_lasts=14 * slow,
            flap=0.3 * slow,
        )


def plan(seed: int, fleet: Sequence[Place], pace: Pace) -> Iterator[Planned]:
    """Faults in the order of their time, without end; the same for the same arguments.

    A node that had a real fault gets no other before all others had one: perNode limits and
    attempts would rightly hold it, and the demo shows that on its own.
    """
    rng = random.Random(seed)
    workers = [p for p in fleet if not p.control_plane]
    rested: list[str] = []
    at, storm_at, count, storms = pace.first, pace.storm, 0, 0
    while True:
        if at >= storm_at:
            zone = ZONES[(seed + storms) % len(ZONES)]
            yield _storm(rng, workers, zone, storm_at, pace)
            storm_at += pace.storms
            storms += 1
            continue
        if not rested:
            rested = [p.name for p in workers]
            rng.shuffle(rested)
        kind = OPENING[count] if count < len(OPENING) else _draw(rng)
        lasts = pace.flap if kind is Kind.FLAP else None
        yield Planned(at, kind, (rested.pop(),), lasts)
        count += 1
        at += rng.uniform(0.5, 1.5) * pace.every


def _draw(rng: random.Random) -> Kind:
    return rng.choices(list(MIX), weights=list(MIX.values()))[0]


def _storm(
    rng: random.Random, workers: Sequence[Place], zone: str, at: float, pace: Pace
) -> Planned:
    there = [p.name for p in workers if p.zone == zone]
    hit = rng.sample(there, k=max(1, round(len(there) * STORM_SHARE)))
    return Planned(at, Kind.STORM, tuple(sorted(hit)), pace.storm_lasts)
