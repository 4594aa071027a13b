"""Pods that have data on a volume that exists on their node alone."""

from collections.abc import Iterable

import msgspec

from kubenode.api.v1alpha1.steps import MigrateStep, PodVolume
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.objects import Pod

MOST_KNOWN = 4096


class _VolumeName(msgspec.Struct, rename="camel"):
    volume_name: str = ""


class _Claim(msgspec.Struct):
    spec: _VolumeName = msgspec.field(default_factory=_VolumeName)


class _VolumeSpec(msgspec.Struct, rename="camel"):
    local: msgspec.Raw | None = None
    host_path: msgspec.Raw | None = None


class _Volume(msgspec.Struct):
    spec: _VolumeSpec = msgspec.field(default_factory=_VolumeSpec)


class LocalVolumes:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube
        self._local: dict[str, bool] = {}

    async def of(self, pods: Iterable[Pod], step: MigrateStep) -> frozenset[str]:
        """Return the keys of pods with such a volume, none unless a policy selects by them."""
        if not any(PodVolume.LOCAL in policy.volumes for policy in step.pod_policies):
            return frozenset()
        keys = set()
        for pod in pods:
            for volume in pod.spec.volumes:
                claim = (volume.claim or {}).get("claimName", "")
                if claim and await self._is_local(pod.metadata.namespace, str(claim)):
                    keys.add(pod.metadata.key)
        return frozenset(keys)

    async def _is_local(self, namespace: str, claim: str) -> bool:
        key = f"{namespace}/{claim}"
        if key not in self._local:
            while len(self._local) >= MOST_KNOWN:
                del self._local[next(iter(self._local))]
            self._local[key] = await self._read(namespace, claim)
        return self._local[key]

    async def _read(self, namespace: str, claim: str) -> bool:
        decode_claim = msgspec.json.Decoder(_Claim).decode
        decode_volume = msgspec.json.Decoder(_Volume).decode
        try:
            bound = await self._kube.get(
                paths.persistent_volume_claim(namespace, claim), decode_claim
            )
            if not bound.spec.volume_name:
                return False
            volume = await self._kube.get(
                paths.persistent_volume(bound.spec.volume_name), decode_volume
            )
        except NotFound:
            return False
        return volume.spec.local is not None or volume.spec.host_path is not None
