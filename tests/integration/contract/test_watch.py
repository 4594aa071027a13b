"""Watches: replay, selection, bookmarks, an end in time, and 410 when the past is gone."""

import asyncio
import time

import pytest
from support.contract_api import TABLE, ContractApi, Obj, a_configmap, a_foo, a_pod

pytestmark = pytest.mark.integration


def types(events: list[Obj]) -> list[str]:
    return [event["type"] for event in events]


def names(events: list[Obj]) -> list[str]:
    return [event["object"]["metadata"]["name"] for event in events]


@pytest.mark.parametrize("version", ["", "&resourceVersion=0", "&resourceVersion="])
async def test_watch_without_a_version_begins_with_what_is(api: ContractApi, version: str) -> None:
    await api.made(api.foos, a_foo("x"))
    events = await api.watch(f"{api.foos}?watch=true{version}", 1)
    assert types(events) == ["ADDED"]
    assert names(events) == ["x"]


@pytest.mark.parametrize("flag", ["1", "true"])
async def test_watch_is_recognised(api: ContractApi, flag: str) -> None:
    await api.made(api.foos, a_foo("x"))
    assert types(await api.watch(f"{api.foos}?watch={flag}", 1)) == ["ADDED"]


async def test_watch_from_a_version_replays_what_came_after(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("before"))
    here = (await api.get(api.foos)).rv
    assert await api.watch(f"{api.foos}?watch=true&resourceVersion={here}", 1, 1.0) == []
    await api.made(api.foos, a_foo("x"))
    await api.patch(f"{api.foos}/x", {"spec": {"a": 2}})
    await api.delete(f"{api.foos}/x")
    events = await api.watch(f"{api.foos}?watch=true&resourceVersion={here}", 3)
    assert types(events) == ["ADDED", "MODIFIED", "DELETED"]
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert here < versions[0] < versions[1] < versions[2]
    assert events[2]["object"]["spec"]["a"] == 2


async def test_watch_sees_live_changes(api: ContractApi) -> None:
    here = (await api.get(api.foos)).rv
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(api.watch(f"{api.foos}?watch=1&resourceVersion={here}", 2))
        await api.made(api.foos, a_foo("x"))
        await api.patch(f"{api.foos}/x/status", {"status": {"n": 1}})
    assert types(watching.result()) == ["ADDED", "MODIFIED"]


async def test_watch_of_one_name_sees_only_it(api: ContractApi) -> None:
    here = (await api.get(api.foos)).rv
    for name in ("one", "two", "one-more"):
        await api.made(api.foos, a_foo(name))
        await api.patch(f"{api.foos}/{name}", {"spec": {"a": 2}})
    await api.delete(f"{api.foos}/two")
    path = f"{api.foos}?watch=true&fieldSelector=metadata.name%3Dtwo&resourceVersion={here}"
    events = await api.watch(path, 4, 1.5)
    assert types(events) == ["ADDED", "MODIFIED", "DELETED"]
    assert set(names(events)) == {"two"}


