"""The rule engines under signals: how many a second, how fast, and at what memory per node.

100 rules over conditions, event windows, labels, facts, guards and derived facts; every node sends
signals in turn. Of 20 signals 19 are heartbeats, which change only what no rule decides by, and one
changes a leaf: a condition turns, an Event comes, a label or a fact changes. Nodes fall ill and are
healed, so that some hundreds of them match at any time; what matches is asked of both engines at
every signal. Signals come in batches, as remedy's evaluator hands them over.

Figures are per second of processor time of this process and the engines' child together: "on one
core", whatever else the machine does. Wall times are given beside them.
"""

import argparse
import gc
import os
import random
import time
import tracemalloc
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

from bench.processes import usage

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.child import ChildProcess
from rules.diagnose import Diagnoser, Diagnosis
from rules.facts import ConditionFact, EventFact, FactSet
from rules.program import RuleVersion
from rules.truth import Truth

RULES = 100
BATCH = 128
"""As remedy.remedier.evaluator."""
CHANGES = 20
"""One signal in so many changes a leaf."""
START = datetime(2026, 1, 1, 12, tzinfo=UTC)
PACE = timedelta(milliseconds=1)
"""Of the clock, per signal: 10,000 nodes that are heard from every 10 s."""
TYPES, REASONS = 61, 19
"""Of conditions and of Events, shared out among the rules."""
REPORTED = 10
"""Condition types that each node reports, of those that the rules read."""


def a_rule(number: int) -> RuleVersion:
    condition: dict[str, Any] = {"condition": {"type": f"Fault{number % TYPES}", "for": "30s"}}
    window = {"event": {"reason": f"Oops{number % REASONS}", "count": 3, "within": "10m"}}
    pool = {"label": {"key": "pool", "in": ["gpu", f"pool{number % 7}"]}}
    derived = {"fact": {"name": f"bench.derived{number % 5}"}}
    kinds: list[dict[str, Any]] = [
        condition,
        {"all": [condition, pool]},
        window,
        {"any": [window, {"all": [condition, {"fact": {"name": "node.gpuCount", "above": 5}}]}]},
        {"all": [condition, {"not": derived}]},
    ]
    spec: dict[str, Any] = {"nodes": {"all": True}, "mode": "Enforce", "when": kinds[number % 5]}
    if number < 5:
        spec |= {"when": {"any": [condition, window]}, "infer": {"fact": f"bench.derived{number}"}}
    else:
        spec["ladder"] = [{"name": "tell", "steps": [{"notify": {}}]}]
        if number % 3 == 0:
            spec["unless"] = {"annotation": {"key": "bench/maintenance"}}
    metadata = {"name": f"rule{number}"}
    return RuleVersion(
        f"rule{number}@1", NodeRemedier.from_user({"metadata": metadata, "spec": spec})
    )


