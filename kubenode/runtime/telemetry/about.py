"""What the work of a task is about: its ids, which every line that it logs then carries."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_NOTHING: Mapping[str, str] = {}
_ids: ContextVar[Mapping[str, str]] = ContextVar("kubenode_about", default=_NOTHING)


@contextmanager
def about(**ids: str) -> Iterator[None]:
    """Lines that are logged in the block, and in tasks begun there, say these as well."""
    token = _ids.set({**_ids.get(), **ids})
    try:
        yield
    finally:
        _ids.reset(token)


def ids() -> Mapping[str, str]:
    return _ids.get()
