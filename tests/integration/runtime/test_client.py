"""The client and both transports over real HTTP."""

import asyncio
import gc
import json
import sys
import time
import warnings
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web
from support.fake_kube import FakeKube, answer, hang, reset, status
from support.pki import Authority
from support.rude_server import rude_server

from kubenode.runtime.kube import lists, paths
from kubenode.runtime.kube.client import JSON_PATCH, Kube
from kubenode.runtime.kube.errors import (
    AlreadyExists,
    Conflict,
    KubeError,
    NotFound,
    ServerUnreachable,
    TooManyRequests,
    Unauthorized,
    Undecodable,
)
from kubenode.runtime.kube.objects import Node, structs
from kubenode.runtime.kube.official import KubeconfigError, connect
from kubenode.runtime.kube.plain import PlainTransport

NODES = paths.nodes()
N1 = {"metadata": {"name": "n1"}}


async def test_reads_and_writes_objects(server: FakeKube, kube: Kube) -> None:
    made = await kube.create(NODES, N1)
    assert made["metadata"]["resourceVersion"]
    with pytest.raises(AlreadyExists):
        await kube.create(NODES, N1)
    got = await kube.get(paths.node("n1"), structs(Node))
    assert got.metadata.name == "n1"
    await kube.patch(paths.node("n1"), {"spec": {"unschedulable": True}})
    assert server.objects[NODES]["n1"]["spec"] == {"unschedulable": True}
    stale = {**made, "spec": {}}
    with pytest.raises(Conflict, match="PUT /api/v1/nodes/n1: 409 Conflict: the object has been"):
        await kube.replace(paths.node("n1"), stale)
    await kube.delete(paths.node("n1"), uid="u")
    with pytest.raises(NotFound):
        await kube.get(paths.node("n1"))


async def test_a_long_list_is_read_page_by_page(server: FakeKube, kube: Kube) -> None:
    names = {f"n{number:04d}" for number in range(2 * lists.PAGE + 1)}
    for name in names:
        server.put(NODES, {"metadata": {"name": name}})
    found = [one["metadata"]["name"] async for one in lists.items(kube, NODES, selector="a=b")]
    assert len(found) == len(names)
    assert set(found) == names
    asked = [query for method, _, query in server.requests if method == "GET"]
    assert [query["labelSelector"] for query in asked] == ["a=b"] * 3


async def test_names_the_content_type_of_each_body(server: FakeKube, kube: Kube) -> None:
    seen: list[tuple[str, str, bytes]] = []

    async def record(request: web.Request) -> web.StreamResponse | None:
        kind = request.headers.get("Content-Type", "")
        seen.append((request.method, kind, await request.read()))
        return web.json_response({})

    server.faults.append(record)
    await kube.get(paths.node("n1"))
    await kube.patch(paths.node("n1"), {"a": None})
    await kube.patch(paths.node("n1"), [{"op": "test", "path": "/a", "value": 1}], JSON_PATCH)
    await kube.delete(paths.node("n1"), uid="u", resource_version="7", propagation="Background")
    assert [(method, kind) for method, kind, _ in seen] == [
        ("GET", ""),
        ("PATCH", "application/merge-patch+json"),
        ("PATCH", "application/json-patch+json"),
        ("DELETE", "application/json"),
    ]
    assert json.loads(seen[3][2]) == {
        "kind": "DeleteOptions",
        "apiVersion": "v1",
        "preconditions": {"uid": "u", "resourceVersion": "7"},
        "propagationPolicy": "Background",
    }


async def test_a_read_is_tried_again_and_honours_retry_after(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, N1)
    server.faults.append(answer(status(429, "TooManyRequests"), times=1, retry_after=1))
    began = time.monotonic()
    await kube.get(paths.node("n1"))
    assert time.monotonic() - began >= 1.0


async def test_a_read_gives_up_when_the_server_asks_for_more_time_than_it_has(
    server: FakeKube, kube: Kube
) -> None:
    server.faults.append(answer(status(429, "TooManyRequests"), retry_after=60))
    with pytest.raises(TooManyRequests) as caught:
        await kube.get(paths.node("n1"))
    assert caught.value.retry_after == 60
    assert server.asked("GET") == 1


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (reset, ServerUnreachable),
        (hang, ServerUnreachable),
        (answer(status(503, "ServiceUnavailable")), KubeError),
        (answer(status(429, "TooManyRequests")), TooManyRequests),
    ],
    ids=["reset", "hang", "503", "429"],
)
async def test_a_write_is_never_repeated(
    server: FakeKube, fault: Any, error: type[Exception]
) -> None:
    kube = Kube(PlainTransport(server.url), timeout=0.3)
    server.faults.append(fault)
    with pytest.raises(error):
        await kube.create(NODES, N1)
    assert server.asked("POST") == 1
    await kube.close()