class Fleet:
    """Nodes and the signals that they send, from a fixed seed."""

    def __init__(self, nodes: int) -> None:
        self._dice = random.Random(1)
        self.nodes = [self._node(n) for n in range(nodes)]
        self.now = START
        self._ill: list[int] = []
        self._next = 0

    def _node(self, number: int) -> FactSet:
        types = [f"Fault{(number + 7 * k) % TYPES}" for k in range(REPORTED)]
        well = {
            t: ConditionFact(t, "False", f"No{t}", f"{t} is not seen", START, START) for t in types
        }
        labels = {f"label{k}": f"value{k}" for k in range(8)}
        return FactSet(
            node=f"node-{number}",
            uid=f"uid-{number}",
            labels={**labels, "pool": f"pool{number % 9}"},
            conditions=well,
            values=self._values(2),
        )

    def _values(self, pods: int) -> dict[str, Any]:
        return {f"other.value{k}": k for k in range(20)} | {
            "node.gpuCount": pods,
            "node.age": (self.now - START).total_seconds() if hasattr(self, "now") else 0.0,
        }

    def signals(self, count: int) -> list[FactSet]:
        found = []
        for n in range(count):
            self.now += PACE
            if n % CHANGES == 0:
                found.append(self._changed())
            else:
                self._next = (self._next + 1) % len(self.nodes)
                found.append(self._heartbeat(self._next))
        return found

    def _heartbeat(self, number: int) -> FactSet:
        node = self.nodes[number]
        conditions = {t: replace(c, received_at=self.now) for t, c in node.conditions.items()}
        pods = node.values["node.gpuCount"]
        assert isinstance(pods, int)
        found = replace(node, conditions=conditions, values=self._values(pods))
        self.nodes[number] = found
        return found

    def _changed(self) -> FactSet:
        """Half of the changes heal what half of them broke, some minutes later."""
        number = self._dice.randrange(len(self.nodes))
        node = self._heartbeat(number)
        kind = self._dice.choice(("condition", "heal", "event", "pods", "pool"))
        if kind == "heal" and len(self._ill) > len(self.nodes) // 50:
            number = self._ill.pop(0)
            node = self._turned(self._heartbeat(number), "False")
        elif kind in ("condition", "heal"):
            self._ill.append(number)
            node = self._turned(node, "True")
        elif kind == "event":
            event = EventFact(
                f"Oops{self._dice.randrange(REASONS)}", "it", "", "Warning", 1, self.now
            )
            node = replace(node, events=(*node.events[-15:], event))
        elif kind == "pods":
            node = replace(node, values=self._values(self._dice.choice((2, 8))))
        else:
            pool = f"pool{self._dice.randrange(9)}"
            node = replace(node, labels={**node.labels, "pool": pool})
        self.nodes[number] = node
        return node

    def _turned(self, node: FactSet, status: str) -> FactSet:
        """Its first condition, held since a minute: the fault is there at once."""
        type_, old = next(iter(node.conditions.items()))
        since = self.now - timedelta(minutes=1)
        turned = replace(old, status=status, reason=f"Is{status}", since=since)
        return replace(node, conditions={**node.conditions, type_: turned})


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--rules-nodes", type=int, default=10_000)
    parser.add_argument("--signals", type=int, default=40_000, help="timed, of the rule engines")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    return run(chosen.rules_nodes, chosen.signals)


def run(nodes: int = 10_000, signals: int = 40_000) -> dict[str, Any]:
    """All figures, with the second engine's child and without it."""
    return {
        "nodes": nodes,
        "rules": RULES,
        "child": _measured(nodes, signals, child=True),
        "referenceOnly": _measured(nodes, signals, child=False),
        "bytesPerNode": _bytes_per_node(nodes),
    }


def _measured(nodes: int, signals: int, *, child: bool) -> dict[str, Any]:
    fleet = Fleet(nodes)
    diagnoser = Diagnoser(lambda: ChildProcess("rules.engines.child")) if child else Diagnoser()
    try:
        before = _Meter()
        report = diagnoser.load([a_rule(n) for n in range(RULES)])
        assert not report.rejected, report.rejected
        load = before.passed()
        before = _Meter()
        for batch in _batches(fleet.nodes):
            diagnoser.diagnose(batch, fleet.now)
        start = before.passed()
        flow = _flow(diagnoser, fleet, signals)
        single = _single(diagnoser, fleet)
        storm = _storm(diagnoser, fleet)
        assert not child or not diagnoser.check.trouble, diagnoser.check.trouble
    finally:
        diagnoser.close()
    return {
        "leaves": _leaves(diagnoser),
        "loadSeconds": load,
        "startSeconds": start,
        **flow,
        **single,
        **storm,
        "rssMB": round(usage(os.getpid()).rss / 1e6),
    }


