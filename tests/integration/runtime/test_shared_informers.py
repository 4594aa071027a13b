"""Informers of one process: whoever reads a kind, the API server is asked once."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import msgspec
import pytest
from support.fake_kube import FakeKube
from support.running import NODES, running, until

from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.informers import Informers
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, structs
from kubenode.runtime.process import serve


class Labelled(msgspec.Struct):
    """A Node as a part reads it that needs less of it, and more exactly."""

    metadata: KubeObjectMeta
    count: int = 0


def node(name: str, **more: Any) -> dict[str, Any]:
    return {"metadata": {"name": name, "labels": {"v": str(more.pop("v", ""))}}, **more}


@asynccontextmanager
async def both(
    kube: Kube, **options: Any
) -> AsyncIterator[tuple[Informer[Node], Informer[Node], Informer[Labelled]]]:
    """Two that decode alike and one that does not, synced."""
    shared = Informers()
    options = {"watch_seconds": 2.0, "resync": None} | options
    one = shared(kube, NODES, structs(Node), name="one", **options)
    two = shared(kube, NODES, structs(Node), name="two", **options)
    other = shared(kube, NODES, structs(Labelled), name="other", **options)
    async with running_all(one, two, other):
        await one.synced.wait()
        yield one, two, other


@asynccontextmanager
async def running_all(*parts: Any) -> AsyncIterator[None]:
    async with running(serve(parts)):
        yield


async def test_one_list_and_one_watch_serve_all(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("n1"))
    async with both(kube) as informers:
        await until(lambda: server.watches == 1)
        written = server.put(NODES, node("n2", v=1))
        for each in informers:
            await each.wait_for("n2", written["metadata"]["resourceVersion"])
            assert set(each.cache) == {"n1", "n2"}
            assert each.fresh() and each.hearing_since() is not None
        assert (server.lists(), server.watches) == (1, 1)
        gone = server.remove(NODES, "n1")
        for each in informers:
            await each.wait_for("n1", gone["metadata"]["resourceVersion"])
            assert set(each.cache) == {"n2"}


async def test_every_part_says_which_version_it_has_reached(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("n1"))
    async with both(kube) as informers:
        listed = informers[0].resource_version
        assert int(listed) > 0
        assert [each.resource_version for each in informers] == [listed] * 3
        await until(lambda: server.watches == 1)
        added = server.put(NODES, node("n2"))["metadata"]["resourceVersion"]
        for each in informers:
            await each.wait_for("n2", added)
            assert each.resource_version == added
        removed = server.remove(NODES, "n1")["metadata"]["resourceVersion"]
        for each in informers:
            await each.wait_for("n1", removed)
            assert each.resource_version == removed


async def test_what_decodes_alike_is_decoded_once(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("n1"))
    async with both(kube) as (one, two, other):
        written = server.put(NODES, node("n2"))
        await one.wait_for("n2", written["metadata"]["resourceVersion"])
        assert all(one.cache[name] is two.cache[name] for name in ("n1", "n2"))
        assert isinstance(other.cache["n1"], Labelled)


async def test_indexes_and_handlers_are_of_each_part(server: FakeKube, kube: Kube) -> None:
    async with both(kube) as (one, two, other):
        one.add_index("v", lambda n: [n.metadata.labels["v"]])
        other.add_index("v", lambda n: [n.metadata.labels["v"] * 2])
        heard: list[str] = []
        two.add_handler(lambda key, old, new: heard.append(key))
        written = server.put(NODES, node("n1", v=3))
        await two.wait_for("n1", written["metadata"]["resourceVersion"])
        assert heard == ["n1"]
        assert [n.metadata.name for n in one.by("v", "3")] == ["n1"]
        assert [n.metadata.name for n in other.by("v", "33")] == ["n1"]


async def test_what_one_part_cannot_read_is_unreadable_for_it_alone(
    server: FakeKube, kube: Kube
) -> None:
    server.put(NODES, node("n1", count=1))
    async with both(kube) as (one, two, other):
        written = server.put(NODES, node("n1", v=2, count="many"))
        await other.wait_for("n1", written["metadata"]["resourceVersion"])
        assert one.cache["n1"].metadata.labels == two.cache["n1"].metadata.labels == {"v": "2"}
        assert one.readable("n1") and two.readable("n1") and not other.readable("n1")
        assert other.cache["n1"].count == 1, "the last good copy stays"
        healed = server.put(NODES, node("n1", count=3))
        await other.wait_for("n1", healed["metadata"]["resourceVersion"])
        assert other.readable("n1") and other.cache["n1"].count == 3


async def test_a_part_that_cannot_index_an_object_keeps_it_from_no_other(
    server: FakeKube, kube: Kube
) -> None:
    async with both(kube) as (one, two, _):

        def odd(each: Node) -> list[str]:
            raise ValueError("odd")

        one.add_index("odd", odd)
        written = server.put(NODES, node("n1"))
        await one.wait_for("n1", written["metadata"]["resourceVersion"])
        assert not one.readable("n1") and "n1" not in one.cache
        assert two.readable("n1") and "n1" in two.cache


async def test_what_vanished_meanwhile_is_gone_for_all(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, node("n1"))
    server.put(NODES, node("n2"))
    async with both(kube) as informers:
        await until(lambda: server.watches == 1)
        await server.stop()
        server.remove(NODES, "n1")
        server.compact()
        await server.start()
        await until(lambda: all(set(each.cache) == {"n2"} for each in informers))


async def test_the_answer_to_a_write_is_taken_over_by_who_wrote(
    server: FakeKube, kube: Kube
) -> None:
    async with both(kube) as (_, two, _other):
        made = await kube.create(NODES, node("n1"), decode=two.read)
        await two.wait_for("n1", made.metadata.resource_version)
        assert two.cache["n1"] is made


async def test_the_one_who_needs_proof_most_often_sets_the_length_of_a_watch(
    server: FakeKube, kube: Kube
) -> None:
    shared = Informers()
    seldom = shared(kube, NODES, structs(Node), watch_seconds=300.0)
    often = shared(kube, NODES, structs(Node), watch_seconds=2.0)
    async with running_all(seldom, often):
        await until(lambda: server.watches == 1)
        asked = [int(q["timeoutSeconds"]) for q in queries(server) if "timeoutSeconds" in q]
        assert asked and max(asked) <= 2


async def test_parts_of_a_kind_are_followed_apart(server: FakeKube, kube: Kube) -> None:
    shared = Informers()
    every = shared(kube, NODES, structs(Node))
    some = shared(kube, NODES, structs(Node), field_selector="metadata.name=n1")
    async with running_all(every, some):
        await until(lambda: server.watches == 2)


async def test_a_view_that_comes_too_late_is_refused(server: FakeKube, kube: Kube) -> None:
    shared = Informers()
    early = shared(kube, NODES, structs(Node))
    async with running_all(early):
        await early.synced.wait()
        with pytest.raises(ValueError, match="runs already"):
            shared(kube, NODES, structs(Labelled))


def queries(server: FakeKube) -> list[dict[str, str]]:
    return [query for _, _, query in server.requests]
