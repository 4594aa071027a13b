"""A ConfigMap as a small store of texts, written only over the version that was read.

RBAC cannot restrict a create by name. So the writer's Role has `create` for all ConfigMaps of the
namespace, and `get` and `patch` for the one name.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import KubeObjectMeta, structs

NAMESPACE = "kubenode-system"


class ConfigMap(msgspec.Struct, gc=False):
    metadata: KubeObjectMeta
    data: dict[str, str] = {}


decode_config_map = structs(ConfigMap)


@dataclass(frozen=True, slots=True)
class StoredTexts:
    """The content of a ConfigMap.

    version: its resourceVersion, "" if the ConfigMap does not exist
    uid: likewise
    """

    data: Mapping[str, str] = field(default_factory=dict)
    version: str = ""
    uid: str = ""


class ConfigMapStore:
    """The ConfigMap `name` in `namespace`. `read` and `write` raise KubeError."""

    def __init__(self, kube: Kube, name: str, namespace: str = NAMESPACE) -> None:
        self._kube = kube
        self.name, self.namespace = name, namespace
        self._collection = paths.resource("/api/v1", "configmaps", namespace=namespace)
        self._path = paths.resource("/api/v1", "configmaps", namespace=namespace, name=name)

    async def read(self) -> StoredTexts:
        """Read the ConfigMap from the API server."""
        try:
            return _texts(await self._kube.get(self._path, decode_config_map))
        except NotFound:
            return StoredTexts()

    async def write(self, data: Mapping[str, str | None], base: StoredTexts) -> StoredTexts:
        """Merge `data` into the ConfigMap and return the result; None removes a key.

        Raises Conflict if it was written since `base` was read (AlreadyExists if it was created).
        """
        meta = {"name": self.name, "namespace": self.namespace}
        if not base.version:
            body = {"apiVersion": "v1", "kind": "ConfigMap", "metadata": meta}
            given = {key: text for key, text in data.items() if text is not None}
            made = await self._kube.create(
                self._collection, {**body, "data": given}, decode_config_map
            )
            return _texts(made)
        version = {"uid": base.uid, "resourceVersion": base.version}
        change = {"metadata": version, "data": dict(data)}
        return _texts(await self._kube.patch(self._path, change, decode=decode_config_map))


def _texts(config_map: ConfigMap) -> StoredTexts:
    meta = config_map.metadata
    return StoredTexts(config_map.data, meta.resource_version, meta.uid)
