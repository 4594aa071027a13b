"""The same random writes on both servers: the same answers, objects and events, step by step.

A walk is its seed: a failure names it and the step. Steps are drawn from a few names and values, so
that conflicts, no-ops, finalizers and half-deleted objects are common.
"""

import random
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from support.contract_api import (
    JSON_PATCH,
    MERGE,
    STRATEGIC,
    ContractApi,
    Obj,
    Reply,
    a_configmap,
    a_foo,
    a_lease,
)

STEPS = 120
NAMES = ("a", "b", "c")
STAMPS = ("uid", "resourceVersion", "creationTimestamp", "managedFields", "namespace")
KUBE_ROOT_CA = "kube-root-ca.crt"
"""A ConfigMap that a controller puts into every namespace of the real cluster."""


class Walker:
    """Draws steps, and plays each on one server after the other.

    Versions are given as "the newest", "one that is old" or none: their numbers differ.
    """

    def __init__(self, seed: int) -> None:
        self._draw = random.Random(seed)
        self._versions: dict[tuple[str, str], list[str]] = {}

    def step(self) -> tuple[str, Callable[[ContractApi], Awaitable[Reply]]]:
        """What it is, and how to play it on a server."""
        draw = self._draw
        plural = draw.choice(("configmaps", "foos", "leases"))
        name = draw.choice(NAMES)
        verb = draw.choices(
            ("create", "put", "merge", "json", "strategic", "status", "delete", "finalizer"),
            (5, 4, 5, 3, 2, 4, 3, 2),
        )[0]
        version = draw.choice(("", "newest", "newest", "old"))
        body = self._body(plural, verb, name)
        told = f"{verb} {plural}/{name} version={version or 'none'} {body}"

        async def play(api: ContractApi) -> Reply:
            return await self._play(api, plural, name, verb, body, version)

        return told, play

    def _body(self, plural: str, verb: str, name: str) -> Any:
        draw = self._draw
        labels: Obj = draw.choice(({}, {"w": "1"}, {"w": "2"}, {"bad label!": "x"}))
        number = draw.choice((0, 1, 2, 2, 99, "text"))
        whole: Obj
        match plural:
            case "configmaps":
                whole = a_configmap(name, {"k": str(number)}, labels=labels)
                part: Obj = {"data": {draw.choice(("k", "l")): draw.choice(("1", "2", None))}}
            case "foos":
                more = draw.choice(({}, {"b": "mine"}, {"zzz": 1}, {"mode": "Sideways"}))
                whole = a_foo(name, {"labels": labels}, **{"a": number, **more})
                part = {"spec": {"a": number, **draw.choice(({}, {"word": None, "maybe": None}))}}
            case _:
                whole = a_lease(name, draw.choice(("x", "y")), labels=labels)
                seconds = draw.choice((0, 5, 15))
                part = {"spec": {"leaseDurationSeconds": seconds}}
        match verb:
            case "create" | "put":
                return whole
            case "merge" | "strategic":
                return draw.choice((part, {"metadata": {"labels": labels}}, {"metadata": {}}))
            case "json":
                field = {
                    "configmaps": "/data/k",
                    "foos": "/spec/a",
                    "leases": "/spec/holderIdentity",
                }
                path = draw.choice(("/metadata/labels/w", field[plural], "/nothing/here"))
                op = draw.choice(("add", "replace", "remove", "test"))
                return [{"op": op, "path": path, "value": draw.choice(("1", "2"))}]
            case "status":
                return {"status": {"n": draw.choice((1, 2))}, "spec": {"a": 5}}
            case "finalizer":
                held: list[str] | None = draw.choice((["x.y/z"], None, []))
                return {"metadata": {"finalizers": held}}
            case _:
                return draw.choice((None, {}, {"preconditions": {"uid": "not-this"}}))

    async def _play(
        self, api: ContractApi, plural: str, name: str, verb: str, body: Any, version: str
    ) -> Reply:
        base = {"configmaps": api.configmaps, "foos": api.foos, "leases": api.leases}[plural]
        path = f"{base}/{name}"
        claimed = self._version(api, path, version)
        match verb:
            case "create":
                reply = await api.post(base, body)
            case "put":
                reply = await api.put(path, _versioned(body, claimed))
            case "merge" | "finalizer":
                reply = await api.patch(path, _versioned(body, claimed), MERGE)
            case "strategic":
                reply = await api.patch(path, _versioned(body, claimed), STRATEGIC)
            case "json":
                reply = await api.patch(path, body, JSON_PATCH)
            case "status":
                reply = await api.patch(f"{path}/status", _versioned(body, claimed), MERGE)
            case _:
                reply = await api.delete(path, body)
        if reply.code < 300 and reply.meta.get("resourceVersion"):
            self._versions.setdefault((api.url, path), []).append(reply.meta["resourceVersion"])
        return reply

    def _version(self, api: ContractApi, path: str, which: str) -> str:
        known = self._versions.get((api.url, path.removesuffix("/status")), [])
        if not which or not known:
            return ""
        return known[-1] if which == "newest" else known[0]


