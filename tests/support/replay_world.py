"""Worlds for tests of the simulation: rules in short, and a clock told in seconds."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from kubenode.api.v1alpha1 import NodeRemedier
from simulation.replay.records import JobRecord
from simulation.replay.timeline import entry
from simulation.replay.world import World

REBOOT: list[dict[str, Any]] = [
    {
        "name": "reboot",
        "steps": [{"cordon": {}}, {"migrate": {"timeout": "15m"}}, {"reboot": {}}],
        "verify": {"for": "1m", "timeout": "10m", "settle": "1m"},
    },
    {"name": "replace", "steps": [{"cordon": {}}, {"replace": {}}]},
]


def a_rule(name: str = "sick", **spec: Any) -> NodeRemedier:
    """Evidence by default: condition Sick is True for 30 s. No waiting but that."""
    full = {
        "mode": "Enforce",
        "faultClass": "sick",
        "nodes": {"all": True},
        "when": {"condition": {"type": "Sick", "status": "True", "for": "30s"}},
        "groupWait": "0s",
        "startupGrace": "0s",
        **spec,
    }
    if "infer" in full:
        for field in ("mode", "faultClass"):
            del full[field]
    elif "ladder" not in full:
        full["ladder"] = REBOOT
    return NodeRemedier.from_user({"metadata": {"name": name}, "spec": full})


def a_world(*rules: NodeRemedier, nodes: Sequence[str] = ("a",), **options: Any) -> World:
    world = World(rules or [a_rule()], **options)
    for name in nodes:
        world.add_node(name)
    return world


def at(world: World, seconds: float) -> None:
    """Let time pass until so many seconds after the start."""
    world.run_until(world.start + timedelta(seconds=seconds))


def feed(world: World, seconds: float, node: str | list[str], **signal: Any) -> None:
    world.feed(entry(at=timedelta(seconds=seconds), node=node, **signal))


def sick(world: World, seconds: float, node: str | list[str] = "a", on: bool = True) -> None:
    feed(world, seconds, node, condition={"type": "Sick", "status": str(on)})


def ages(world: World) -> list[tuple[str, str, float]]:
    """Of each job its node, its rule and how many seconds after the start it was made."""
    return [
        (job.node, job.remedier, (job.made - world.start).total_seconds()) for job in world.jobs
    ]


def after(world: World, job: JobRecord) -> dict[str, float]:
    """When each rung ran, in seconds after the start."""
    return {
        rung.name: (rung.ran - world.start).total_seconds()
        for rung in job.rungs
        if rung.ran is not None
    }
