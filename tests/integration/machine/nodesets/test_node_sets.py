"""NodeSets and Nodes with a NodeClass on a real API server, under the operator's own rights."""

from collections.abc import AsyncIterator, Awaitable
from pathlib import Path
from typing import Any

import pytest
from support.control_plane import ControlPlane
from support.machine_sets import Site, site
from support.machine_world import OPERATOR, OPERATOR_GROUPS, until

from kubenode.api.v1alpha1.permit import Operation, Reason
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.official import connect
from machine.ground import MachineSettings
from machine.meltdown import MeltdownTimes
from machine.names import NODE_CLASS, NODE_SET
from machine.nodesets.step import FINALIZER

pytestmark = pytest.mark.integration

SETTINGS = MachineSettings(freeze=MeltdownTimes(thaw=0.5), scan=0.3)
SECONDS = 180.0


@pytest.fixture
async def here(cluster: ControlPlane, tmp_path: Path) -> AsyncIterator[Site]:
    async with site(cluster, tmp_path, SETTINGS) as found:
        yield found


def a_node_class(name: str, **spec: Any) -> dict[str, Any]:
    fixed = {"nodeController": "local", "config": {"image": "debian"}, "nodeLabels": {"pool": name}}
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeClass",
        "metadata": {"name": name},
        "spec": {**fixed, **spec},
    }


def a_node_set(name: str, node_class: str, replicas: int) -> dict[str, Any]:
    return {
        "apiVersion": "kubenode.io/v1alpha1",
        "kind": "NodeSet",
        "metadata": {"name": name},
        "spec": {"nodeClass": node_class, "replicas": replicas},
    }


async def status_of(here: Site, plural: str, name: str) -> dict[str, Any]:
    found: dict[str, Any] = await here.kube.get(paths.custom(plural, name))
    return found.get("status") or {}


async def is_running(here: Site, name: str, count: int) -> bool:
    status = await status_of(here, "nodesets", name)
    ready = [c["status"] for c in status.get("conditions", ()) if c["type"] == "Ready"]
    counts = status.get("replicas"), status.get("runningReplicas")
    return counts == (count, count) and ready == ["True"]


async def nodes_of(here: Site, label: str) -> dict[str, dict[str, Any]]:
    found = await here.kube.get(paths.nodes(), query={"labelSelector": label})
    return {node["metadata"]["name"]: node["metadata"] for node in found["items"]}


async def is_gone(here: Site, path: str) -> bool:
    try:
        await here.kube.get(path)
    except NotFound:
        return True
    return False


async def is_refused(write: Awaitable[Any], message: str) -> bool:
    """Return whether a policy refuses the write. The API server takes a while to know a policy."""
    try:
        await write
    except Forbidden as error:
        return message in str(error)
    return False


async def create_node(here: Site, name: str, node_class: str) -> None:
    metadata = {"name": name, "labels": {NODE_CLASS: node_class}}
    await here.kube.create(
        paths.nodes(), {"apiVersion": "v1", "kind": "Node", "metadata": metadata}
    )


async def test_a_node_set_runs_scales_and_replaces_a_deleted_node(here: Site) -> None:
    kubectl = here.world.cp.kubectl
    await here.make(a_node_class("tiny"))
    await here.make(a_node_set("web", "tiny", 2))
    await until(lambda: is_running(here, "web", 2), "two do not run", SECONDS)
    conditions = (await status_of(here, "nodeclasses", "tiny"))["conditions"]
    assert [(c["type"], c["status"]) for c in conditions] == [("Ready", "True")]

    async def guarded() -> bool:
        found = await nodes_of(here, f"{NODE_SET}=web,{NODE_CLASS}=tiny,pool=tiny")
        with_finalizer = [n for n, meta in found.items() if FINALIZER in meta.get("finalizers", ())]
        return len(with_finalizer) == 2

    await until(guarded, "a Node has no finalizer or labels", SECONDS)
    deleted = min(await nodes_of(here, f"{NODE_SET}=web"))
    kubectl("delete", "node", deleted, "--wait=false")
    await until(lambda: is_gone(here, paths.node(deleted)), "the Node stays", SECONDS)
    machine = paths.custom("machines", deleted)
    await until(lambda: is_gone(here, machine), "the Machine stays", SECONDS)
    await until(lambda: is_running(here, "web", 2), "no other Node comes", SECONDS)
    assert deleted not in await nodes_of(here, f"{NODE_SET}=web")
    asked = {(ask.operation, ask.holder.name) for ask in here.permits.asked}
    assert asked == {(Operation.DELETE, deleted)}

    kubectl("scale", "nodesets/web", "--replicas=1")
    await until(lambda: is_running(here, "web", 1), "one does not stay", SECONDS)
    assert len(here.cloud.instances) == 1
    assert here.permits.asked[-1].operation is Operation.SCALE_IN
    assert (await status_of(here, "nodesets", "web"))["selector"] == f"{NODE_SET}=web"
    kubectl("scale", "nodesets/web", "--replicas=0")
    await until(lambda: is_running(here, "web", 0), "one stays", SECONDS)


