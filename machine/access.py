"""Access to Machines at the API server: live reads and status patches."""

from collections.abc import Mapping
from typing import Any

from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.kube.client import Decode, Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.paths import custom

PLURAL = Machine.resource.plural


class MachineAccess:
    """Access to Machines.

    decode: decodes the responses to writes; `Informer.read` if there is a cache of Machines.
    """

    def __init__(self, kube: Kube, decode: Decode[Machine] = Machine.from_server) -> None:
        self._kube, self._decode = kube, decode

    async def read(self, name: str) -> Machine | None:
        """Return the live Machine, None if there is none."""
        try:
            return await self._kube.get(custom(PLURAL, name), Machine.from_server)
        except NotFound:
            return None

    async def write(self, machine: Machine, status: Mapping[str, Any]) -> Machine:
        """Merge `status` into the Machine's status.

        Raises Conflict if the Machine has changed since it was read, NotFound if it is gone.
        """
        meta = machine.metadata
        body = {
            "metadata": {"uid": meta.uid, "resourceVersion": meta.resource_version},
            "status": status,
        }
        return await self._kube.patch(
            custom(PLURAL, meta.name, "status"), body, decode=self._decode
        )


def regarding(machine: Machine) -> Mapping[str, str]:
    """Return the reference to the Machine for Events."""
    return {
        "kind": machine.kind,
        "api_version": machine.api_version,
        "name": machine.metadata.name,
        "uid": machine.metadata.uid,
    }
