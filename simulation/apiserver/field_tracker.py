"""Decides which writes are recorded in metadata.managedFields, and under which manager."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from simulation.apiserver import managed_fields
from simulation.apiserver.errors import Obj
from simulation.apiserver.registry import ServedResource

LONGEST_NAME = 128


@dataclass(slots=True)
class Writer:
    """Who writes.

    manager: the `fieldManager` of the request.
    agent: its User-Agent.
    applied: managedFields that an apply has already computed; None for other writes.
    """

    manager: str = ""
    agent: str = ""
    subresource: str = ""
    applied: list[Obj] | None = None

    @property
    def name(self) -> str:
        return self.manager or self.agent.partition("/")[0][:LONGEST_NAME] or "unknown"


def note(
    resource: ServedResource, old: Obj | None, new: Obj, writer: Writer, now: Callable[[], str]
) -> None:
    """Set `new["metadata"]["managedFields"]` in place.

    managedFields from a client are accepted if they can be read; `[{}]` ends the tracking of an
    object.

    now: returns a timestamp.
    """
    metadata = new["metadata"]
    if writer.applied is not None:
        _set(metadata, writer.applied)
        return
    stored = old["metadata"].get("managedFields") if old is not None else None
    given = metadata.get("managedFields") if old is not None and not writer.subresource else None
    if given == [{}] or not (stored or writer.manager):
        metadata.pop("managedFields", None)
        if given != [{}] or not writer.manager:
            return
        stored = given = None
    entries = _readable(given) or _readable(stored)
    who = managed_fields.Manager(
        managed_fields.UPDATE, writer.name, resource.gv, writer.subresource
    )
    after = managed_fields.updated(resource, old, new, entries, who, now())
    if stored and after == _readable(stored):
        metadata["managedFields"] = stored
    else:
        _set(metadata, managed_fields.encode(after))


def entries_of(
    resource: ServedResource, live: Obj, now: str
) -> dict[managed_fields.Manager, managed_fields.FieldOwnership]:
    """Return the entries of an object before an apply."""
    entries = _readable(live["metadata"].get("managedFields"))
    return entries or managed_fields.before_first_apply(resource, live, now)


def _readable(given: Any) -> dict[managed_fields.Manager, managed_fields.FieldOwnership]:
    try:
        return managed_fields.decode(given)
    except ValueError:
        return {}


def _set(metadata: Obj, entries: list[Obj]) -> None:
    if entries:
        metadata["managedFields"] = entries
    else:
        metadata.pop("managedFields", None)
