"""Contents of objects: canonical JSON, digests, differences, and what a rollback restores. Pure."""

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from kubenode.api.v1alpha1.release import PayloadKind, PayloadObject

Raw = Mapping[str, Any]
PERSONAL_FIELDS: Mapping[str, tuple[str, ...]] = {
    PayloadKind.DEFENDER_POLICY: ("pauses",),
    PayloadKind.MACHINE_COMPONENT_SET: ("paused", "frozen"),
}
"""Fields of a spec by which people stop work in a cluster, by kind. A rollback does not change them
unless the payload did.
"""


def to_canonical_json(value: object) -> str:
    """Return JSON with sorted keys and without spaces, so that equal values are equal texts."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), ensure_ascii=False)


def compute_digest(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def compute_payload_digest(payload: Iterable[PayloadObject]) -> str:
    return compute_digest(to_canonical_json([each.to_dict() for each in payload]))


def extract_content(objects: Mapping[str, Raw | None], keys: Iterable[str]) -> str:
    """Return labels, annotations and spec of the objects by KIND/NAME, as canonical JSON.

    An object that does not exist is null.
    """
    return to_canonical_json({key: _extract(objects.get(key)) for key in keys})


def _extract(live: Raw | None) -> Raw | None:
    if live is None:
        return None
    metadata = live["metadata"]
    parts = {key: metadata.get(key) or {} for key in ("labels", "annotations")}
    return {**parts, "spec": live.get("spec", {})}


def build_restored(wanted: PayloadObject, previous: Raw, live: Raw | None) -> dict[str, Any]:
    """Return the object that a rollback writes.

    wanted: the object of the payload, which the rollback takes back.
    previous: labels, annotations and spec of the object before the release.
    live: the object as it is now; None if it does not exist.
    """
    spec = previous["spec"]
    for field in PERSONAL_FIELDS.get(wanted.kind, ()):
        if live is not None and field not in wanted.spec:
            spec = _with_field(spec, field, live.get("spec", {}))
    parts = {key: previous[key] for key in ("labels", "annotations")}
    return {
        "apiVersion": wanted.api_version,
        "kind": wanted.kind.value,
        "metadata": {"name": wanted.metadata.name, **parts},
        "spec": spec,
    }


def _with_field(spec: Raw, field: str, source: Raw) -> dict[str, Any]:
    """Return `spec` with the field as `source` has it, or without it."""
    others = {key: value for key, value in spec.items() if key != field}
    return others | ({field: source[field]} if field in source else {})


def list_differences(wanted: object, live: object, path: str = "spec") -> Iterator[str]:
    """Yield the paths of `wanted` at which `live` has another value.

    A field that only `live` has is a default or belongs to others, and is no difference.
    """
    if isinstance(wanted, Mapping) and isinstance(live, Mapping):
        for key, value in wanted.items():
            if value is not None and not (key not in live and value in ({}, [])):
                yield from list_differences(value, live.get(key), f"{path}.{key}")
    elif isinstance(wanted, list) and isinstance(live, list) and len(wanted) == len(live):
        for index, (value, other) in enumerate(zip(wanted, live, strict=True)):
            yield from list_differences(value, other, f"{path}[{index}]")
    elif wanted != live:
        yield path
