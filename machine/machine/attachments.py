"""How many volumes are attached to a node. The API server cannot select attachments by their node,
so all Machines that wait for theirs to be detached share one list.
"""

import msgspec

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.lists import RecentList
from kubenode.runtime.kube.paths import resource

ATTACHMENTS = resource("/apis/storage.k8s.io/v1", "volumeattachments")
RECENT_SECONDS = 5.0


class _AttachmentSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _Attachment(msgspec.Struct, gc=False):
    spec: _AttachmentSpec = msgspec.field(default_factory=_AttachmentSpec)


_decode = msgspec.json.Decoder(_Attachment).decode


class Attachments:
    def __init__(self, kube: Kube) -> None:
        self._recent = RecentList(kube, _decode, RECENT_SECONDS)

    async def count(self, node: str) -> int:
        """0 is read anew: what happens next cannot be undone. An API server that knows no
        attachments has none. Raises KubeError.
        """
        return await self._count(node, anew=False) or await self._count(node, anew=True)

    async def _count(self, node: str, *, anew: bool) -> int:
        try:
            found = await self._recent.get(ATTACHMENTS, anew=anew)
        except NotFound:
            return 0
        return sum(one.spec.node_name == node for one in found)
