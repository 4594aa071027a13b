"""Number of volumes attached to a node.

The API server cannot select VolumeAttachments by node, so all Machines share one recent list.
"""

import msgspec

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.lists import RecentList
from kubenode.runtime.kube.paths import resource

ATTACHMENTS = resource("/apis/storage.k8s.io/v1", "volumeattachments")
RECENT_SECONDS = 5.0
"""Seconds for which the list is reused."""


class _AttachmentSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""


class _Attachment(msgspec.Struct, gc=False):
    spec: _AttachmentSpec = msgspec.field(default_factory=_AttachmentSpec)


_decode = msgspec.json.Decoder(_Attachment).decode


class Attachments:
    """Counter of attached volumes."""

    def __init__(self, kube: Kube) -> None:
        self._recent = RecentList(kube, _decode, RECENT_SECONDS)

    async def count(self, node: str) -> int:
        """Return the number of volumes attached to the node.

        A count of 0 is confirmed by a new list, because the next act is irreversible. An API server
        without VolumeAttachments counts as 0. Raises KubeError.
        """
        return await self._count(node, anew=False) or await self._count(node, anew=True)

    async def _count(self, node: str, *, anew: bool) -> int:
        try:
            attachments = await self._recent.get(ATTACHMENTS, anew=anew)
        except NotFound:
            return 0
        return sum(attachment.spec.node_name == node for attachment in attachments)
