"""Validity of a permit of Kube Defender, read from the API server by its name."""

from datetime import datetime
from typing import Protocol

import msgspec

from kubenode.runtime.disruption.request import UNNEEDED, ActRequest
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import KubeObjectMeta, structs
from kubenode.runtime.kube.paths import custom

CLASSES = ("None", "Host", "Pods", "Node")
"""Disruption classes by weight, mildest first."""
GRANTED = frozenset({"Granted", "Overdue"})
"""States of a valid permit. The holder of an overdue one is late to renew it; it still counts
against every limit.
"""


class PermitHolder(msgspec.Struct, gc=False):
    kind: str = ""
    name: str = ""
    uid: str = ""


class LivePermitSpec(msgspec.Struct, rename="camel", gc=False):
    class_: str = msgspec.field(default="", name="class")
    node_name: str = ""
    holder: PermitHolder = msgspec.field(default_factory=PermitHolder)


class LivePermitStatus(msgspec.Struct, rename="camel", gc=False):
    state: str = ""
    expires_at: datetime | None = None


class LivePermit(msgspec.Struct, gc=False):
    """The fields of a Permit that decide whether an act may use it."""

    metadata: KubeObjectMeta
    spec: LivePermitSpec = msgspec.field(default_factory=LivePermitSpec)
    status: LivePermitStatus = msgspec.field(default_factory=LivePermitStatus)


_decode = structs(LivePermit)


class PermitReader(Protocol):
    async def read(self, name: str) -> LivePermit | None:
        """Return the Permit as it is now, None if there is none. Raises KubeError."""
        ...


class ApiPermits:
    """Reads permits from the API server. Needs the right to `get` permits."""

    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def read(self, name: str) -> LivePermit | None:
        try:
            return await self._kube.get(custom("permits", name), _decode)
        except NotFound:
            return None


def invalid(request: ActRequest, permit: LivePermit | None) -> str:
    """Return why the act may not use this permit, "" if it may. Pure."""
    name = request.permit
    if not name:
        return "no permit of Kube Defender is held"
    if name == UNNEEDED:
        return f"node {request.node} needs a permit of Kube Defender" if request.node else ""
    if permit is None:
        return f"there is no permit {name}"
    spec, state = permit.spec, permit.status.state
    if state not in GRANTED or permit.metadata.deletion_timestamp is not None:
        return f"permit {name} is not held any more"
    if spec.node_name != request.node:
        return f"permit {name} is for node {spec.node_name}, not for {request.node}"
    if request.holder_uid and spec.holder.uid != request.holder_uid:
        return f"permit {name} is {spec.holder.kind} {spec.holder.name}'s"
    if _weight(spec.class_) < _weight(request.class_):
        return f"permit {name} is for class {spec.class_}, and {request.class_} is needed"
    return ""


def _weight(class_: str) -> int:
    return CLASSES.index(class_) if class_ in CLASSES else 0
