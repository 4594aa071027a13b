"""The objects of an informer, by key and by index, and the handlers of changes.

Everything runs on the event loop, so a reader needs no lock as long as it does not await between
reading and deciding.
"""

import logging
from collections.abc import Callable, Iterable
from typing import Generic, TypeVar

from kubenode.runtime.kube.objects import Meta, Node, Object

log = logging.getLogger(__name__)

T = TypeVar("T", bound=Object)

Handler = Callable[[str, T | None, T | None], None]
"""Called with (key, old, new), None for absent; only enqueues keys, never blocks."""

Index = Callable[[T], Iterable[str]]
"""Returns the values under which `by` lists an object."""


def key_of(meta: Meta) -> str:
    """Return `name`, or `namespace/name` of a namespaced object."""
    return f"{meta.namespace}/{meta.name}" if meta.namespace else meta.name


class IndexFailed(ValueError):
    """An index function failed for an object. The object counts as one that does not decode."""


class ObjectStore(Generic[T]):
    def __init__(self, name: str) -> None:
        self.name = name
        self.cache: dict[str, T] = {}
        self.handler_errors = 0
        self._handlers: list[Handler[T]] = []
        self._indexes: dict[str, tuple[Index[T], dict[str, dict[str, None]]]] = {}

    def add_handler(self, handler: Handler[T]) -> None:
        """Pass all changes from now on to `handler`, and the present objects as new."""
        self._handlers.append(handler)
        for key, obj in list(self.cache.items()):
            self._call(handler, key, None, obj)

    def add_index(self, name: str, values: Index[T]) -> None:
        if name in self._indexes:
            raise ValueError(f"index {name!r} exists already")
        self._indexes[name] = (values, {})
        for key, obj in self.cache.items():
            self._file(name, key, set(), self._values(name, key, obj))

    def by(self, index: str, value: str) -> list[T]:
        """Return all objects with `value` in `index`, oldest entry first. Raises KeyError."""
        keys = self._indexes[index][1].get(value, {})
        return [self.cache[key] for key in keys]

    def put(self, key: str, new: T | None) -> None:
        """Replace the object under `key`, None to remove it, and call the handlers.

        Raises IndexFailed and changes nothing if an index function fails for `new`.
        """
        old = self.cache.get(key)
        if old is None and new is None:
            return
        filed = {
            name: (self._values(name, key, old), self._values(name, key, new))
            for name in self._indexes
        }
        if isinstance(new, Node) and isinstance(old, Node) and old is not new:
            new.share(old)
        for name, (before, after) in filed.items():
            self._file(name, key, before, after)
        if new is None:
            del self.cache[key]
        else:
            self.cache[key] = new
        for handler in self._handlers:
            self._call(handler, key, old, new)

    def touch(self, key: str) -> None:
        """Call the handlers for an object that has not changed."""
        if (obj := self.cache.get(key)) is not None:
            for handler in self._handlers:
                self._call(handler, key, obj, obj)

    def _values(self, name: str, key: str, obj: T | None) -> set[str]:
        if obj is None:
            return set()
        try:
            return set(self._indexes[name][0](obj))
        except Exception as error:
            raise IndexFailed(f"index {name!r} of {self.name} failed for {key}: {error}") from error

    def _file(self, name: str, key: str, before: set[str], after: set[str]) -> None:
        _, filed = self._indexes[name]
        for value in before - after:
            filed[value].pop(key, None)
            if not filed[value]:
                del filed[value]
        for value in after - before:
            filed.setdefault(value, {})[key] = None

    def _call(self, handler: Handler[T], key: str, old: T | None, new: T | None) -> None:
        try:
            handler(key, old, new)
        except Exception:  # one faulty mapper must not stop the cache for all
            self.handler_errors += 1
            extra = {"informer": self.name, "key": key}
            log.error("a handler failed", exc_info=True, extra=extra)
