"""Remove cordons whose holder is gone.

A set that is deleted in the middle of a batch must leave no node cordoned (failure mode F34). A
holder that exists removes its own marks.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import msgspec

from kubenode.api.v1alpha1 import Machine, MachineComponentSet, MachineSet
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.controller.result import DONE, Result
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, structs
from kubenode.runtime.kube.paths import custom
from machine.disruption.nodes import cordoned
from machine.disruption.port import DisruptionService
from machine.disruption.step import SOON
from machine.ground import SharedCaches

BY_HOLDER = "holder"
"""Index of Nodes by the uid of a holder in their cordon marks."""
KINDS = {kind.resource.kind: kind for kind in (Machine, MachineSet, MachineComponentSet)}


class _Object(msgspec.Struct):
    metadata: KubeObjectMeta


_object = structs(_Object)


def holders(node: Node) -> Sequence[Holder]:
    """Return the holders in the node's cordon marks. Jobs are none: the Remedy operator's."""
    return cordoned(node).holders


class Sweeper:
    """Controller that ends the disruptions of holders that no longer exist."""

    def __init__(self, ground: SharedCaches, disruptions: DisruptionService) -> None:
        self._kube: Kube = ground.kube
        self._nodes, self._disruptions = ground.nodes, disruptions
        self._known: Mapping[str, Informer[Any]] = {
            Machine.resource.kind: ground.machines,
            MachineSet.resource.kind: ground.machine_sets,
            MachineComponentSet.resource.kind: ground.component_sets,
        }
        self._nodes.add_index(BY_HOLDER, lambda node: [h.uid for h in holders(node)])
        self.controller = ground.controller("cordons", self.reconcile)
        self.controller.watch(self._nodes, _marked)
        for informer in self._known.values():
            self.controller.watch(informer, self._list_marked)

    async def reconcile(self, name: str) -> Result:
        node = self._nodes.get(name)
        if node is None:
            return DONE
        waits = False
        for holder in holders(node):
            if not await self._lives(holder):
                waits |= not await self._disruptions.end(name, holder)
        return Result(SOON) if waits else DONE

    async def _lives(self, holder: Holder) -> bool:
        """Return whether the holder exists, by a live read if the cache lacks it. An unknown kind
        does.
        """
        informer = self._known.get(holder.kind)
        if informer is None:
            return True
        cached = informer.get(holder.name)
        if cached is not None and cached.metadata.uid == holder.uid:
            return True
        path = custom(KINDS[holder.kind].resource.plural, holder.name)
        try:
            live = await self._kube.get(path, _object)
        except NotFound:
            return False
        return live.metadata.uid == holder.uid

    def _list_marked(self, key: str, old: Any, new: Any) -> Iterable[str]:
        """Return the nodes that a deleted holder has marked."""
        if old is None or (new is not None and new.metadata.uid == old.metadata.uid):
            return ()
        return [node.metadata.name for node in self._nodes.by(BY_HOLDER, old.metadata.uid)]


def _marked(key: str, old: Node | None, new: Node | None) -> Iterable[str]:
    return (key,) if new is not None and holders(new) else ()
