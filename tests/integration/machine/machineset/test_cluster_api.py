"""Adoption of Cluster API's Machines, as the operator does it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from support.machine_world import MACHINES, until

from kubenode.api.crd import definition
from kubenode.api.v1alpha1 import KINDS, Machine
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.paths import namespaces
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import serve
from machine.clusterapi.adoption import Adoption
from machine.clusterapi.step import ADOPT
from machine.ground import SharedCaches
from simulation.apiserver import EmbeddedApiServer

pytestmark = pytest.mark.integration

THEIRS = "/apis/cluster.x-k8s.io/v1beta2/namespaces/fleet/machines"
FREE = {"type": "object", "x-kubernetes-preserve-unknown-fields": True}
CRD: dict[str, Any] = {
    "apiVersion": "apiextensions.k8s.io/v1",
    "kind": "CustomResourceDefinition",
    "metadata": {"name": "machines.cluster.x-k8s.io"},
    "spec": {
        "group": "cluster.x-k8s.io",
        "scope": "Namespaced",
        "names": {"plural": "machines", "singular": "machine", "kind": "Machine"},
        "versions": [
            {
                "name": "v1beta2",
                "served": True,
                "storage": True,
                "schema": {"openAPIV3Schema": FREE},
            }
        ],
    },
}


async def names(kube: Kube) -> set[str]:
    return {item["metadata"]["name"] for item in (await kube.get(MACHINES))["items"]}


@asynccontextmanager
async def adopting(kube: Kube) -> AsyncIterator[None]:
    """Adoption as the operator runs it, until the end of the block."""
    ground = SharedCaches(kube, AlwaysLeader(), SystemClock(), CollectorRegistry())
    async with asyncio.TaskGroup() as tasks:
        work = tasks.create_task(serve([Adoption(ground)], [*ground.informers]))
        yield
        work.cancel()


async def becomes(kube: Kube, wanted: set[str]) -> None:
    async def so() -> bool:
        return await names(kube) == wanted

    async with adopting(kube):
        await until(so, f"Machines are not {wanted}")


async def test_machines_are_adopted_by_their_label_and_released_with_theirs() -> None:
    crds = [*(definition(kind) for kind in KINDS), CRD]
    async with EmbeddedApiServer(crds=crds) as server:
        kube = Kube(PlainTransport(server.url))
        try:
            await kube.create(namespaces(), {"metadata": {"name": "fleet"}})
            for name, label in (("a", "true"), ("b", "false"), ("c", "true")):
                await kube.create(THEIRS, one_of_theirs(name, label))
            await becomes(kube, {"a", "c"})
            made = await kube.get(f"{MACHINES}/a", Machine.from_server)
            assert (made.spec.origin, made.spec.addresses) == ("Import", ["10.0.0.7"])
            await kube.delete(f"{THEIRS}/a")
            await becomes(kube, {"c"})
        finally:
            await kube.close()


def one_of_theirs(name: str, label: str) -> dict[str, Any]:
    status = {"nodeRef": {"name": name}, "addresses": [{"address": "10.0.0.7"}]}
    meta = {"name": name, "labels": {ADOPT: label}}
    kind = {"apiVersion": "cluster.x-k8s.io/v1beta2", "kind": "Machine"}
    return {**kind, "metadata": meta, "status": status}
