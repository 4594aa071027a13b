"""Whether something of an instance is in the cluster: its Node, under whatever name.

Any one of providerID, instance ID, address and name is enough: a Node that might be the instance's
is taken for it, as the wrong guess here ends a machine that serves.
"""

import re
from collections.abc import Iterable

import msgspec

from kubenode.providers.instances import MACHINE_TAG, Instance
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.objects import Node, structs

PAGE = 500


class _ListMeta(msgspec.Struct):
    more: str = msgspec.field(default="", name="continue")


class _NodeList(msgspec.Struct):
    metadata: _ListMeta = msgspec.field(default_factory=_ListMeta)
    items: list[Node] = []


_nodes = structs(_NodeList)


async def live_nodes(kube: Kube) -> list[Node]:
    """All Nodes as the API server itself lists them. All of them, or KubeError."""
    found: list[Node] = []
    more: str | None = None
    while True:
        page = await kube.get(paths.nodes(), _nodes, {"limit": PAGE, "continue": more})
        found += page.items
        more = page.metadata.more
        if not more:
            return found


class Presence:
    """Nodes by all that an instance could be known by, each read from the API server itself."""

    def __init__(self, nodes: Iterable[Node]) -> None:
        self._by: dict[str, str] = {}
        for node in nodes:
            for sign in _signs_of_node(node):
                self._by.setdefault(sign, node.metadata.name)

    def of(self, instance: Instance) -> str:
        """The Node that may be the instance's, as a sentence; "" for none."""
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
    """The provider's own name for it: the last part of the ID, as `i-0123` of `aws:///z/i-0123` and
    of `region.i-0123`.
    """
    last = provider_id.rpartition("/")[2]
    found = re.search(r"(?:^|\.)(i-[0-9a-z]+)$", last)
    return found[1] if found else last
