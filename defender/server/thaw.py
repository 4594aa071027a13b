"""A person's thaw of the control path: an annotation on each policy that shows the freeze.

It names the freeze by its start time. A thaw that arrives late, or is read again after a restart,
ends that freeze and no other. Nodes whose silence the thaw covers do not cause a freeze again.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec

from defender.decision.breaker.control_path import SCOPE, Thaw
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import DefenderPolicy
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict

ANNOTATION = "kubenode.io/thaw"
TRIES = 8
"""Attempts to write a policy that others change at the same time."""
POLICIES = paths.custom(DefenderPolicy.resource.plural)


class NotFrozen(Exception):
    """No policy shows a frozen control path."""


class _Written(msgspec.Struct, rename="camel"):
    frozen_since: datetime
    by: str
    why: str


@dataclass(frozen=True, slots=True)
class Thawed:
    """The result: the thaw, and the policies to which it was written."""

    thaw: Thaw
    policies: tuple[str, ...]


_read = msgspec.json.Decoder(_Written).decode


def thaw_in(annotations: dict[str, str]) -> Thaw | None:
    """Return the thaw in a policy's annotations, None for none. Raises ValueError for an invalid
    one.
    """
    text = annotations.get(ANNOTATION, "")
    if not text:
        return None
    parsed = _read(text)
    if parsed.frozen_since.tzinfo is None:
        raise ValueError("frozenSince has no time zone")
    return Thaw(parsed.frozen_since, parsed.by, parsed.why)


async def write_thaw(kube: Kube, by: str, why: str) -> Thawed:
    """Thaw the control path in every policy that shows the freeze.

    Raises NotFrozen, KubeError, and Conflict if others keep changing a policy.
    """
    listed = (await kube.get(POLICIES))["items"]
    frozen = {item["metadata"]["name"]: since for item in listed if (since := _frozen_since(item))}
    if not frozen:
        raise NotFrozen
    latest = max(frozen.values())
    thaw = Thaw(latest, by, why)
    for name in sorted(frozen):
        await _write(kube, name, thaw)
    return Thawed(thaw, tuple(sorted(frozen)))


async def _write(kube: Kube, name: str, thaw: Thaw) -> None:
    path = paths.custom(DefenderPolicy.resource.plural, name)
    written = {
        "frozenSince": format_time(thaw.frozen_since),
        "by": thaw.by,
        "why": thaw.why,
    }
    text = msgspec.json.encode(written).decode()
    for last in (*(False,) * (TRIES - 1), True):
        version = (await kube.get(path))["metadata"]["resourceVersion"]
        metadata = {"resourceVersion": version, "annotations": {ANNOTATION: text}}
        try:
            await kube.patch(path, {"metadata": metadata})
        except Conflict:
            if last:
                raise
        else:
            return


def _frozen_since(item: dict[str, Any]) -> datetime | None:
    for entry in (item.get("status") or {}).get("breaker") or ():
        if entry.get("scope") == SCOPE:
            return msgspec.convert(entry["since"], datetime)
    return None
