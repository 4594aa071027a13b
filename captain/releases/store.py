"""The Releases of the API server: read live, and written only if nobody else has written since."""

from collections.abc import Sequence

from kubenode.api.v1alpha1 import Release
from kubenode.api.v1alpha1.release import ReleaseStatus
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.lists import decoded
from kubenode.runtime.kube.paths import custom

PLURAL = Release.resource.plural


class ApiReleases:
    """Implements `captain.releases.reconciler.ReleaseStore`."""

    def __init__(self, kube: Kube, fence: Fence) -> None:
        self._kube, self._fence = kube, fence

    async def read(self, name: str) -> Release | None:
        try:
            return await self._kube.get(custom(PLURAL, name), Release.from_server)
        except NotFound:
            return None

    async def list_all(self) -> Sequence[Release]:
        listed = decoded(self._kube, custom(PLURAL), Release.from_server)
        return [each async for each in listed]

    async def write_status(self, release: Release, status: ReleaseStatus) -> Release:
        old, new = release.status.to_dict(), status.to_dict()
        keys = [key for key in {**old, **new} if old.get(key) != new.get(key)]
        changes = {key: new.get(key) for key in keys}
        body = {"metadata": _identify(release), "status": changes}
        self._fence.check()
        path = custom(PLURAL, release.metadata.name, "status")
        return await self._kube.patch(path, body, decode=Release.from_server)

    async def write_finalizers(self, release: Release, finalizers: Sequence[str]) -> Release:
        body = {"metadata": {**_identify(release), "finalizers": list(finalizers)}}
        self._fence.check()
        path = custom(PLURAL, release.metadata.name)
        return await self._kube.patch(path, body, decode=Release.from_server)


def _identify(release: Release) -> dict[str, str]:
    """Return the metadata by which the API server refuses a write to another version."""
    metadata = release.metadata
    return {"uid": metadata.uid, "resourceVersion": metadata.resource_version}
