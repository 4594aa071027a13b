"""Artefacts from a registry and tarballs from a server, over real connections on this machine."""

import hashlib
import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from aiohttp import web

from agent.host import Contraindicated, HostError
from agent.host.real.components.downloads import INDEXES, MANIFESTS, TITLE, Downloads

pytestmark = [pytest.mark.integration]

ARCHIVE, PLAIN = b"a tar archive", b"#!/bin/sh\n"


class Registry:
    """One repository `team/shop`, which wants an anonymous token if `token` is set."""

    def __init__(self) -> None:
        self.blobs: dict[str, bytes] = {}
        self.token = ""
        self.asked: list[dict[str, str]] = []
        self.host = ""
        self.realm = ""
        """"" is its own."""

    def put(self, content: bytes) -> str:
        digest = f"sha256:{hashlib.sha256(content).hexdigest()}"
        self.blobs[digest] = content
        return digest

    def manifest(self, *layers: dict[str, Any]) -> str:
        return self.put(json.dumps({"mediaType": MANIFESTS[0], "layers": layers}).encode())

    async def answer(self, request: web.Request) -> web.Response:
        if request.path == "/token":
            self.asked.append(dict(request.query))
            return web.json_response({"token": self.token})
        if self.token and request.headers.get("Authorization") != f"Bearer {self.token}":
            realm = self.realm or f"http://{self.host}/token"
            told = f'Bearer realm="{realm}",service="s",scope="pull"'
            return web.Response(status=401, headers={"WWW-Authenticate": told})
        content = self.blobs.get(request.path.rpartition("/")[2])
        if content is None or not request.path.startswith("/v2/team/shop/"):
            return web.Response(status=404)
        return web.Response(body=content)


@pytest.fixture
async def registry() -> AsyncIterator[Registry]:
    made = Registry()
    app = web.Application()
    app.router.add_route("GET", "/{path:.*}", made.answer)
    runner = web.AppRunner(app)
    await runner.setup()
    site = web.TCPSite(runner, "127.0.0.1", 0)
    await site.start()
    made.host = f"127.0.0.1:{runner.addresses[0][1]}"
    yield made
    await runner.cleanup()


def tar_layer(registry: Registry) -> dict[str, Any]:
    kind = "application/vnd.oci.image.layer.v1.tar+gzip"
    return {"mediaType": kind, "digest": registry.put(ARCHIVE)}


def file_layer(registry: Registry, name: str) -> dict[str, Any]:
    kind = "application/vnd.unknown.layer.v1"
    return {"mediaType": kind, "digest": registry.put(PLAIN), "annotations": {TITLE: name}}


@pytest.mark.parametrize("token", ["", "anonymous"])
async def test_layers_come_in_order_by_their_digests(
    registry: Registry, token: str, tmp_path: Path
) -> None:
    registry.token = token
    manifest = registry.manifest(tar_layer(registry), file_layer(registry, "shop"))
    ref = f"{registry.host}/team/shop@{manifest}"
    archive, plain = await Downloads("amd64", Path("/")).oci(ref, tmp_path)
    assert (archive.name, archive.path.read_bytes()) == ("", ARCHIVE)
    assert (plain.name, plain.path.read_bytes()) == ("shop", PLAIN)
    assert registry.asked == ([{"service": "s", "scope": "pull"}] if token else [])


async def test_a_registry_sends_nobody_to_another_host_by_plain_http(
    registry: Registry, tmp_path: Path
) -> None:
    port = registry.host.rpartition(":")[2]
    registry.token, registry.realm = "anonymous", f"http://localhost:{port}/token"
    ref = f"{registry.host}/team/shop@{registry.manifest(tar_layer(registry))}"
    with pytest.raises(HostError, match="plain http of another host"):
        await Downloads("amd64", Path("/")).oci(ref, tmp_path)
    assert registry.asked == []


async def test_a_manifest_that_is_too_deep_is_none(registry: Registry, tmp_path: Path) -> None:
    deep = registry.put(b'{"layers":' + b"[" * 5000 + b"]" * 5000 + b"}")
    with pytest.raises(Contraindicated, match="is no manifest"):
        await Downloads("amd64", Path("/")).oci(f"{registry.host}/team/shop@{deep}", tmp_path)


async def test_an_index_gives_what_is_for_this_host(registry: Registry, tmp_path: Path) -> None:
    ours = registry.manifest(tar_layer(registry))
    platforms = [("arm64", registry.put(b"{}")), ("amd64", ours)]
    listed = [{"platform": {"os": "linux", "architecture": a}, "digest": d} for a, d in platforms]
    index = registry.put(json.dumps({"mediaType": INDEXES[0], "manifests": listed}).encode())
    ref = f"{registry.host}/team/shop@{index}"
    (blob,) = await Downloads("amd64", Path("/")).oci(ref, tmp_path)
    assert blob.path.read_bytes() == ARCHIVE
    with pytest.raises(Contraindicated, match="nothing for linux/s390x"):
        await Downloads("s390x", Path("/")).oci(ref, tmp_path)


async def test_what_is_not_what_its_digest_says_is_refused(
    registry: Registry, tmp_path: Path
) -> None:
    layer = tar_layer(registry)
    manifest = registry.manifest(layer)
    downloads = Downloads("amd64", Path("/"))
    registry.blobs[layer["digest"]] = b"another"
    with pytest.raises(Contraindicated, match="has digest sha256:"):
        await downloads.oci(f"{registry.host}/team/shop@{manifest}", tmp_path)
    registry.blobs[manifest] = b"{}"
    with pytest.raises(Contraindicated, match="instead of"):
        await downloads.oci(f"{registry.host}/team/shop@{manifest}", tmp_path)


@pytest.mark.parametrize("name", ["../shop", "a/b", "", ".."])
async def test_a_file_that_would_lie_elsewhere_is_refused(
    registry: Registry, tmp_path: Path, name: str
) -> None:
    manifest = registry.manifest(file_layer(registry, name))
    with pytest.raises(Contraindicated, match="no file name"):
        ref = f"{registry.host}/team/shop@{manifest}"
        await Downloads("amd64", Path("/")).oci(ref, tmp_path)


async def test_a_tarball_by_http_and_what_the_server_answers(
    registry: Registry, tmp_path: Path
) -> None:
    digest = registry.put(ARCHIVE)
    url = f"http://{registry.host}/v2/team/shop/blobs"
    downloads, wanted = Downloads("amd64", Path("/")), digest.removeprefix("sha256:")
    (blob,) = await downloads.tarball(f"{url}/{digest}", wanted, tmp_path)
    assert blob.path.read_bytes() == ARCHIVE
    with pytest.raises(HostError, match="404 Not Found"):
        await downloads.tarball(f"{url}/none", wanted, tmp_path)
    with pytest.raises(HostError, match=r"127\.0\.0\.1:1"):
        await downloads.tarball("http://127.0.0.1:1/x", wanted, tmp_path)
