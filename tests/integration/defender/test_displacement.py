"""Displaced pods on a server: recorded with the permit, counted while they are pending."""

from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from support.command import kubenode
from support.defender_objects import node_object, permit_object
from support.embedded import EmbeddedPlane
from support.running import running, until

from defender.decision.control import RiskControl
from defender.decision.ledger import load_permit
from defender.server.displacement import Displacing, Recording
from kubenode.api.v1alpha1 import Permit
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.fence import AlwaysLeader
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect
from kubenode.runtime.process import serve

pytestmark = [pytest.mark.integration, pytest.mark.timeout(120)]
PERMIT = paths.custom(Permit.resource.plural, "p1")


async def a_controller(kube: Kube, name: str) -> dict[str, Any]:
    """Any object will do; the server deletes pods whose owner is not there."""
    made = await kube.create("/api/v1/namespaces/default/configmaps", {"metadata": {"name": name}})
    uid = made["metadata"]["uid"]
    return {"apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": True}


async def a_pod(kube: Kube, name: str, owner: dict[str, Any], node: str = "") -> None:
    """Running on `node`, pending without one."""
    pod = {
        "metadata": {"name": name, "ownerReferences": [owner]},
        "spec": {"containers": [{"name": "c", "image": "i"}]}
        | ({"nodeName": node} if node else {}),
    }
    await kube.create(paths.pods("default"), pod)
    phase = "Running" if node else "Pending"
    await kube.patch(paths.pod("default", name, "status"), {"status": {"phase": phase}})


@pytest.fixture
def plane() -> Iterator[EmbeddedPlane]:
    with EmbeddedPlane() as plane:
        assert kubenode("install", "--kubeconfig", plane.kubeconfig).returncode == 0
        permit = permit_object("p1", "n1", SystemClock().now() - timedelta(seconds=1))
        plane.api.load([node_object("n1"), node_object("n2"), permit])
        yield plane


async def test_what_a_permit_displaces_is_recorded_and_counts_while_it_is_pending(
    plane: EmbeddedPlane,
) -> None:
    clock, control = SystemClock(), RiskControl()
    kube = Kube(connect(str(plane.kubeconfig)))
    web, db = await a_controller(kube, "web"), await a_controller(kube, "db")
    for name, owner, node in (("web-0", web, "n1"), ("web-1", web, "n1"), ("db-0", db, "n2")):
        await a_pod(kube, name, owner, node)
    displacing = Displacing(kube, clock, control)
    recording = Recording(kube, clock, AlwaysLeader(), control)
    control.ledger.enter(load_permit(await kube.get(PERMIT, Permit.from_server), 900))
    held, uid = control.ledger.open()[0], web["uid"]
    try:
        async with running(serve([recording], displacing.parts)):
            await until(lambda: held.displaced == {uid: 2}, what="recorded")
            written = await kube.get(PERMIT, Permit.from_server)
            assert load_permit(written, 900).displaced == {uid: 2}  # so a restart knows it too
            await until(lambda: control.displaced == 0, what="nothing of it is pending")
            for number in range(3):
                await a_pod(kube, f"new-{number}", web)
                await a_pod(kube, f"other-{number}", db)
            await until(lambda: control.displaced == 2, what="two of three were displaced by us")
    finally:
        await kube.close()
