"""The wire format of lists and watches, decoded no further than needed.

Objects stay `Raw` here. Each is decoded on its own, so that one odd object spoils neither its page
nor its watch. An object may be nested as deeply as the API server allows.
"""

import sys
from collections.abc import Callable
from typing import TypeVar

import msgspec

from kubenode.runtime.kube.errors import KubeError, error_for


class ListMeta(msgspec.Struct, rename={"resource_version": "resourceVersion", "more": "continue"}):
    """`more` is the token of the next page, "" or None for the last."""

    resource_version: str = ""
    more: str | None = None


class ListPage(msgspec.Struct):
    metadata: ListMeta
    items: list[msgspec.Raw] | None = None


class WatchEvent(msgspec.Struct, gc=False):
    """`type` is ADDED, MODIFIED, DELETED, BOOKMARK or ERROR."""

    type: str
    object: msgspec.Raw


class HeadMeta(msgspec.Struct, rename="camel", gc=False):
    name: str = ""
    namespace: str | None = None
    resource_version: str = ""


class Head(msgspec.Struct, gc=False):
    """The identity of an object of any kind."""

    metadata: HeadMeta


class _Cause(msgspec.Struct):
    reason: str | None = None


class _Details(msgspec.Struct):
    causes: list[_Cause] | None = None


class _Status(msgspec.Struct):
    code: int = 500
    reason: str | None = None
    message: str | None = None
    details: _Details | None = None


T = TypeVar("T")
MOST_NESTED = 10_000
"""Levels of a JSON document that an API server accepts (sigs.k8s.io/json)."""


def _of_any_depth(kind: type[T]) -> Callable[[bytes | msgspec.Raw], T]:
    """Return a decoder of `kind` for JSON of any depth that an API server accepts.

    It skips unread values by recursion in C, for which Python's recursion limit is too low. A level
    takes some 100 bytes of stack.
    """
    decode = msgspec.json.Decoder(kind).decode

    def decode_any(raw: bytes | msgspec.Raw) -> T:
        try:
            return decode(raw)
        except RecursionError:
            usual = sys.getrecursionlimit()
            sys.setrecursionlimit(usual + 2 * MOST_NESTED)
            try:
                return decode(raw)
            finally:
                sys.setrecursionlimit(usual)

    return decode_any


decode_page = _of_any_depth(ListPage)
decode_event = _of_any_depth(WatchEvent)
decode_head = _of_any_depth(Head)
_decode_status = msgspec.json.Decoder(_Status).decode


def error_of(raw: msgspec.Raw, tried: str) -> KubeError:
    """Return the error that an ERROR event carries. Raises msgspec.ValidationError for none."""
    status = _decode_status(raw)
    causes = (status.details or _Details()).causes or ()
    return error_for(
        status.code,
        status.reason or "",
        status.message or "",
        causes=frozenset(cause.reason for cause in causes if cause.reason),
        tried=tried,
    )