def _flow(diagnoser: Diagnoser, fleet: Fleet, signals: int) -> dict[str, Any]:
    cpu = wall = 0.0
    done = matching = 0
    while done < signals:
        batches = [(fleet.signals(BATCH), fleet.now) for _ in range(40)]
        meter = _Meter()
        for batch, now in batches:
            matching += sum(map(_matches, diagnoser.diagnose(batch, now)))
        passed = meter.passed()
        cpu, wall = cpu + passed["cpu"], wall + passed["wall"]
        done += BATCH * len(batches)
    return {
        "signalsPerCpuSecond": round(done / cpu),
        "signalsPerSecond": round(done / wall),
        "matchingShare": round(matching / done, 4),
    }


def _single(diagnoser: Diagnoser, fleet: Fleet) -> dict[str, Any]:
    """One node at a time: a change of a leaf, and a heartbeat."""
    changed, beats = [], []
    for _ in range(2000):
        fleet.now += PACE
        node = fleet._changed()
        changed.append(_timed(diagnoser, node, fleet.now))
        node = fleet.signals(2)[1]
        beats.append(_timed(diagnoser, node, fleet.now))
    return {
        "changeMicroseconds": _percentiles(changed),
        "heartbeatMicroseconds": _percentiles(beats),
    }


def _storm(diagnoser: Diagnoser, fleet: Fleet) -> dict[str, Any]:
    """Every node falls ill at once: each of them is a match, and is asked of both engines."""
    ill = [fleet._turned(node, "True") for node in fleet.nodes[:2000]]
    meter = _Meter()
    for batch in _batches(ill):
        diagnoser.diagnose(batch, fleet.now)
    return {"matchesPerCpuSecond": round(len(ill) / meter.passed()["cpu"])}


def _timed(diagnoser: Diagnoser, node: FactSet, now: datetime) -> float:
    began = time.perf_counter()
    diagnoser.diagnose([node], now)
    return (time.perf_counter() - began) * 1e6


def _bytes_per_node(nodes: int) -> int:
    """What is kept of a node, with the FactSet and those of its parts that are made for it; labels
    and findings belong to the caches that FactSets are made from.
    """
    fleet = Fleet(nodes)
    diagnoser = Diagnoser()
    diagnoser.load([a_rule(n) for n in range(RULES)])
    diagnoser.diagnose(fleet.nodes[:1], fleet.now)
    gc.collect()
    tracemalloc.start()
    before = tracemalloc.get_traced_memory()[0]
    for batch in _batches(fleet.nodes):
        diagnoser.diagnose([_copy(node) for node in batch], fleet.now)
    gc.collect()
    kept = tracemalloc.get_traced_memory()[0] - before
    tracemalloc.stop()
    return round(kept / nodes)


def _copy(node: FactSet) -> FactSet:
    return replace(
        node,
        conditions=dict(node.conditions),
        values=dict(node.values),
        taints=dict(node.taints),
        events=tuple(list(node.events)),
    )


class _Meter:
    def __init__(self) -> None:
        self._cpu, self._wall = usage(os.getpid()).cpu, time.perf_counter()

    def passed(self) -> dict[str, float]:
        """Seconds; cpu in steps of 10 ms."""
        cpu, wall = usage(os.getpid()).cpu - self._cpu, time.perf_counter() - self._wall
        return {"cpu": round(max(cpu, 0.01), 2), "wall": round(wall, 2)}


def _batches(nodes: Sequence[FactSet]) -> Iterator[list[FactSet]]:
    for begin in range(0, len(nodes), BATCH):
        yield list(nodes[begin : begin + BATCH])


def _matches(found: Diagnosis) -> bool:
    return any(match.evidence is Truth.TRUE for match in found.matches)


def _leaves(diagnoser: Diagnoser) -> int:
    return len(diagnoser._program.atoms)


def _percentiles(took: list[float]) -> dict[str, int]:
    took.sort()
    return {"p50": round(took[len(took) // 2]), "p99": round(took[len(took) * 99 // 100])}
