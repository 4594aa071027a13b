"""One member over HTTPS: implements the port of captain.members.cluster."""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar

from captain.members.cluster import MemberUnreachable
from captain.members.reach import ANSWERS, explain, find_reason
from kubenode.api.v1alpha1 import KINDS
from kubenode.api.v1alpha1.membercluster import PAYLOAD_KINDS, MemberReason
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import APPLY_PATCH, Kube
from kubenode.runtime.kube.errors import Invalid, KubeError, NotFound

CALL_SECONDS = 10.0
"""Longest call of a member, with the reads and writes that it consists of."""
PLURALS = {kind.resource.kind: kind.resource.plural for kind in KINDS}
UNTYPED = "failed to create typed patch object"
"""Text of the 500 with which an API server refuses to apply a field that the CRD does not have, or
of another type."""

T = TypeVar("T")
Object = dict[str, Any]


class RemoteMember:
    """A member.

    connect: returns the client with the current credentials, for each call. Raises
        MemberUnreachable for a paused member and for unusable credentials.
    """

    def __init__(self, name: str, labels: Mapping[str, str], connect: Callable[[], Kube]) -> None:
        self._name, self._labels, self._connect = name, labels, connect

    @property
    def name(self) -> str:
        return self._name

    @property
    def labels(self) -> Mapping[str, str]:
        return self._labels

    async def read(self, kind: str, name: str) -> Object | None:
        return await call_member(self._name, _read(self._connect(), kind, name))

    async def list_all(self, kind: str) -> list[Object]:
        return await call_member(self._name, _list(self._connect(), kind))

    async def apply(self, obj: Mapping[str, Any], *, manager: str, force: bool) -> Object:
        query = {"fieldManager": manager, "force": str(force).lower(), "fieldValidation": "Strict"}
        path, body = path_of(obj["kind"], obj["metadata"]["name"]), _as_intent(obj)
        if version := obj["metadata"].get("resourceVersion"):
            body["metadata"]["resourceVersion"] = version
        return await call_member(self._name, _apply(self._connect(), path, body, query))

    async def replace(self, obj: Mapping[str, Any], *, manager: str) -> Object:
        return await call_member(self._name, _replace(self._connect(), obj, manager))

    async def delete(self, kind: str, name: str) -> None:
        await call_member(self._name, _delete(self._connect(), kind, name))


async def call_member(name: str, work: Awaitable[T], seconds: float = CALL_SECONDS) -> T:
    """Await requests to the member of this name. Raises MemberUnreachable for all but answers."""
    try:
        async with asyncio.timeout(seconds):
            return await work
    except ANSWERS:
        raise
    except KubeError as error:
        raise MemberUnreachable(name, find_reason(error), explain(error)) from error
    except TimeoutError as error:
        text = f"no answer within {seconds:g} seconds"
        raise MemberUnreachable(name, MemberReason.TIMEOUT, text) from error


async def _read(kube: Kube, kind: str, name: str) -> Object | None:
    try:
        return await kube.get(path_of(kind, name))
    except NotFound:
        return None


async def _list(kube: Kube, kind: str) -> list[Object]:
    try:
        answer = await kube.get(path_of(kind))
    except NotFound:
        return []
    items = answer.get("items")
    return items if isinstance(items, list) else []


async def _apply(kube: Kube, path: str, body: Object, query: Mapping[str, str]) -> Object:
    try:
        return await kube.patch(path, body, APPLY_PATCH, query=query)
    except KubeError as error:
        if error.status == 500 and UNTYPED in error.message:
            raise Invalid(422, "Invalid", error.message, tried=error.tried) from error
        raise


async def _replace(kube: Kube, obj: Mapping[str, Any], manager: str) -> Object:
    kind, name, body = obj["kind"], obj["metadata"]["name"], _as_intent(obj)
    query = {"fieldManager": manager, "fieldValidation": "Strict"}
    live = await _read(kube, kind, name)
    if live is None:
        return await kube.create(path_of(kind), body, query=query)
    body["metadata"] = {**_server_metadata(live), **body["metadata"]}
    return await kube.replace(path_of(kind, name), body, query=query)


async def _delete(kube: Kube, kind: str, name: str) -> None:
    try:
        await kube.delete(path_of(kind, name))
    except NotFound:
        return


def path_of(kind: str, name: str | None = None) -> str:
    """Return the path of an object of a payload kind. Raises ValueError for another kind."""
    if kind not in PAYLOAD_KINDS:
        allowed = ", ".join(PAYLOAD_KINDS)
        raise ValueError(f"kind {kind!r} may not be released; allowed kinds are {allowed}")
    return paths.custom(PLURALS[kind], name)


def _as_intent(obj: Mapping[str, Any]) -> Object:
    """Return the parts of an object that its author decides."""
    meta = obj["metadata"]
    intent = {key: meta[key] for key in ("name", "labels", "annotations") if key in meta}
    content = {key: obj[key] for key in ("apiVersion", "kind", "spec") if key in obj}
    return {**content, "metadata": intent}


def _server_metadata(live: Object) -> Object:
    """Return the metadata with which a replacement is accepted and that it must not change."""
    unchanged = ("uid", "resourceVersion", "finalizers", "ownerReferences")
    return {key: live["metadata"][key] for key in unchanged if key in live["metadata"]}