def _versioned(body: Obj, version: str) -> Obj:
    if not version:
        return body
    return {**body, "metadata": {**(body.get("metadata") or {}), "resourceVersion": version}}


def seen(obj: Any) -> Any:
    """An object without what differs between any two servers."""
    if not isinstance(obj, dict) or "metadata" not in obj:
        return obj
    metadata = {key: value for key, value in obj["metadata"].items() if key not in STAMPS}
    if "deletionTimestamp" in metadata:
        metadata["deletionTimestamp"] = "set"
    return {**obj, "metadata": metadata}


def answer(reply: Reply) -> Any:
    """What a program decides by: code and reason, or the object."""
    if reply.code >= 300:
        return reply.code, reply.reason
    if reply.body.get("kind") == "Status":
        return reply.code, "Status"
    return reply.code, seen(reply.body)


async def events(api: ContractApi, path: str, version: str) -> list[tuple[str, Any]]:
    """All events after `version`, up to the one that marks the end."""
    await api.made(path, _end_mark(path))
    found: list[tuple[str, Any]] = []
    for event in await api.watch(f"{path}?watch=1&resourceVersion={version}", 10_000, 2.0):
        if event["object"]["metadata"]["name"] == "zz-end":
            break
        if event["object"]["metadata"]["name"] != KUBE_ROOT_CA:
            found.append((event["type"], seen(event["object"])))
    return found


def _end_mark(path: str) -> Obj:
    match path.rsplit("/", 1)[1]:
        case "configmaps":
            return a_configmap("zz-end")
        case "foos":
            return a_foo("zz-end")
        case _:
            return a_lease("zz-end", "x")


@pytest.mark.parametrize("seed", range(6))
async def test_a_random_walk_of_writes_is_the_same_on_both(
    both: tuple[ContractApi, ContractApi], seed: int
) -> None:
    embedded, real = both
    walker = Walker(seed)
    begins = [(await api.get(path)).meta["resourceVersion"] for api in both for path in walked(api)]
    for number in range(STEPS):
        told, play = walker.step()
        ours, theirs = answer(await play(embedded)), answer(await play(real))
        assert ours == theirs, f"seed {seed}, step {number}: {told}"
    starts = iter(begins)
    histories = [[await events(api, path, next(starts)) for path in walked(api)] for api in both]
    for ours_, theirs_ in zip(*histories, strict=True):
        assert ours_ == theirs_, f"seed {seed}"


def walked(api: ContractApi) -> list[str]:
    return [api.configmaps, api.foos, api.leases]


async def test_walks_are_not_all_refusals(both: tuple[ContractApi, ContractApi]) -> None:
    """A walk in which nothing succeeds, or nothing fails, would compare nothing."""
    walker = Walker(0)
    codes = [(await walker.step()[1](both[0])).code for _ in range(STEPS)]
    assert sum(code < 300 for code in codes) > STEPS / 5
    assert {201, 200, 404, 409, 422} <= set(codes)
