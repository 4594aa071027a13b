"""Access to the API server for Machines, sets, referenced ConfigMaps and Secrets, and its
version.
"""

from base64 import b64decode
from collections.abc import Iterable, Mapping, Sequence
from functools import cmp_to_key
from typing import Any

import msgspec

from kubenode.api.v1alpha1 import Machine, MachineComponentSet
from kubenode.api.v1alpha1.machinework import AssignedComponent, MachinePermit
from kubenode.runtime.clock import Clock
from kubenode.runtime.components.render import KeyText, TextRef
from kubenode.runtime.components.versions import compare
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.client import Decode, Kube
from kubenode.runtime.kube.errors import NotFound
from kubenode.runtime.kube.paths import custom, resource
from machine.componentset.skew import ServerVersions

NAMESPACE = "kubenode-components"
"""Namespace of the ConfigMaps and Secrets to which components refer."""
FRESH_SECONDS = 60.0
"""Seconds for which referenced objects and the server version are cached."""
MACHINES, SETS = Machine.resource.plural, MachineComponentSet.resource.plural


class SetAccess:
    """Writes to Machines and MachineComponentSets.

    Each write carries the resourceVersion that was read, so it fails with Conflict if the object
    has changed since, and each is fenced.

    decode: decodes the responses to writes of Machines.
    """

    def __init__(
        self, kube: Kube, fence: Fence, decode: Decode[Machine] = Machine.from_server
    ) -> None:
        self._kube, self._fence, self._decode = kube, fence, decode

    async def assign(
        self,
        machine: Machine,
        components: Sequence[AssignedComponent],
        stale_annotations: Sequence[str] = (),
    ) -> Machine:
        """Replace the components of a Machine.

        stale_annotations: annotations to remove in the same write.
        """
        spec = {"components": [c.to_dict() for c in components]}
        return await self._machine(machine, spec, dict.fromkeys(stale_annotations))

    async def permit(self, machine: Machine, permit: MachinePermit | None) -> Machine:
        """Write the permit of a Machine. None removes it."""
        return await self._machine(machine, {"permit": permit.to_dict() if permit else None})

    async def _machine(
        self,
        machine: Machine,
        spec: Mapping[str, Any],
        annotations: Mapping[str, None] | None = None,
    ) -> Machine:
        path = custom(MACHINES, machine.metadata.name)
        meta = {**_read(machine), **({"annotations": annotations} if annotations else {})}
        self._fence.check()
        return await self._kube.patch(path, {"metadata": meta, "spec": spec}, decode=self._decode)

    async def status(
        self, set_: MachineComponentSet, status: Mapping[str, Any]
    ) -> MachineComponentSet:
        """Write the status of a set."""
        path = custom(SETS, set_.metadata.name, "status")
        self._fence.check()
        return await self._kube.patch(
            path,
            {"metadata": _read(set_), "status": status},
            decode=MachineComponentSet.from_server,
        )

    async def finalizers(
        self, set_: MachineComponentSet, finalizers: Sequence[str]
    ) -> MachineComponentSet:
        """Replace the finalizers of a set."""
        path = custom(SETS, set_.metadata.name)
        self._fence.check()
        return await self._kube.patch(
            path,
            {"metadata": {**_read(set_), "finalizers": list(finalizers)}},
            decode=MachineComponentSet.from_server,
        )


def _read(resource_: Machine | MachineComponentSet) -> dict[str, str]:
    """Return the metadata that makes a write fail if the object is not the one that was read."""
    meta = resource_.metadata
    return {"uid": meta.uid, "resourceVersion": meta.resource_version}


class _TextMeta(msgspec.Struct):
    uid: str = ""


class _TextSource(msgspec.Struct):
    """A ConfigMap or Secret."""

    metadata: _TextMeta
    data: dict[str, str] | None = None


_decode = msgspec.json.Decoder(_TextSource).decode


class ReferencedTexts:
    """ConfigMaps and Secrets to which components refer, each cached for FRESH_SECONDS."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube, self._clock = kube, clock
        self._known: dict[tuple[str, str], tuple[float, _TextSource | None]] = {}

    async def of(self, references: Iterable[TextRef]) -> dict[TextRef, KeyText]:
        """Return the referenced texts. References to missing objects or keys are left out."""
        resolved = {}
        for ref in references:
            texts = await self._read(ref.kind, ref.name)
            content = (texts.data or {}).get(ref.key) if texts is not None else None
            if texts is None or content is None:
                continue
            secret = ref.kind == "Secret"
            plain = b64decode(content).decode(errors="surrogateescape") if secret else content
            resolved[ref] = KeyText(plain, texts.metadata.uid if secret else "")
        return resolved

    async def _read(self, kind: str, name: str) -> _TextSource | None:
        """Return the object, None if it does not exist."""
        now = self._clock.monotonic()
        known = self._known.get((kind, name))
        if known is not None and now - known[0] < FRESH_SECONDS:
            return known[1]
        plural = "secrets" if kind == "Secret" else "configmaps"
        path = resource("/api/v1", plural, namespace=NAMESPACE, name=name)
        try:
            source = await self._kube.get(path, _decode)
        except NotFound:
            source = None
        self._forget_old(now)
        self._known[kind, name] = (now, source)
        return source

    def _forget_old(self, now: float) -> None:
        """Drop expired entries, so that secrets do not stay in memory longer than needed."""
        for key, (at, _) in list(self._known.items()):
            if now - at >= FRESH_SECONDS:
                del self._known[key]


class ServerVersion:
    """Versions of the API servers, read again once they are older than FRESH_SECONDS (F39)."""

    def __init__(self, kube: Kube, clock: Clock) -> None:
        self._kube, self._clock = kube, clock
        self._answers: list[tuple[float, str]] = []

    async def read(self) -> ServerVersions:
        """Return the oldest and newest version of the last ten minutes, such as `v1.36.3`."""
        now = self._clock.monotonic()
        if not self._answers or now - self._answers[-1][0] >= FRESH_SECONDS:
            answer = await self._kube.get("/version")
            self._answers.append((now, str(answer.get("gitVersion", ""))))
            self._answers = [a for a in self._answers if now - a[0] <= 10 * FRESH_SECONDS]
        versions = sorted((v for _, v in self._answers if v), key=cmp_to_key(compare))
        return ServerVersions(versions[0], versions[-1]) if versions else ServerVersions()
