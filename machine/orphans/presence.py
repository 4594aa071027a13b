"""Presence of an instance in the cluster: a Node that may belong to it, under whatever name.

A match of providerID, instance ID, address or name suffices. A Node that may belong to the instance
counts as its Node, because the wrong guess would end a machine in service.
"""

import re
from collections.abc import Iterable

import msgspec

from kubenode.providers.instances import MACHINE_TAG, Instance
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.objects import Node, structs

PAGE = 500
"""Nodes in one page of the list."""


class _ListMeta(msgspec.Struct):
    more: str = msgspec.field(default="", name="continue")


class _NodeList(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[Node] = []


_nodes = structs(_NodeList)


async def live_nodes(kube: Kube) -> list[Node]:
    """Return all Nodes from the API server. Raises KubeError if a page fails."""
    nodes: list[Node] = []
    more: str | None = None
    while True:
        page = await kube.get(paths.nodes(), _nodes, {"limit": PAGE, "continue": more})
        nodes += page.items
        more = page.metadata.more
        if not more:
            return nodes


class Presence:
    """Index of Nodes by everything that may identify an instance."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by: dict[str, str] = {}
        for node in nodes:
            for sign in _signs_of_node(node):
                self._by.setdefault(sign, node.metadata.name)

    def of(self, instance: Instance) -> str:
        """Return a sentence about the Node that may belong to the instance, "" for none."""
        for sign in _signs_of_instance(instance):
            if node := self._by.get(sign):
                return f"Node {node} has its {sign.partition(' ')[0]}"
        return ""


def _signs_of_node(node: Node) -> Iterable[str]:
    name, provider_id = node.metadata.name, node.spec.provider_id
    yield f"name {name}"
    yield f"ID {name}"
    if provider_id:
        yield f"providerID {provider_id}"
        yield f"ID {instance_id(provider_id)}"
    for address in node.status.addresses:
        yield f"address {address.address}"


def _signs_of_instance(instance: Instance) -> Iterable[str]:
    yield f"providerID {instance.provider_id}"
    yield f"ID {instance_id(instance.provider_id)}"
    for address in instance.addresses:
        yield f"address {address}"
    if name := instance.tags.get(MACHINE_TAG, ""):
        yield f"name {name}"
        yield f"address {name}"


def instance_id(provider_id: str) -> str:
    """Return the provider's own ID of the instance, which is the last part of the provider ID.

    Example: `i-0123` for `aws:///z/i-0123` and for `region.i-0123`.
    """
    last = provider_id.rpartition("/")[2]
    match = re.search(r"(?:^|\.)(i-[0-9a-z]+)$", last)
    return match[1] if match else last
