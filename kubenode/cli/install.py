"""`kubenode install`: creates or updates our namespaces and custom resource definitions."""

from typing import Any

import typer

from kubenode.cli.cluster import connected, crds
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Conflict

NAMESPACES = ("kubenode-system", "kubenode-agents")
"""Namespaces of our Leases: those of leaders, and those of agents."""
ESTABLISHED_SECONDS = 30.0


async def install(kubeconfig: str | None, context: str | None) -> None:
    async with connected(kubeconfig, context) as kube:
        for name in NAMESPACES:
            typer.echo(f"namespace {name} {await ensure_namespace(kube, name)}")
        for name, what in await apply_crds(kube):
            typer.echo(f"customresourcedefinition {name} {what}")
        await established(kube, kube.clock)


async def ensure_namespace(kube: Kube, name: str) -> str:
    body = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name}}
    try:
        await kube.create(paths.namespaces(), body)
    except AlreadyExists:
        return "unchanged"
    return "created"


async def apply_crds(kube: Kube) -> list[tuple[str, str]]:
    """Create or update every CRD.

    Return (name, `created` | `updated` | `unchanged` | `busy: ...`).
    """
    return [await _apply(kube, wanted) for wanted in crds()]


async def _apply(kube: Kube, wanted: dict[str, Any]) -> tuple[str, str]:
    name = wanted["metadata"]["name"]
    try:
        await kube.create(paths.custom_resource_definitions(), wanted)
        return name, "created"
    except AlreadyExists:
        pass
    path = paths.custom_resource_definition(name)
    for _ in range(5):
        live = await kube.get(path)
        before = live["metadata"]["resourceVersion"]
        live["spec"] = wanted["spec"]
        live["metadata"].setdefault("annotations", {}).update(
            wanted["metadata"].get("annotations", {})
        )
        try:
            after = await kube.replace(path, live)
        except Conflict:
            continue
        return name, "unchanged" if after["metadata"]["resourceVersion"] == before else "updated"
    return name, "busy: somebody else writes it"


async def established(kube: Kube, clock: Clock) -> None:
    """Wait until the server serves every kind, at most ESTABLISHED_SECONDS."""
    deadline = clock.monotonic() + ESTABLISHED_SECONDS
    for name in (crd["metadata"]["name"] for crd in crds()):
        while clock.monotonic() < deadline:
            live = await kube.get(paths.custom_resource_definition(name))
            conditions = (live.get("status") or {}).get("conditions") or ()
            if any(c["type"] == "Established" and c["status"] == "True" for c in conditions):
                break
            await clock.sleep(0.2)
