"""Benign life of a whole fleet: its upgrades, and the stories and noise of each of its nodes."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from support.benign_fleet import ANSWERS, Member, fleet
from support.benign_stories import (
    APART,
    BETWEEN_H,
    HOUR,
    NOISE,
    NOISE_PER_H,
    READY,
    START,
    STORIES,
    UNKNOWN,
    From,
    Moment,
    event,
    guest,
    rolling_reboot,
)

from simulation.replay.moments import instant
from simulation.replay.timeline import Entry, entry

SETTLES = timedelta(minutes=12)
"""After a story: detectors have reported again, and short holds have passed."""


@dataclass(slots=True)
class Life:
    """The fleet at the start, and all that happens to it. `hours` of each of its nodes."""

    members: list[Member]
    looks: dict[str, dict[str, Any]]
    entries: list[Entry] = field(default_factory=list)
    stories: dict[str, int] = field(default_factory=dict)
    busy: dict[str, list[tuple[datetime, datetime]]] = field(default_factory=dict)
    """By node the times in which a story is going on, or has just ended."""


def live(seed: int, nodes: int, hours: float, pace: float = 1.0) -> Life:
    """The same for the same arguments; at a higher pace more happens in the same time."""
    rng = random.Random(seed)
    members = fleet(rng, nodes)
    life = Life(members, {m.name: m.look(START - timedelta(days=30)) for m in members})
    until = hours * HOUR
    for member in members:
        _put(life, member.name, 0.0, [(0, {"probe": {k: dict(v) for k, v in ANSWERS.items()}})])
    reserved = _rollouts(rng, life, until)
    for member in members:
        _days(rng, life, member, reserved.get(member.name), until, pace)
        _noise(rng, life, member.name, until, pace)
    _hiccups(rng, life, reserved, until, pace)
    _autoscaling(rng, life, until)
    life.entries.sort(key=lambda item: instant(item.at, START))
    return life


def _rollouts(rng: random.Random, life: Life, until: float) -> dict[str, tuple[float, float]]:
    """Once in the time every pool is upgraded, one or two nodes at once: when each node is."""
    reserved: dict[str, tuple[float, float]] = {}
    pools: dict[str, list[Member]] = {}
    for member in life.members:
        pools.setdefault("control" if member.control_plane else member.pool, []).append(member)
    for members in pools.values():
        at = rng.uniform(0, max(until - 1200 * len(members), 60))
        for member in members:
            moments = rolling_reboot(rng, member)
            end = at + max(seconds for seconds, _ in moments)
            if end >= until - 60:
                break
            _tell(life, "rolling_reboot", member.name, at, moments)
            reserved[member.name] = (at, end)
            at = end if rng.random() < 0.7 else at + (end - at) / 2
    return reserved


def _days(
    rng: random.Random,
    life: Life,
    member: Member,
    reserved: tuple[float, float] | None,
    until: float,
    pace: float,
) -> None:
    """One story after another, none while the node is being upgraded."""
    makers, weights = zip(*STORIES, strict=True)
    at = rng.expovariate(pace / (BETWEEN_H * HOUR))
    while at < until:
        maker = rng.choices(makers, weights)[0]
        moments = maker(rng, member)
        end = at + max((seconds for seconds, _ in moments), default=0.0)
        clash = reserved is not None and at < reserved[1] + 300 and end > reserved[0] - 300
        if moments and not clash and end < until - 60:
            _tell(life, maker.__name__, member.name, at, moments)
        at = max(end, at) + 600 + rng.expovariate(pace / (BETWEEN_H * HOUR))


def _noise(rng: random.Random, life: Life, node: str, until: float, pace: float) -> None:
    last: dict[str, float] = {}
    at = rng.expovariate(pace * NOISE_PER_H / HOUR)
    while at < until:
        reason, message, source = rng.choice(NOISE)
        if at - last.get(reason, -APART) >= APART:
            last[reason] = at
            _tell(life, "noise", node, at, [(0, event(reason, message, source))])
        at += rng.expovariate(pace * NOISE_PER_H / HOUR)


def _hiccups(
    rng: random.Random,
    life: Life,
    reserved: Mapping[str, tuple[float, float]],
    until: float,
    pace: float,
) -> None:
    """The way to the API server is gone for some time for a share of all nodes at once."""
    at = rng.expovariate(pace / (60 * HOUR))
    while at + 300 < until:
        lasts = rng.uniform(20, 200)
        for member in rng.sample(life.members, int(len(life.members) * rng.uniform(0.2, 0.7))):
            begin, end = reserved.get(member.name, (-1e9, -1e9))
            if begin - 300 < at < end + 300:
                continue
            back = lasts + rng.uniform(0, 20)
            moments: list[Moment] = [(rng.uniform(0, 10), UNKNOWN), (back, READY)]
            _tell(life, "hiccup", member.name, at, moments)
        at += rng.expovariate(pace / (60 * HOUR))


def _autoscaling(rng: random.Random, life: Life, until: float) -> None:
    """Further nodes come for some hours and go again, by the autoscaler's own way."""
    for number in range(max(len(life.members) // 20, 1)):
        pattern = rng.choice(life.members[3:] or life.members)
        at = rng.uniform(0, until)
        while at < until:
            moments = guest(rng, pattern)
            end = at + moments[-1][0]
            if end < until:
                _tell(life, "autoscaled", f"spot-{number}", at, moments, stays=True)
            at = end + rng.uniform(0.2, 3) * HOUR


def _tell(
    life: Life,
    story: str,
    node: str,
    begin: float,
    moments: Sequence[Moment],
    stays: bool = False,
) -> None:
    """stays  the node is well between the moments"""
    life.stories[story] = life.stories.get(story, 0) + 1
    times = sorted(seconds for seconds, _ in moments)
    spans = [(at, at) for at in times] if stays else [(times[0], times[-1])]
    for first, last in spans:
        span = (_when(begin + first), _when(begin + last) + SETTLES)
        life.busy.setdefault(node, []).append(span)
    _put(life, node, begin, moments)


def _when(seconds: float) -> datetime:
    return START + timedelta(milliseconds=round(seconds * 1000))


def _put(life: Life, node: str, begin: float, moments: Sequence[Moment]) -> None:
    for seconds, fields in moments:
        life.entries.append(entry(at=_when(begin + seconds), node=node, **_dated(fields, begin)))


def _dated(value: Any, begin: float) -> Any:
    if isinstance(value, dict):
        return {k: _dated(v, begin) for k, v in value.items()}
    if isinstance(value, list):
        return [_dated(v, begin) for v in value]
    if isinstance(value, From):
        return START + timedelta(seconds=begin + value.seconds)
    return value


def lines(life: Life) -> Iterator[str]:
    """As a recording, for `kubenode rules replay`."""
    for item in life.entries:
        yield item.line()
