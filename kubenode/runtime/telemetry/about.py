"""The IDs that the work of a task is about, added to every line that it logs."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_NOTHING: Mapping[str, str] = {}
_ids: ContextVar[Mapping[str, str]] = ContextVar("kubenode_about", default=_NOTHING)


@contextmanager
def about(**ids: str) -> Iterator[None]:
    """Add `ids` to the lines that are logged in the block, and in tasks that begin there."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def ids() -> Mapping[str, str]:
    return _ids.get()
