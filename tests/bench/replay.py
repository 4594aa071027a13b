"""Replay of a recorded hour: signals a second, and how many times faster than life.

The recording is of a fleet that is mostly well: heartbeats thinned to one in five minutes for each
node, noise in Events, a few real faults. Heartbeats change nothing and must cost next to nothing.
"""

import argparse
import random
import time
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

from kubenode.cli.library import library
from simulation.replay.recordings import Timed
from simulation.replay.replay_command import replay
from simulation.replay.timeline import Entry
from simulation.replay.world import START

ZONES = ("a", "b", "c")
DETECTORS = ("KernelDeadlock", "ReadonlyFilesystem", "NTPProblem", "FrequentKubeletRestart")
HEARTBEAT = 300
NOISE = ("NodeHasSufficientMemory", "Starting", "ImageGCFailed", "InvalidDiskCapacity")


def recording(nodes: int, minutes: int, seed: int = 7) -> Iterator[str]:
    """The lines of a recording, in order of time."""
    luck = random.Random(seed)
    found: list[tuple[float, dict[str, Any]]] = []
    names = [f"n{n:05}" for n in range(nodes)]
    for place, name in enumerate(names):
        found.append((0.0, _created(name, ZONES[place % 3])))
        beats = range(luck.randrange(1, HEARTBEAT), minutes * 60, HEARTBEAT)
        found += [(at + luck.random(), {"node": name, "heard": True}) for at in beats]
    for _ in range(nodes * minutes * 6 // 10):
        event = {"reason": luck.choice(NOISE), "source": "kubelet", "severity": "Normal"}
        at = luck.uniform(1, minutes * 60)
        found.append((at, {"node": luck.choice(names), "event": event}))
    for name in luck.sample(names, max(nodes // 50, 1)):
        at = luck.uniform(1, minutes * 60)
        fault = {"type": luck.choice(DETECTORS), "status": "True", "reason": "Bench"}
        found.append((at, {"node": name, "condition": fault}))
    for at, fields in sorted(found, key=lambda pair: pair[0]):
        moment = START + timedelta(seconds=round(at, 3))
        yield Entry.model_validate({"at": moment, **fields}).line()


def _created(name: str, zone: str) -> dict[str, Any]:
    long_ago = START - timedelta(days=30)
    conditions = [
        {"type": type_, "status": "True" if type_ == "Ready" else "False", "since": long_ago}
        for type_ in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure", *DETECTORS)
    ]
    look = {
        "labels": {"kubernetes.io/os": "linux", "topology.kubernetes.io/zone": zone},
        "created": long_ago,
        "conditions": conditions,
    }
    return {"node": name, "lifecycle": "created", "look": look}


def run(nodes: int, minutes: int = 60) -> dict[str, Any]:
    """Figures of one replay; reading the lines is part of it."""
    lines, rules = list(recording(nodes, minutes)), library()
    began = time.perf_counter()
    replayed = replay(_timed(lines), [rules])
    seconds = time.perf_counter() - began
    (world,) = replayed.worlds
    return {
        "nodes": nodes,
        "minutes": minutes,
        "rules": len(world.rules),
        "signals": len(lines),
        "seconds": round(seconds, 2),
        "signalsPerSecond": round(len(lines) / seconds),
        "timesLife": round(minutes * 60 / seconds),
        "evaluations": world.evaluations,
        "jobs": len(world.jobs),
    }


def _timed(lines: list[str]) -> Iterator[Timed]:
    for line in lines:
        entry = Entry.model_validate_json(line)
        assert not isinstance(entry.at, timedelta)
        yield entry.at, entry


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--fleet", type=int, nargs="+", default=[1000], help="nodes of a replay")
    parser.add_argument("--minutes", type=int, default=60, help="recorded time of a replay")


def figures(chosen: argparse.Namespace) -> list[dict[str, Any]]:
    return [run(nodes, chosen.minutes) for nodes in chosen.fleet]
