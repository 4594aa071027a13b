"""Machines at the API server: read live, and their status patched over what was read."""

from collections.abc import Mapping
from typing import Any

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube.client import Decode, Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.paths import custom

PLURAL = Machine.resource.plural


class MachineAccess:
    """decode  of the answers to writes: `Informer.read` where there is a cache of Machines"""

    def __init__(self, kube: Kube, decode: Decode[Machine] = Machine.from_server) -> None:
        self._kube, self._decode = kube, decode

    async def read(self, name: str) -> Machine | None:
        try:
            return await self._kube.get(custom(PLURAL, name), Machine.from_server)
        except NotFound:
            return None

    async def write(self, machine: Machine, status: Mapping[str, Any]) -> Machine:
        """Merge `status` into the machine's. Raises Conflict when somebody wrote since it was read,
        NotFound when it is gone."""
        meta = machine.metadata
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": status,
        }
        return await self._kube.patch(
            custom(PLURAL, meta.name, "status"), body, decode=self._decode
        )


def regarding(machine: Machine) -> Mapping[str, str]:
    """The Machine as Events name it."""
    return {
        "kind": machine.kind,
        "api_version": machine.api_version,
        "name": machine.metadata.name,
        "uid": machine.metadata.uid,
    }