async def test_a_node_created_by_hand_gets_its_machine_and_loses_it_when_allowed(
    here: Site,
) -> None:
    await here.make(a_node_class("manual"))
    await create_node(here, "by-hand", "manual")

    async def runs() -> bool:
        try:
            machine = await here.world.machine("by-hand")
        except NotFound:
            return False
        return machine.status.phase == "Running"

    await until(runs, "the Node gets no running machine", SECONDS)
    machine = await here.world.machine("by-hand")
    assert (machine.spec.class_ref, machine.node_name) == ("manual", "by-hand")
    assert list(await nodes_of(here, "pool=manual")) == ["by-hand"]
    here.permits.no = Reason.CONCURRENCY_LIMIT
    here.world.cp.kubectl("delete", "node", "by-hand", "--wait=false")

    async def asked() -> bool:
        return any(ask.holder.name == "by-hand" for ask in here.permits.asked)

    await until(asked, "Kube Defender is not asked", SECONDS)
    machine = await here.world.machine("by-hand")
    assert machine.metadata.deletion_timestamp is None and here.cloud.instances
    here.permits.no = None
    await until(lambda: is_gone(here, paths.node("by-hand")), "the Node stays", SECONDS)
    assert not here.cloud.instances
    assert {ask.operation for ask in here.permits.asked} == {Operation.DELETE}


async def test_a_set_whose_name_is_taken_says_so_and_changes_nothing(here: Site) -> None:
    await here.make(a_node_class("ecs-a"))

    async def refused() -> bool:
        conditions = (await status_of(here, "nodeclasses", "ecs-a")).get("conditions", ())
        return any((c["type"], c.get("reason")) == ("Stalled", "NameTaken") for c in conditions)

    await until(refused, "it does not say NameTaken", SECONDS)
    class_ = await here.kube.get(paths.custom("machineclasses", "ecs-a"))
    assert "ownerReferences" not in class_["metadata"]


async def test_a_kubelet_cannot_order_a_machine(here: Site) -> None:
    label, refusal = {NODE_CLASS: "manual"}, "neither label nor finalizer"
    node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "sly"}}
    ordered = {**node, "metadata": {"name": "sly", "labels": label}}
    kubelet = here.world.node("sly")

    async def create_is_refused() -> bool:
        if await is_refused(kubelet.create(paths.nodes(), ordered), refusal):
            return True
        await here.kube.delete(paths.node("sly"))
        return False

    try:
        await until(create_is_refused, "a kubelet creates a Node with the label", SECONDS)
        await kubelet.create(paths.nodes(), node)
        patch = {"metadata": {"labels": label}}
        assert await is_refused(kubelet.patch(paths.node("sly"), patch), refusal)
    finally:
        await kubelet.close()
        here.world.cp.kubectl("delete", "node", "sly", "--ignore-not-found")


async def test_the_operator_writes_no_set_of_somebody_else(here: Site) -> None:
    cluster = here.world.cp
    operator = Kube(connect(str(cluster.kubeconfig_for(OPERATOR, OPERATOR_GROUPS))))
    try:
        path, change = paths.custom("machineclasses", "ecs-a"), {"spec": {"failureDomain": "z"}}
        refusal = "of a NodeSet or NodeClass"
        await until(lambda: is_refused(operator.patch(path, change), refusal), "allowed", SECONDS)
    finally:
        await operator.close()
