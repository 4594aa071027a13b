"""An embedded API server that keeps its objects: what a restart gives back, and what it ends."""

import sqlite3
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path

import aiohttp
import pytest
from support.contract_api import (
    APPLY,
    FOO_CRD,
    GROUP,
    ContractApi,
    a_configmap,
    a_foo,
    a_lease,
)

from simulation.apiserver import EmbeddedApiServer
from simulation.apiserver.database import DatabaseError

pytestmark = pytest.mark.integration
AGO = datetime(2020, 1, 1, tzinfo=UTC)


@asynccontextmanager
async def served(path: Path, clock: datetime | None = None) -> AsyncIterator[ContractApi]:
    """A server on the file `path`, by a clock that may have gone back."""
    times = {} if clock is None else {"now": lambda: clock}
    async with (
        EmbeddedApiServer(crds=[FOO_CRD], database=path, **times) as server,  # type: ignore[arg-type]
        aiohttp.ClientSession() as session,
    ):
        yield ContractApi(server.url, session, True, Path(), "default", True)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "objects.db"


async def test_objects_are_the_same_after_a_restart(path: Path) -> None:
    async with served(path) as api:
        await api.made(api.configmaps, a_configmap("c", {"a": "1"}))
        await api.patch(f"{api.configmaps}/c?fieldManager=m", {"data": {"a": "2"}})
        await api.made(api.configmaps, a_configmap("gone"))
        await api.delete(f"{api.configmaps}/gone")
        await api.patch(f"{api.foos}/x?fieldManager=m", a_foo("x", node="n1"), APPLY)
        before = [(await api.get(p)).body["items"] for p in (api.configmaps, api.foos)]
    async with served(path) as api:
        after = [(await api.get(p)).body["items"] for p in (api.configmaps, api.foos)]
        assert after == before
        foo = await api.patch(f"{api.foos}/x?fieldManager=m", a_foo("x"), APPLY)
        assert "node" not in foo.spec, "who owned what is known"
        assert (await api.get(f"{api.foos}?fieldSelector=spec.node%3D")).names == ["x"]


async def test_what_a_killed_server_answered_is_there(path: Path) -> None:
    async with served(path) as killed:
        made = await killed.made(killed.leases, a_lease("l", "a"))
        async with served(path) as api:  # the first has had no chance to end
            assert (await api.get(f"{api.leases}/l")).body == made.body


@pytest.mark.parametrize("clock", [None, AGO])
async def test_clients_of_before_list_again(path: Path, clock: datetime | None) -> None:
    async with served(path) as api:
        await api.made(api.foos, a_foo("x"))
        await api.made(api.foos, a_foo("y"))
        await api.delete(f"{api.foos}/y")
        here = (await api.get(api.foos)).rv
    async with served(path, clock) as api:
        assert (await api.get(api.foos)).rv > here
        [event] = await api.watch(f"{api.foos}?watch=1&resourceVersion={here}", 1)
        assert event["object"]["code"] == 410
        reply = await api.put(f"{api.foos}/x", a_foo("x", {"resourceVersion": str(here)}))
        assert reply.code == 409


async def test_deletions_that_were_under_way_come_to_their_end(path: Path) -> None:
    async with served(path) as api:
        owner = (await api.made(api.configmaps, a_configmap("owner"))).meta["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
        child = a_configmap("child", ownerReferences=[reference], finalizers=["a.b/c"])
        await api.made(api.configmaps, child)
        await api.delete(f"{api.configmaps}/owner")
        await api.until(f"{api.configmaps}/child", lambda r: "deletionTimestamp" in r.meta)
        space = {"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": "going"}}
        await api.made("/api/v1/namespaces", space)
        held = a_foo("held", {"finalizers": ["a.b/c"]})
        await api.made(f"/apis/{GROUP}/v1/namespaces/going/foos", held)
        await api.delete("/api/v1/namespaces/going")
    async with served(path) as api:
        free = {"metadata": {"finalizers": None}}
        await api.patch(f"{api.configmaps}/child", free)
        await api.until(f"{api.configmaps}/child", lambda reply: reply.code == 404)
        foo = f"/apis/{GROUP}/v1/namespaces/going/foos/held"
        await api.until(foo, lambda reply: "deletionTimestamp" in reply.meta)
        await api.patch(foo, free)
        await api.until("/api/v1/namespaces/going", lambda reply: reply.code == 404)


async def test_dependents_of_an_owner_that_went_just_before_the_end_go(path: Path) -> None:
    async with served(path) as api:
        owner = (await api.made(api.configmaps, a_configmap("owner"))).meta["uid"]
        reference = {"apiVersion": "v1", "kind": "ConfigMap", "name": "owner", "uid": owner}
        await api.made(api.configmaps, a_configmap("child", ownerReferences=[reference]))
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM objects WHERE name = 'owner'")
    connection.close()
    async with served(path) as api:
        await api.until(f"{api.configmaps}/child", lambda reply: reply.code == 404)


async def test_write_that_cannot_be_kept_is_not_done(path: Path) -> None:
    async with served(path) as api:
        made = await api.made(api.configmaps, a_configmap("c", {"a": "1"}))
        with sqlite3.connect(path) as connection:
            connection.execute("DROP TABLE objects")
        connection.close()
        reply = await api.patch(f"{api.configmaps}/c", {"data": {"a": "2"}})
        assert (reply.code, str(path) in reply.body["message"]) == (500, True)
        assert (await api.post(api.configmaps, a_configmap("d"))).code == 500
        assert (await api.get(f"{api.configmaps}/c")).body == made.body
        assert (await api.get(f"{api.configmaps}/d")).code == 404


def test_file_that_is_no_database_is_named(path: Path) -> None:
    path.write_text("not a database, but long enough to be taken for one" * 100)
    with pytest.raises(DatabaseError, match=r"objects cannot be kept in .*objects\.db"):
        EmbeddedApiServer(database=path)