async def test_watch_flag_beside_a_name_is_a_plain_read(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    reply = await api.get(f"{api.foos}/x?watch=true&timeoutSeconds=1")
    assert reply.code == 200
    assert reply.body.get("kind", reply.body.get("type")) in ("Foo", "ADDED")


async def test_entering_and_leaving_a_selection_are_added_and_deleted(api: ContractApi) -> None:
    made = await api.made(api.configmaps, a_configmap("c", {"n": "1"}, labels={"w": "1"}))
    path = f"{api.configmaps}/c"
    await api.patch(path, {"metadata": {"labels": {"w": "2"}}, "data": {"n": "2"}})
    await api.patch(path, {"metadata": {"labels": {"w": "1"}}})
    await api.delete(path)
    query = f"watch=true&labelSelector=w%3D1&resourceVersion={made.rv}"
    events = await api.watch(f"{api.configmaps}?{query}", 3)
    assert types(events) == ["DELETED", "ADDED", "DELETED"]
    assert events[0]["object"]["data"] == {"n": "1"}  # as it was when it was selected
    assert events[0]["object"]["metadata"]["labels"] == {"w": "1"}
    versions = [int(event["object"]["metadata"]["resourceVersion"]) for event in events]
    assert made.rv < versions[0] < versions[1] < versions[2]


async def test_watch_by_a_field_follows_its_changes(api: ContractApi) -> None:
    here = (await api.get(api.foos)).rv
    await api.made(api.foos, a_foo("x", node="n1"))
    await api.patch(f"{api.foos}/x", {"spec": {"node": "n2"}})
    await api.patch(f"{api.foos}/x", {"spec": {"a": 5}})
    await api.patch(f"{api.foos}/x", {"spec": {"node": "n1"}})
    query = f"watch=true&resourceVersion={here}&fieldSelector=spec.node%3D"
    assert types(await api.watch(f"{api.foos}?{query}n1", 3)) == ["ADDED", "DELETED", "ADDED"]
    assert types(await api.watch(f"{api.foos}?{query}n2", 3)) == ["ADDED", "MODIFIED", "DELETED"]


async def test_watch_by_a_field_is_live_too(api: ContractApi) -> None:
    here = (await api.get(api.pods)).rv
    query = f"watch=true&resourceVersion={here}&fieldSelector=spec.nodeName%3Dn9"
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(api.watch(f"{api.pods}?{query}", 2))
        await api.made(api.pods, a_pod(name="other", node="n8"))
        await api.made(api.pods, a_pod(name="mine", node="n9"))
        await api.patch(f"{api.pods}/mine/status", {"status": {"phase": "Running"}})
    assert types(watching.result()) == ["ADDED", "MODIFIED"]
    assert names(watching.result()) == ["mine", "mine"]


async def test_timeout_ends_the_watch_in_time(api: ContractApi) -> None:
    here = (await api.get(api.foos)).rv
    begun = time.monotonic()
    path = f"{api.foos}?watch=true&resourceVersion={here}&timeoutSeconds=1"
    assert await api.watch(path, 99, 10) == []
    assert 0.8 < time.monotonic() - begun < 9


async def test_watch_from_a_version_that_is_gone_gets_410(api: ContractApi) -> None:
    events = await api.watch(f"{api.foos}?watch=true&resourceVersion=1", 1)
    assert types(events) == ["ERROR"]
    assert events[0]["object"]["code"] == 410
    assert events[0]["object"]["reason"] in ("Expired", "Gone")


async def test_watch_from_the_future_is_silent(api: ContractApi) -> None:
    future = (await api.get(api.foos)).rv + 1_000_000
    path = f"{api.foos}?watch=true&allowWatchBookmarks=true&resourceVersion={future}"
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(api.watch(path, 1, 1.5))
        await api.made(api.foos, a_foo("x"))
    assert watching.result() == []


async def test_initial_events_end_with_a_bookmark(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
    events = await api.watch(f"{api.foos}?{query}&resourceVersionMatch=NotOlderThan", 2)
    assert types(events) == ["ADDED", "BOOKMARK"]
    mark = events[1]["object"]["metadata"]
    assert mark["annotations"] == {"k8s.io/initial-events-end": "true"}
    assert int(mark["resourceVersion"]) > 0


async def test_initial_events_need_a_match_rule(api: ContractApi) -> None:
    query = "watch=true&allowWatchBookmarks=true&sendInitialEvents=true"
    assert await api.watch(f"{api.foos}?{query}", 1) == [{"type": "HTTP", "code": 422}]


async def test_watch_with_an_unsupported_selector_is_refused(api: ContractApi) -> None:
    refused = [{"type": "HTTP", "code": 400}]
    assert await api.watch(f"{api.foos}?watch=1&fieldSelector=spec.a%3D1", 1) == refused
    assert await api.watch(f"{api.foos}?watch=1&labelSelector=a%20b", 1) == refused


async def test_watch_as_tables_names_its_columns_once(api: ContractApi) -> None:
    await api.made(api.foos, a_foo("x"))
    await api.made(api.foos, a_foo("y"))
    reply = await api.get(f"{api.foos}?watch=true&timeoutSeconds=1", accept=TABLE)
    lines = [line for line in str(reply.body).splitlines() if line]
    assert len(lines) == 2
    assert '"columnDefinitions":[{' in lines[0].replace(" ", "")
    assert '"columnDefinitions":[{' not in lines[1].replace(" ", "")


async def test_namespaced_watch_does_not_see_other_namespaces(api: ContractApi) -> None:
    here = (await api.get(api.configmaps)).rv
    await api.made("/api/v1/namespaces/default/configmaps", a_configmap(api.ns))
    await api.made(api.configmaps, a_configmap("mine"))
    await api.delete(f"/api/v1/namespaces/default/configmaps/{api.ns}")
    events = await api.watch(f"{api.configmaps}?watch=true&resourceVersion={here}", 2, 1.5)
    assert "mine" in names(events)
    assert api.ns not in names(events)