async def test_causes_and_pages_of_proxies_reach_the_error(server: FakeKube, kube: Kube) -> None:
    budget = status(429, "TooManyRequests", "budget", causes=[{"reason": "DisruptionBudget"}])
    server.faults.append(answer(budget, times=1))
    with pytest.raises(TooManyRequests) as caught:
        await kube.create(paths.eviction("ns", "p"), {})
    assert caught.value.causes == {"DisruptionBudget"}

    async def page(request: web.Request) -> web.StreamResponse | None:
        return web.Response(text="<html>bad gateway</html>", status=502)

    server.faults.append(page)
    with pytest.raises(KubeError, match="502: <html>bad gateway"):
        await kube.create(NODES, N1)


async def test_an_answer_that_does_not_decode_is_our_error(server: FakeKube, kube: Kube) -> None:
    server.put(NODES, {"metadata": {"name": "n1"}, "spec": {"taints": "none"}})
    with pytest.raises(Undecodable, match="cannot read the answer"):
        await kube.get(paths.node("n1"), structs(Node))


async def test_a_rate_above_the_bound_waits(server: FakeKube) -> None:
    server.put(NODES, N1)
    kube = Kube(PlainTransport(server.url), rate=50, burst=1)
    began = time.monotonic()
    for _ in range(11):
        await kube.get(paths.node("n1"))
    assert time.monotonic() - began >= 0.2
    await kube.close()


# -- kubeconfig ---------------------------------------------------------------------------------


def kubeconfig(tmp_path: Path, server: str, user: dict[str, Any]) -> str:
    path = tmp_path / "kubeconfig"
    config = {
        "current-context": "c",
        "contexts": [{"name": "c", "context": {"cluster": "k", "user": "u"}}],
        "clusters": [{"name": "k", "cluster": {"server": server}}],
        "users": [{"name": "u", "user": user}],
    }
    path.write_text(json.dumps(config))
    return str(path)


async def test_an_exec_plugin_runs_again_when_its_token_is_refused(
    server: FakeKube, tmp_path: Path
) -> None:
    server.put(NODES, N1)
    token = tmp_path / "token"
    token.write_text("first")
    script = tmp_path / "plugin.py"
    script.write_text(
        "import json\n"
        f"token = open({str(token)!r}).read()\n"
        "print(json.dumps({'apiVersion': 'client.authentication.k8s.io/v1',"
        " 'kind': 'ExecCredential', 'status': {'token': token}}))\n"
    )
    plugin = {
        "apiVersion": "client.authentication.k8s.io/v1",
        "command": sys.executable,
        "args": [str(script)],
        "interactiveMode": "Never",
    }
    kube = Kube(connect(kubeconfig(tmp_path, server.url, {"exec": plugin})))
    server.token = "first"
    await kube.get(paths.node("n1"))
    token.write_text("second")
    server.token = "second"
    await kube.get(paths.node("n1"))
    assert kube.transport.generation == 1
    await kube.close()


async def test_a_token_file_is_read_again_when_its_token_is_refused(
    server: FakeKube, tmp_path: Path
) -> None:
    server.put(NODES, N1)
    token = tmp_path / "token"
    token.write_text("first")
    server.token = "first"
    kube = Kube(connect(kubeconfig(tmp_path, server.url, {"tokenFile": str(token)})))
    await kube.get(paths.node("n1"))
    token.write_text("second")
    server.token = "second"
    await kube.get(paths.node("n1"))
    await kube.close()


async def test_a_plugin_that_fails_is_named(server: FakeKube, tmp_path: Path) -> None:
    plugin = {"apiVersion": "client.authentication.k8s.io/v1", "command": "/no/such/plugin"}
    kube = Kube(connect(kubeconfig(tmp_path, server.url, {"exec": plugin})))
    with pytest.raises(Unauthorized, match="/no/such/plugin"):
        await kube.get(paths.node("n1"))
    assert server.requests == [], "nothing is asked without credentials"
    await kube.close()


