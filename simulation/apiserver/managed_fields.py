"""metadata.managedFields: who wrote which fields, and what an apply may take or must refuse.

A real server records every writer. This one records writers that give a `fieldManager`, and all
writers of an object that has such records, since a demo reads few of them. The first apply assigns
unrecorded fields to `before-first-apply`, as a real server does.
Source: apimachinery `pkg/util/managedfields/internal`, structured-merge-diff `merge/update.go`.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import lru_cache
from typing import Any

from simulation.apiserver import fields
from simulation.apiserver.errors import ApiError, Obj
from simulation.apiserver.fields import Paths
from simulation.apiserver.merge import merge, with_parents, without
from simulation.apiserver.registry import ServedResource
from simulation.apiserver.shape import Shape, of_schema
from simulation.apiserver.type_decoder import shape_of

APPLY, UPDATE = "Apply", "Update"
BEFORE = "before-first-apply"
ANCIENT = "ancient-changes"
MOST_UPDATERS = 10
"""Entries of updates that stay separate."""
METADATA = ("f:metadata",)
NOT_OWNED = frozenset(
    {
        "creationTimestamp",
        "deletionGracePeriodSeconds",
        "deletionTimestamp",
        "generation",
        "managedFields",
        "name",
        "namespace",
        "resourceVersion",
        "selfLink",
        "uid",
    }
)
"""Metadata that no manager owns."""


@dataclass(frozen=True, slots=True, order=True)
class Manager:
    """A writer.

    operation: Apply or Update.
    subresource: "" for the object itself.
    """

    operation: str
    name: str
    version: str
    subresource: str


@dataclass(frozen=True, slots=True)
class FieldOwnership:
    """The fields that a writer owns, and when they last changed."""

    paths: frozenset[fields.Path]
    time: str


Entries = Mapping[Manager, FieldOwnership]


def decode(managed: Any) -> dict[Manager, FieldOwnership]:
    """Decode `managedFields`. Raises ValueError if they are invalid."""
    by_manager: dict[Manager, FieldOwnership] = {}
    try:
        for entry in managed or ():
            manager = Manager(
                entry["operation"],
                entry.get("manager", ""),
                entry["apiVersion"],
                entry.get("subresource", ""),
            )
            if manager.operation not in (APPLY, UPDATE):
                raise ValueError(f"managedFields: unknown operation {manager.operation!r}")
            paths = frozenset(fields.decode(entry.get("fieldsV1") or {}))
            by_manager[manager] = FieldOwnership(paths, entry.get("time") or "")
    except (AttributeError, KeyError, TypeError) as error:
        raise ValueError("managedFields that cannot be read") from error
    return by_manager


def encode(entries: Entries) -> list[Obj]:
    """Encode entries as `managedFields`, in the order of a real server."""
    order = sorted(
        entries.items(),
        key=lambda item: (item[0].operation, item[1].time, item[0].name, item[0].version, item[0]),
    )
    return [_written(manager, entry) for manager, entry in order]


def _written(manager: Manager, entry: FieldOwnership) -> Obj:
    return {
        "manager": manager.name,
        "operation": manager.operation,
        "apiVersion": manager.version,
        **({"time": entry.time} if entry.time else {}),
        "fieldsType": "FieldsV1",
        "fieldsV1": fields.encode(set(entry.paths)),
        **({"subresource": manager.subresource} if manager.subresource else {}),
    }


@lru_cache(maxsize=256)
def shape(resource: ServedResource) -> Shape:
    """Return the shape of whole objects of a resource."""
    if resource.schema is None:
        return shape_of(resource)
    custom = of_schema(resource.schema.source)
    head = shape_of(resource).fields
    text = Shape("string", whole=True)
    whole = {**custom.fields, "apiVersion": text, "kind": text, **head}
    return Shape("object", element=custom.element, load=lambda: whole)


def owned_part(obj: Obj) -> Obj:
    """Return an object without the parts that no manager owns."""
    metadata = {k: v for k, v in (obj.get("metadata") or {}).items() if k not in NOT_OWNED}
    rest = {k: v for k, v in obj.items() if k not in ("apiVersion", "kind", "metadata")}
    return {**rest, "metadata": metadata} if metadata else rest


def _nobodys(paths: Paths) -> Paths:
    return paths - {METADATA}


# ---- updates


def updated(
    resource: ServedResource, old: Obj | None, new: Obj, entries: Entries, who: Manager, now: str
) -> dict[Manager, FieldOwnership]:
    """Return the entries after `who` changed `old` (None: created) to `new`, except by an apply."""
    changes = fields.compare(owned_part(old or {}), owned_part(new), shape(resource))
    changed = _nobodys(changes.added | changes.modified)
    remaining = _taken(entries, who, changed | changes.removed)
    mine = set(entries[who].paths) - changes.removed if who in entries else set()
    if changed or (who in entries and mine != entries[who].paths):
        remaining[who] = FieldOwnership(frozenset(mine | changed), now)
    elif who in entries:
        remaining[who] = entries[who]
    return _few({manager: entry for manager, entry in remaining.items() if entry.paths}, now)


def _taken(entries: Entries, who: Manager, paths: Paths) -> dict[Manager, FieldOwnership]:
    """Return the entries of all managers but `who`, without `paths`."""
    remaining = {}
    for manager, entry in entries.items():
        if manager != who:
            rest = entry.paths - paths if not entry.paths.isdisjoint(paths) else entry.paths
            if rest:
                remaining[manager] = replace(entry, paths=rest)
    return remaining


def _few(entries: dict[Manager, FieldOwnership], now: str) -> dict[Manager, FieldOwnership]:
    """Merge the oldest updates into one entry, so that at most MOST_UPDATERS remain."""
    updates = [manager for manager in entries if manager.operation == UPDATE]
    if len(updates) <= MOST_UPDATERS:
        return entries
    updates.sort(key=lambda manager: (entries[manager].time, manager))
    old = updates[: len(updates) - MOST_UPDATERS + 1]
    paths = frozenset().union(*(entries[manager].paths for manager in old))
    time = max(entries[manager].time for manager in old) or now
    recent = {manager: entry for manager, entry in entries.items() if manager not in old}
    return {**recent, Manager(UPDATE, ANCIENT, old[-1].version, ""): FieldOwnership(paths, time)}


# ---- apply


def applied(
    resource: ServedResource,
    live: Obj,
    config: Obj,
    entries: Entries,
    who: Manager,
    free: Paths | None,
    now: str,
) -> tuple[Obj, dict[Manager, FieldOwnership]]:
    """Apply `config` to `live` ({} for none). Return the object and the ownership.

    free: fields of others that it may take; None for all.

    Raises ApiError 409 for fields of others, 500 for undeclared values.
    """
    form = shape(resource)
    mine = _owned_by(resource, config, form)
    last = entries[who].paths if who in entries else frozenset()
    after = {**entries, who: FieldOwnership(frozenset(mine), now)}
    merged = merge(live, config, form)
    if last:
        paths = {path for entry in after.values() for path in entry.paths}
        retained = with_parents(paths | {METADATA}, form)
        merged = without(merged, with_parents(last, form) - retained, form)
    changes = fields.compare(owned_part(live), owned_part(merged), form)
    changed = changes.added | changes.modified
    if free is not None:
        _refuse_conflicts(entries, who, changed - free)
    remaining = _taken(entries, who, changed | changes.removed)
    same = who in entries and last == mine and not changed and not changes.removed
    time = entries[who].time if same else now
    if mine:
        remaining[who] = FieldOwnership(frozenset(mine), time)
    return merged, remaining


def _owned_by(resource: ServedResource, config: Obj, form: Shape) -> Paths:
    try:
        return _nobodys(fields.of(owned_part(config), form))
    except fields.Undeclared as error:
        metadata = config["metadata"]
        place = f"{metadata.get('namespace', '')}/{metadata['name']}"
        kind = f"{resource.group}/{resource.version}, Kind={resource.kind}"
        message = f"failed to create typed patch object ({place}; {kind}): {error}"
        raise ApiError(500, "", message) from error


def _refuse_conflicts(entries: Entries, who: Manager, changed: Paths) -> None:
    conflicts = [
        (_named(manager), fields.show(path))
        for manager, entry in sorted(entries.items(), key=lambda item: _named(item[0]))
        if manager != who
        for path in sorted(entry.paths & changed, key=fields.shallow_first)
    ]
    if not conflicts:
        return
    if len(conflicts) == 1:
        [(name, path)] = conflicts
        message = f"Apply failed with 1 conflict: conflict with {name}: {path}"
    else:
        lines = []
        for name in dict.fromkeys(name for name, _ in conflicts):
            lines += [f"conflicts with {name}:", *(f"- {p}" for n, p in conflicts if n == name)]
        message = f"Apply failed with {len(conflicts)} conflicts: " + "\n".join(lines)
    causes = [
        {"reason": "FieldManagerConflict", "message": f"conflict with {name}", "field": path}
        for name, path in conflicts
    ]
    raise ApiError(409, "Conflict", message, causes=causes)


def _named(manager: Manager) -> str:
    name = f'"{manager.name}"'
    if manager.subresource:
        name += f' with subresource "{manager.subresource}"'
    return f"{name} using {manager.version}" if manager.operation == UPDATE else name


def before_first_apply(
    resource: ServedResource, live: Obj, now: str
) -> dict[Manager, FieldOwnership]:
    """Return the entries of an object without recorded writers."""
    return updated(resource, None, live, {}, Manager(UPDATE, BEFORE, resource.gv, ""), now)
