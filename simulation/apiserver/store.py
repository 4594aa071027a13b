"""All objects, in memory: one writer, one resourceVersion counter, a ring of past events.

Readers, the ring and watches share records, so a stored object is never changed in place. The ring
of each resource answers three questions: what a watch missed since a resourceVersion, what a list
contained at one (pages of a list are one snapshot), and when either can no longer be answered
(410).
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from operator import attrgetter
from typing import Protocol

import msgspec

from simulation.apiserver.errors import Obj
from simulation.apiserver.registry import Path
from simulation.apiserver.selectors import Selection, dig, field_text

Key = tuple[str, str]
"""(namespace, name); namespace "" for cluster-scoped objects."""

Keep = Callable[[str, "Record", bool], None]

HISTORY = 4096
"""Events kept per resource. Old versions share their unchanged parts with the current one."""

HEAD = '{"apiVersion":"","kind":"",'
KEY = attrgetter("key")
encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Record:
    """One version of an object: decoded, as JSON, and its resourceVersion as a number."""

    obj: Obj
    raw: bytes
    rv: int
    key: Key

    @classmethod
    def of(cls, obj: Obj, rv: int) -> "Record":
        metadata = obj["metadata"]
        return cls(obj, encode(obj), rv, (metadata.get("namespace", ""), metadata["name"]))

    @property
    def item(self) -> bytes:
        """Return the object as in a list of a built-in kind: without apiVersion and kind."""
        head = len(self.obj["apiVersion"]) + len(self.obj["kind"]) + len(HEAD)
        return b"{" + self.raw[head:]


class StoreEvent:
    """One change.

    type: ADDED, MODIFIED or DELETED.
    previous: the version stored before, None for a new object.
    """

    __slots__ = ("_lines", "previous", "record", "rv", "type")

    def __init__(self, rv: int, type_: str, record: Record, previous: Record | None) -> None:
        self.rv = rv
        self.type = type_
        self.record = record
        self.previous = previous
        self._lines: dict[str, bytes] = {}

    def classify_for(self, selection: Selection) -> str | None:
        """Return the event type for a watch: entering its selection is ADDED, leaving is DELETED.

        Return None for an event outside the selection.
        """
        if selection.everything:
            return self.type
        was = self.previous is not None and selection.matches(self.previous.obj)
        if self.type != "DELETED" and selection.matches(self.record.obj):
            return "MODIFIED" if was else "ADDED"
        return "DELETED" if was else None

    def shown_as(self, kind: str) -> Record:
        """Return the version for an event type.

        An object that left a selection is shown as before, with the new resourceVersion.
        """
        if kind == "DELETED" and self.type != "DELETED" and self.previous is not None:
            obj = _stamped(self.previous.obj, self.rv)
            return Record.of(obj, self.rv)
        return self.record

    def line(self, kind: str) -> bytes:
        """Return the watch event as a line of JSON, built once for all watches."""
        line = self._lines.get(kind)
        if line is None:
            line = watch_line(kind, self.shown_as(kind).raw)
            self._lines[kind] = line
        return line


def watch_line(kind: str, raw: bytes) -> bytes:
    return b'{"type":"%s","object":%s}\n' % (kind.encode(), raw)


class WatchListener(Protocol):
    """An open watch, as the store uses it."""

    selection: Selection

    def offer(self, event: StoreEvent) -> None: ...

    def close(self) -> None: ...


def _stamped(obj: Obj, rv: int) -> Obj:
    """Return the object with its version, and with apiVersion and kind first.

    `Record.item` cuts these two off.
    """
    head = {"apiVersion": obj["apiVersion"], "kind": obj["kind"]}
    return {**head, **obj, "metadata": {**obj["metadata"], "resourceVersion": str(rv)}}


class Collection:
    """The objects of one resource, its recent events and its open watches."""

    def __init__(self, floor: int, history: int) -> None:
        self.spaces: dict[str, dict[str, Record]] = {}
        self.floor = floor
        """Changes up to and including this resourceVersion are unknown."""
        self._ring: deque[StoreEvent] = deque(maxlen=history)
        self._everyone: dict[WatchListener, None] = {}
        """Watches without a pinned field, in the order in which they began."""
        self._pinned: dict[Path, dict[str, dict[WatchListener, None]]] = {}

    def get(self, key: Key) -> Record | None:
        space = self.spaces.get(key[0])
        return space.get(key[1]) if space is not None else None

    def records(self, namespace: str = "") -> Iterator[Record]:
        if namespace:
            yield from self.spaces.get(namespace, {}).values()
            return
        for space in self.spaces.values():
            yield from space.values()

    def sorted(self, selection: Selection) -> list[Record]:
        """Return the selected records in key order."""
        if selection.name:
            spaces = [selection.namespace] if selection.namespace else list(self.spaces)
            candidates = [self.get((space, selection.name)) for space in spaces]
            selected = [record for record in candidates if record is not None]
        else:
            selected = list(self.records(selection.namespace))
        if not selection.everything:
            selected = [record for record in selected if selection.matches(record.obj)]
        selected.sort(key=KEY)
        return selected

    def sorted_at(self, selection: Selection, rv: int) -> list[Record]:
        """Return the selected records at `rv`, which must not be below the floor."""
        state: dict[Key, Record | None] = {}
        for event in self._since(rv):
            state.setdefault(event.record.key, event.previous)
        selected = [r for r in self.sorted(selection) if r.key not in state]
        selected += [r for r in state.values() if r is not None and selection.matches(r.obj)]
        selected.sort(key=KEY)
        return selected

    def _since(self, rv: int) -> list[StoreEvent]:
        missed: list[StoreEvent] = []
        for event in reversed(self._ring):
            if event.rv <= rv:
                break
            missed.append(event)
        missed.reverse()
        return missed

    def missed(self, rv: int) -> Iterable[StoreEvent]:
        """Return the events after `rv`, oldest first; `rv` must not be below the floor."""
        return self._since(rv)

    # ---- writes

    def apply(self, event: StoreEvent) -> None:
        namespace, name = event.record.key
        if event.type == "DELETED":
            space = self.spaces[namespace]
            del space[name]
            if not space:
                del self.spaces[namespace]
        else:
            self.spaces.setdefault(namespace, {})[name] = event.record
        if len(self._ring) == self._ring.maxlen:
            self.floor = self._ring[0].rv
        self._ring.append(event)
        for listener in self._concerned(event):
            listener.offer(event)

    def forget_history(self) -> None:
        """Drop the ring, as a compaction does: older watches and pages get 410."""
        if self._ring:
            self.floor = self._ring[-1].rv
            self._ring.clear()

    def revert(self, records: Iterable[Record], rv: int) -> None:
        """Replace the records by these, as of `rv`, and end all watches."""
        self.spaces = {}
        for record in records:
            self.spaces.setdefault(record.key[0], {})[record.key[1]] = record
        self._ring.clear()
        self.floor = rv
        self.close_watches()

    # ---- watches

    def listen(self, listener: WatchListener) -> None:
        self._group(listener)[listener] = None

    def unlisten(self, listener: WatchListener) -> None:
        group = self._group(listener)
        group.pop(listener, None)
        pin = listener.selection.pin
        if pin is not None and not group:
            del self._pinned[pin[0]][pin[1]]

    def _group(self, listener: WatchListener) -> dict[WatchListener, None]:
        pin = listener.selection.pin
        if pin is None:
            return self._everyone
        return self._pinned.setdefault(pin[0], {}).setdefault(pin[1], {})

    def _concerned(self, event: StoreEvent) -> list[WatchListener]:
        """Return the watches that an event concerns.

        Thousands of agents watch their own objects, so pinned watches are looked up by value.
        """
        concerned = list(self._everyone)
        for path, groups in self._pinned.items():
            name = ".".join(path)
            values = {field_text(dig(event.record.obj, path), name)}
            if event.previous is not None:
                values.add(field_text(dig(event.previous.obj, path), name))
            for value in values:
                concerned.extend(groups.get(value, ()))
        return concerned

    def close_watches(self) -> None:
        for listener in self.listeners():
            listener.close()

    def listeners(self) -> list[WatchListener]:
        pinned = (group for groups in self._pinned.values() for group in groups.values())
        return [*self._everyone, *(listener for group in pinned for listener in group)]


@dataclass(frozen=True, slots=True)
class Snapshot:
    """All objects of a Store at `rv`, by resource. It shares the records, which never change."""

    rv: int
    records: Mapping[str, tuple[Record, ...]]


class Store:
    """Collections by qualified resource name ("pods", "leases.coordination.k8s.io").

    start: first resourceVersion: milliseconds of the clock, higher than any that an earlier server
        assigned (below 1,000 writes/ms), so its clients get 410 and list again.
    keep: called with (resource, record, whether it is gone) before a version is visible. If it
        raises, nothing changes.
    """

    def __init__(self, start: int, history: int = HISTORY, keep: Keep | None = None) -> None:
        self.rv = self._start = start
        self._history = history
        self._keep = keep
        self._collections: dict[str, Collection] = {}
        self.by_uid: dict[str, tuple[str, Key]] = {}
        self._by_owner: dict[str, set[tuple[str, Key]]] = {}

    def collection(self, qualified: str) -> Collection:
        collection = self._collections.get(qualified)
        if collection is None:
            collection = self._collections[qualified] = Collection(self._start, self._history)
        return collection

    def drop(self, qualified: str) -> None:
        """Drop a resource that is no longer served; its watches end."""
        gone = self._collections.pop(qualified, None)
        if gone is not None:
            gone.close_watches()

    def collections(self) -> Iterable[Collection]:
        return list(self._collections.values())

    def commit(self, qualified: str, type_: str, obj: Obj) -> Record:
        """Store a version of an object ("ADDED", "MODIFIED") or remove it ("DELETED").

        Return the record with the new resourceVersion, also for "DELETED".
        """
        collection = self.collection(qualified)
        rv = self.rv + 1
        record = Record.of(_stamped(obj, rv), rv)
        if self._keep is not None:
            self._keep(qualified, record, type_ == "DELETED")
        self.rv = rv
        previous = collection.get(record.key)
        self._index(qualified, record, previous, gone=type_ == "DELETED")
        collection.apply(StoreEvent(self.rv, type_, record, previous))
        return record

    def restore(self, qualified: str, obj: Obj, rv: int) -> None:
        """Load an object that an earlier server stored."""
        record = Record.of(obj, rv)
        self._index(qualified, record, None, gone=False)
        self.collection(qualified).spaces.setdefault(record.key[0], {})[record.key[1]] = record

    def snapshot(self) -> Snapshot:
        """Take a backup, as `etcdctl snapshot save` does."""
        contents = {name: tuple(each.records()) for name, each in self._collections.items()}
        return Snapshot(self.rv, contents)

    def revert(self, snapshot: Snapshot) -> None:
        """Return to a backup, like an etcd restored from it.

        resourceVersions continue from the snapshot's, and watches end. A database is not changed.
        """
        self.rv = snapshot.rv
        self.by_uid.clear()
        self._by_owner.clear()
        for qualified, collection in self._collections.items():
            records = snapshot.records.get(qualified, ())
            collection.revert(records, snapshot.rv)
            for record in records:
                self._index(qualified, record, None, gone=False)

    def dependents(self, uid: str) -> list[tuple[str, Key]]:
        """Return (resource, key) of the objects that name `uid` as an owner."""
        return list(self._by_owner.get(uid, ()))

    def _index(self, qualified: str, record: Record, previous: Record | None, gone: bool) -> None:
        place = (qualified, record.key)
        metadata = record.obj["metadata"]
        owners = metadata.get("ownerReferences")
        before = previous.obj["metadata"].get("ownerReferences") if previous else None
        if gone:
            self.by_uid.pop(metadata["uid"], None)
        elif previous is None:
            self.by_uid[metadata["uid"]] = place
        if before is not None and (gone or before is not owners):
            for owner in before:
                group = self._by_owner.get(owner["uid"], set())
                group.discard(place)
                if not group:
                    self._by_owner.pop(owner["uid"], None)
        if owners is not None and not gone:
            for owner in owners:
                self._by_owner.setdefault(owner["uid"], set()).add(place)
