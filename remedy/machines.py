"""Finds the Machines of a node by their own spec."""

from contextlib import suppress
from typing import Any

import msgspec

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import BadRequest, NotFound
from kubenode.runtime.kube.paths import custom

MACHINES = custom(Machine.resource.plural)


async def machines_named(kube: Kube, node: str) -> list[Machine]:
    """Return the Machines of the Node called `node`; none if the cluster has no Machines. Raises
    KubeError.

    A Node that was recreated has the same name: compare `status.nodeRef` too.
    """
    try:
        query = {"fieldSelector": f"spec.nodeName={node}"}
        machines = await kube.get(MACHINES, machines_in, query)
    except NotFound:
        return []
    except BadRequest:
        # An old server has no such field selector; most Machines have their node's name.
        machines = []
    with suppress(NotFound):
        machines = [*machines, await kube.get(f"{MACHINES}/{node}", Machine.from_server)]
    return [machine for machine in machines if machine.node_name == node]


def machines_in(raw: bytes) -> list[Machine]:
    """Decode a list of Machines as the API server sends it."""
    items: list[Any] = msgspec.json.decode(raw)["items"]
    return [Machine.from_server(msgspec.json.encode(item)) for item in items]