async def test_a_token_that_stays_refused_is_an_error_after_one_reload(
    server: FakeKube, tmp_path: Path
) -> None:
    server.token = "right"
    kube = Kube(connect(kubeconfig(tmp_path, server.url, {"token": "wrong"})))
    with pytest.raises(Unauthorized):
        await kube.get(paths.node("n1"))
    assert server.asked("GET") == 2
    await kube.close()


def test_a_kubeconfig_that_does_not_exist_is_named() -> None:
    with pytest.raises(KubeconfigError, match="kubeconfig /no/such/file: no such file"):
        connect("/no/such/file")


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("{", "is not usable"),
        ("", "is not usable"),
        ("- 1", "is not usable"),
        ('{"current-context": "c", "contexts": []}', "Expected object with name c"),
    ],
)
def test_a_broken_kubeconfig_is_named_with_what_is_wrong(
    tmp_path: Path, text: str, sentence: str
) -> None:
    path = tmp_path / "kubeconfig"
    path.write_text(text)
    with pytest.raises(KubeconfigError, match=sentence) as caught:
        connect(str(path))
    assert str(path) in str(caught.value)


def test_an_unknown_context_is_named(tmp_path: Path) -> None:
    path = kubeconfig(tmp_path, "http://127.0.0.1:1", {})
    with pytest.raises(KubeconfigError, match="prod"):
        connect(path, "prod")


def test_no_cluster_at_all_says_where_it_looked(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.delenv("KUBECONFIG", raising=False)
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    with pytest.raises(KubeconfigError, match="name a file with --kubeconfig"):
        connect()


@pytest.mark.parametrize("name", ["http_proxy", "HTTP_PROXY"])
async def test_the_proxy_of_the_environment_is_asked(
    server: FakeKube, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    server.put(NODES, N1)
    monkeypatch.delenv("REQUEST_METHOD", raising=False)
    monkeypatch.setenv(name, server.url.replace("http://", "http://me:secret@"))
    kube = Kube(PlainTransport("http://api.invalid"), timeout=2.0)
    try:
        assert (await kube.get(paths.node("n1")))["metadata"]["name"] == "n1"
    finally:
        await kube.close()


async def test_a_server_without_proxy_is_asked_itself(
    server: FakeKube, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("http_proxy", "http://proxy.invalid:3128")
    monkeypatch.setenv("no_proxy", "127.0.0.1,localhost")
    server.put(NODES, N1)
    kube = Kube(PlainTransport(server.url), timeout=2.0)
    try:
        assert (await kube.get(paths.node("n1")))["metadata"]["name"] == "n1"
    finally:
        await kube.close()


@pytest.mark.parametrize("way", ["official", "plain"])
async def test_a_request_costs_no_thread(server: FakeKube, tmp_path: Path, way: str) -> None:
    counting = Counting()
    asyncio.get_running_loop().set_default_executor(counting)
    config = kubeconfig(tmp_path, server.url, {})
    kube = Kube(connect(config) if way == "official" else PlainTransport(server.url))
    try:
        await kube.create(NODES, N1)
        counting.submitted = 0
        await kube.get(paths.node("n1"))
        await kube.patch(paths.node("n1"), {"spec": {}})
    finally:
        await kube.close()
    assert counting.submitted == 0


class Counting(ThreadPoolExecutor):
    submitted = 0

    def submit(self, *args: Any, **kwargs: Any) -> "Future[Any]":
        self.submitted += 1
        return super().submit(*args, **kwargs)


@pytest.mark.parametrize("answers", [True, False])
def test_a_closed_client_leaves_no_socket_to_a_server_that_does_not_say_goodbye(
    tmp_path: Path, answers: bool
) -> None:
    """A request is cancelled while its answer is awaited, or read; then the loop ends at once."""
    authority = Authority(tmp_path)
    identity = authority.issue("server", "server", sans=["127.0.0.1"])

    async def leave(url: str) -> None:
        kube = Kube(PlainTransport(url, str(authority.cert_file)))
        for _ in range(3):
            with pytest.raises(TimeoutError):
                async with asyncio.timeout(0.5):
                    await kube.get(NODES)
        await kube.close()

    with (
        rude_server(identity, answers=answers) as url,
        warnings.catch_warnings(record=True) as told,
    ):
        warnings.simplefilter("always")
        asyncio.run(leave(url))
        gc.collect()
    assert [str(each.message) for each in told] == []
