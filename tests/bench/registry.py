"""The rule registry and its webhook over a large fleet: how long, and how long the loop stands.

A load of 100 rules over 10,000 nodes and 10,000 closed jobs, from nothing and again; and the
examination of a candidate, as the webhook does it, against the same fleet.

A stall is the longest time between two turns of the event loop, in processor time of the loop's own
thread: on a busy machine wall time would measure the others.
"""

import argparse
import asyncio
import gc
import time
from collections.abc import AsyncIterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import timedelta
from typing import Any

from support.clock import T0, FakeClock
from support.remedy_hand import RULE, Hands
from support.webhook_world import SICK, a_spec, an_infer, an_object

from kubenode.api.v1alpha1 import NodeRemedier
from remedy.webhook.examine import Examiner
from remedy.webhook.webhook import CachedFleet

CONDITIONS = ("Ready", "DiskPressure", "MemoryPressure", "PIDPressure", "KernelDeadlock", "Sick")
SELECTIONS: tuple[dict[str, Any], ...] = (
    {"all": True},
    {"selector": {"matchLabels": {"kubenode.io/pool": "p1"}}},
    {"selector": {"matchLabels": {"kubenode.io/rack": "r2"}}},
    {"selector": {"matchLabels": {"kubernetes.io/hostname": "n5"}}},
    {"all": True, "exclude": {"matchLabels": {"topology.kubernetes.io/zone": "z1"}}},
)
EARLIER = (T0 - timedelta(hours=1)).isoformat()


def options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--registry-nodes", type=int, default=10_000, metavar="N")


def figures(chosen: argparse.Namespace) -> dict[str, Any]:
    return asyncio.run(_figures(chosen.registry_nodes))


@dataclass
class Watched:
    """Seconds of wall time, and the longest stall."""

    seconds: float = 0.0
    stall: float = 0.0

    def to_dict(self) -> dict[str, float]:
        return {"seconds": round(self.seconds, 3), "stall_ms": round(self.stall * 1000, 1)}


@asynccontextmanager
async def watched() -> AsyncIterator[Watched]:
    found = Watched()

    async def turns() -> None:
        while True:
            before = time.thread_time()
            await asyncio.sleep(0.001)
            found.stall = max(found.stall, time.thread_time() - before)

    async with asyncio.TaskGroup() as tasks:
        watcher = tasks.create_task(turns())
        await asyncio.sleep(0.01)
        began = time.perf_counter()
        yield found
        found.seconds = time.perf_counter() - began
        await asyncio.sleep(0.01)
        watcher.cancel()


async def _figures(nodes: int) -> dict[str, Any]:
    hands = a_fleet(nodes)
    gc.collect()
    gc.freeze()
    found: dict[str, Any] = {"nodes": nodes, "rules": 100, "jobs": nodes}
    for name in ("first_load", "second_load"):
        async with watched() as load:
            await hands.operator.rules.reload()
        found[name] = load.to_dict()
    threads = ThreadPoolExecutor(2)
    rules = list(hands.remediers.cache.values())
    examiner = Examiner(lambda: rules, CachedFleet(hands.operator), FakeClock(), threads)
    for name, spec in CANDIDATES.items():
        rule = NodeRemedier.model_validate(an_object("candidate", spec))
        async with watched() as examination:
            seen = await examiner.examine(rule, 60.0)
        assert seen.nodes == nodes and seen.counts["candidate"].matching == nodes // 4
        found[name] = examination.to_dict()
    threads.shutdown()
    gc.unfreeze()
    return found


CANDIDATES = {
    "examine_plain": a_spec(),
    "examine_chained": a_spec(
        when={"any": [SICK, {"fact": {"name": "bench.f5"}}]},
        unless={"fact": {"name": "zone.unhealthyRatio", "above": 0.4}},
    ),
    "examine_fact": an_infer("bench.f5"),
}


def a_fleet(nodes: int) -> Hands:
    """Every fourth node is sick; every tenth rule infers a fact that those after it read."""
    hands = Hands()
    for n in range(nodes):
        hands.nodes.put(_node(n))
    for n in range(100):
        hands.remediers.put(_rule(n))
    spec = hands.remediers.cache["rule1"].to_dict()["spec"]
    for n in range(nodes):
        hands.jobs.put(_job(n, nodes, spec))
    return hands


def _node(n: int) -> dict[str, Any]:
    labels = {
        "topology.kubernetes.io/zone": f"z{n % 3}",
        "kubenode.io/rack": f"r{n // 20}",
        "kubenode.io/pool": f"p{n % 5}",
        "kubernetes.io/hostname": f"n{n}",
    }
    conditions = [
        {
            "type": type_,
            "status": "True" if type_ == "Ready" or (type_ == "Sick" and n % 4 == 0) else "False",
            "lastHeartbeatTime": T0.isoformat(),
            "lastTransitionTime": EARLIER,
        }
        for type_ in CONDITIONS
    ]
    metadata = {"name": f"n{n}", "uid": f"u{n}", "creationTimestamp": EARLIER, "labels": labels}
    return {
        "metadata": metadata,
        "status": {"conditions": conditions, "nodeInfo": {"bootID": "b"}},
    }


def _rule(n: int) -> dict[str, Any]:
    leaf = {"condition": {"type": f"Fault{n}", "for": "30s"}}
    spec: dict[str, Any] = {**RULE, "nodes": SELECTIONS[n % 5]}
    if n % 10 == 5:
        spec |= {"when": leaf, "infer": {"fact": f"bench.f{n}"}}
        del spec["ladder"]
    else:
        spec |= {"when": {"any": [leaf, {"fact": {"name": f"bench.f{n // 10 * 10 + 5}"}}]}}
    return {"metadata": {"name": f"rule{n}", "uid": f"uid{n}", "generation": 1}, "spec": spec}


def _job(n: int, nodes: int, rule: dict[str, Any]) -> dict[str, Any]:
    metadata = {"name": f"j{n}", "uid": f"j{n}", "creationTimestamp": EARLIER}
    return {
        "metadata": {**metadata, "resourceVersion": "1", "generation": 1},
        "spec": {
            "nodeName": f"n{n % nodes}",
            "nodeUID": f"u{n % nodes}",
            "agent": "a",
            "remedier": {"name": "rule1", "uid": "uid1", "generation": 1},
            "trigger": {"firstTrue": EARLIER, "facts": [], "explanation": ""},
            "mode": "Enforce",
            "severity": "Warning",
            "faultClass": "bench",
            "ladder": rule["ladder"],
            "when": rule["when"],
        },
        "status": {"phase": "Succeeded", "timeline": {"closed": EARLIER}},
    }
