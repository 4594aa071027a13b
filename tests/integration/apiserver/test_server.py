"""The embedded server as a program: where it listens, how it ends, what can go wrong.

What it answers as a real server does is in the contract suite; here is what only it has.
"""

import asyncio
import io
import json
import time
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import aiohttp
import pytest
from support.contract_api import (
    FOO_CRD,
    GROUP,
    ContractApi,
    Obj,
    a_configmap,
    a_crd,
    a_foo,
    a_pod,
)

from simulation.apiserver import EmbeddedApiServer, ListenError
from simulation.apiserver.calls import Call
from simulation.apiserver.faults import Delay, Drop, Fail

pytestmark = pytest.mark.integration


@pytest.fixture
async def server() -> AsyncIterator[EmbeddedApiServer]:
    async with EmbeddedApiServer(crds=[FOO_CRD]) as started:
        yield started


@pytest.fixture
async def api(server: EmbeddedApiServer) -> AsyncIterator[ContractApi]:
    async with aiohttp.ClientSession() as session:
        yield ContractApi(server.url, session, True, Path(), "default", True)


async def until(happened: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while True:
            if happened():
                return
            await asyncio.sleep(0.01)


# ---- where it listens, how it ends


async def test_taken_port_is_named_with_what_to_do(server: EmbeddedApiServer) -> None:
    port = int(server.url.rpartition(":")[2])
    with pytest.raises(ListenError, match=rf"port {port} .* is taken: .* another port"):
        await EmbeddedApiServer(port).start()


@pytest.mark.parametrize("host", ["0.0.0.0", "10.0.0.1", "::", "example.com"])
def test_only_loopback_is_listened_on(host: str) -> None:
    with pytest.raises(ListenError, match="loopback only"):
        EmbeddedApiServer(host=host)


async def test_stopping_ends_open_watches_soon(server: EmbeddedApiServer, api: ContractApi) -> None:
    async with asyncio.TaskGroup() as tasks:
        watching = [tasks.create_task(api.watch(f"{api.foos}?watch=1", 1, 20)) for _ in range(20)]
        await until(lambda: len(server.store.collection(f"foos.{GROUP}").listeners()) == 20)
        begun = time.monotonic()
        await server.stop()
        assert time.monotonic() - begun < 10, "the watches would last 20 s"
    assert all(task.result() == [] for task in watching)


async def test_objects_outlive_a_stop_and_a_start(
    server: EmbeddedApiServer, api: ContractApi
) -> None:
    await api.made(api.configmaps, a_configmap("c"))
    url = server.url
    await server.stop()
    await server.start()
    assert server.url == url
    assert (await api.get(f"{api.configmaps}/c")).code == 200


async def test_running_it_as_a_part_ends_with_the_task() -> None:
    server = EmbeddedApiServer()
    async with asyncio.TaskGroup() as tasks:
        part = tasks.create_task(server.run(), name=server.name)
        await until(lambda: not server.url.endswith(":0"))
        part.cancel()
    with pytest.raises(aiohttp.ClientConnectionError):
        async with aiohttp.ClientSession() as session:
            await session.get(server.url)


async def test_kubeconfig_names_the_server(server: EmbeddedApiServer, tmp_path: Path) -> None:
    path = tmp_path / "kubeconfig"
    await server.write_kubeconfig(path)
    [cluster] = json.loads(path.read_text())["clusters"]
    assert cluster["cluster"] == {"server": server.url}


async def test_client_that_leaves_ends_its_watch(
    server: EmbeddedApiServer, api: ContractApi
) -> None:
    foos = server.store.collection(f"foos.{GROUP}")
    await api.watch(f"{api.foos}?watch=1", 1, 0.3)
    await until(lambda: not foos.listeners())


async def test_loaded_objects_keep_their_status(
    server: EmbeddedApiServer, api: ContractApi
) -> None:
    pod = {**a_pod(name="p", namespace="default"), "status": {"phase": "Running"}}
    node: Obj = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": "n"}}
    server.load([pod, {**node, "status": {"conditions": []}}])
    assert (await api.get(f"{api.pods}/p")).status["phase"] == "Running"
    assert (await api.get("/api/v1/nodes/n")).status == {"conditions": []}


# ---- the past


async def test_old_watch_and_old_page_get_410_after_a_compaction(
    server: EmbeddedApiServer, api: ContractApi
) -> None:
    for name in ("a", "b", "c"):
        await api.made(api.foos, a_foo(name))
    page = await api.get(f"{api.foos}?limit=1")
    await api.patch(f"{api.foos}/b", {"spec": {"a": 2}})
    server.compact(f"foos.{GROUP}")
    reply = await api.get(f"{api.foos}?limit=1&continue={page.meta['continue']}")
    assert (reply.code, reply.reason) == (410, "Expired")
    [event] = await api.watch(f"{api.foos}?watch=1&resourceVersion={page.rv}", 1)
    assert event["object"]["code"] == 410


async def test_ring_that_is_full_says_410_to_older_watches() -> None:
    async with EmbeddedApiServer(crds=[FOO_CRD], history=4) as server, aiohttp.ClientSession() as s:
        api = ContractApi(server.url, s, True, Path(), "default", True)
        begun = (await api.get(api.foos)).rv
        for n in range(4):
            await api.made(api.foos, a_foo(f"x{n}"))
        path = f"{api.foos}?watch=1&resourceVersion={begun}"
        assert len(await api.watch(path, 4)) == 4
        await api.made(api.foos, a_foo("one-too-many"))
        [event] = await api.watch(path, 1)
        assert event["object"]["code"] == 410


async def test_client_of_an_earlier_server_gets_410_not_silence(api: ContractApi) -> None:
    before = (await api.get(api.foos)).rv - 60_000  # a server that started a minute ago
    [event] = await api.watch(f"{api.foos}?watch=1&resourceVersion={before}", 1)
    assert event["object"]["code"] == 410


async def test_bookmarks_tell_a_quiet_watch_where_it_is() -> None:
    async with (
        EmbeddedApiServer(crds=[FOO_CRD], bookmark_seconds=0.05) as server,
        aiohttp.ClientSession() as session,
    ):
        api = ContractApi(server.url, session, True, Path(), "default", True)
        here = (await api.get(api.foos)).rv
        await api.made(api.configmaps, a_configmap("elsewhere"))
        path = f"{api.foos}?watch=1&allowWatchBookmarks=true&resourceVersion={here}"
        [mark] = await api.watch(path, 1)
        assert mark["type"] == "BOOKMARK"
        assert int(mark["object"]["metadata"]["resourceVersion"]) > here


async def test_watches_can_be_cut(server: EmbeddedApiServer, api: ContractApi) -> None:
    async with asyncio.TaskGroup() as tasks:
        watching = tasks.create_task(api.watch(f"{api.foos}?watch=1", 1, 20))
        await until(lambda: bool(server.store.collection(f"foos.{GROUP}").listeners()))
        server.cut_watches(f"foos.{GROUP}")
    assert watching.result() == []


# ---- faults


async def test_a_fault_answers_for_the_server(server: EmbeddedApiServer, api: ContractApi) -> None:
    def busy(call: Call) -> Fail | None:
        return Fail(429, "TooManyRequests", "busy", 7) if call.verb == "list" else None

    server.faults.append(busy)
    reply = await api.get(api.foos)
    assert (reply.code, reply.reason, reply.headers["Retry-After"]) == (
        429,
        "TooManyRequests",
        "7",
    )
    await api.made(api.foos, a_foo("x"))
    server.faults.clear()
    assert (await api.get(api.foos)).names == ["x"]


async def test_a_fault_delays(server: EmbeddedApiServer, api: ContractApi) -> None:
    server.faults.append(lambda call: Delay(0.2))
    begun = time.monotonic()
    assert (await api.get(api.foos)).code == 200
    assert time.monotonic() - begun > 0.19


@pytest.mark.parametrize("done", [False, True])
async def test_a_lost_connection_leaves_the_write_done_or_undone(
    server: EmbeddedApiServer, api: ContractApi, done: bool
) -> None:
    server.faults.append(lambda call: Drop(done=done))
    with pytest.raises(aiohttp.ClientConnectionError):
        await api.post(api.foos, a_foo("x"))
    server.faults.clear()
    assert (await api.get(f"{api.foos}/x")).code == (200 if done else 404)


# ---- admission


async def test_admission_hook_refuses_with_its_sentence() -> None:
    def even(new: Obj, old: Obj | None) -> None:
        if new["spec"]["a"] % 2:
            raise ValueError(f"a must be even, not {new['spec']['a']}")

    hooks = {f"foos.{GROUP}": even}
    async with (
        EmbeddedApiServer(crds=[FOO_CRD], admission=hooks) as server,
        aiohttp.ClientSession() as session,
    ):
        api = ContractApi(server.url, session, True, Path(), "default", True)
        reply = await api.post(api.foos, a_foo("x", a=1))
        assert (reply.code, reply.reason) == (422, "Invalid")
        assert "a must be even, not 1" in reply.body["message"]
        await api.made(api.foos, a_foo("x", a=2))
        assert (await api.patch(f"{api.foos}/x", {"spec": {"a": 3}})).code == 422
        assert (await api.get(f"{api.foos}/x")).spec["a"] == 2


# ---- what it does not do, it says


@pytest.mark.parametrize(
    ("method", "path", "body", "content_type", "code", "says"),
    [
        (
            "POST",
            "configmaps",
            b"k8s\x00",
            "application/vnd.kubernetes.protobuf",
            415,
            "protobuf.*application/json",
        ),
        ("GET", "pods/p/log", None, "", 404, "pods/log.*no processes"),
        ("POST", "pods/p/exec", None, "", 404, "pods/exec.*no processes"),
    ],
)
async def test_what_is_not_supported_is_named_with_what_to_do(
    api: ContractApi,
    method: str,
    path: str,
    body: bytes | None,
    content_type: str,
    code: int,
    says: str,
) -> None:
    await api.made(api.configmaps, a_configmap("c"))
    await api.made(api.pods, a_pod(name="p"))
    full = f"/api/v1/namespaces/default/{path}"
    reply = await api.call(method, full, body, content_type or "application/json")
    assert reply.code == code
    assert reply.body["kind"] == "Status"
    message = reply.body["message"]
    assert "embedded API server does not support" in message
    first, second = says.split(".*")
    assert first in message
    assert second in message


async def test_answers_in_protobuf_are_not_supported(api: ContractApi) -> None:
    reply = await api.get(api.configmaps, accept="application/vnd.kubernetes.protobuf")
    assert reply.code == 406
    assert "Accept: application/json" in reply.body["message"]


@pytest.mark.parametrize(
    ("body", "says"),
    [
        (b"metadata: &m\n  name: c\ndata: *m", "aliases"),
        (b"[" * 200, "inside one another"),
        (b"data: {", "decoding YAML"),
        (b"\xff\xfe", "decoding YAML"),
    ],
)
async def test_yaml_that_cannot_be_read_is_refused_with_why(
    api: ContractApi, body: bytes, says: str
) -> None:
    reply = await api.call("POST", api.configmaps, body, "application/yaml")
    assert (reply.code, reply.reason) == (400, "BadRequest")
    assert says in reply.body["message"]


async def test_crd_with_two_served_versions_is_not_supported(api: ContractApi) -> None:
    crd = a_crd("bars", "Bar", {"type": "object"}, "two.example.com")
    crd["spec"]["versions"].append({**crd["spec"]["versions"][0], "name": "v2", "storage": False})
    reply = await api.post("/apis/apiextensions.k8s.io/v1/customresourcedefinitions", crd)
    assert reply.code == 422
    assert "no conversion" in reply.body["message"]


async def test_answer_to_nonsense_is_a_status(api: ContractApi) -> None:
    for path in ("/api/v1/namespaces/default", "/logs", "/apis/no.such/v1/x", "/api/v2/x/y"):
        reply = await api.get(path)
        assert reply.code in (200, 404), path
        assert reply.body["kind"] in ("Status", "Namespace"), path
    assert (await api.call("POST", "/version", {})).code == 405
    assert (await api.call("OPTIONS", api.configmaps)).code == 405


async def test_body_that_is_too_large_is_refused(api: ContractApi) -> None:
    body = io.BytesIO(json.dumps(a_configmap("big", {"k": "x" * (4 * 2**20)})).encode())
    headers = {"Content-Type": "application/json"}
    url = api.url + api.configmaps
    async with api.session.post(url, data=body, headers=headers) as response:
        assert response.status == 413
        assert (await response.json())["reason"] == "RequestEntityTooLarge"
