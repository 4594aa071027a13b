"""Who is let in: TLS, bearer tokens, and what is told to anybody."""

import asyncio
import json
import ssl
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path

import aiohttp
import pytest
from support.contract_api import ContractApi, a_configmap
from support.control_plane import ControlPlane, run_kubectl
from support.pki import Authority

from simulation.apiserver import EmbeddedApiServer
from simulation.apiserver.access import Tls

pytestmark = pytest.mark.integration
TOKEN = "a-token-of-this-test"


@dataclass(frozen=True, slots=True)
class Door:
    """A server behind TLS; `token` is one that it knows."""

    url: str
    tls: ssl.SSLContext
    token: str

    async def get(self, path: str, token: str = "") -> tuple[int, str, str]:
        """(status, content type, reason) of a request that carries `token`, or none."""
        headers = {"Authorization": f"Bearer {token}"} if token else {}
        timeout = aiohttp.ClientTimeout(total=30)
        async with (
            aiohttp.ClientSession(timeout=timeout) as session,
            session.get(self.url + path, headers=headers, ssl=self.tls) as response,
        ):
            if response.content_type != "application/json":
                return response.status, response.content_type, ""
            body = await response.json()
            return response.status, response.content_type, body.get("reason", "")


@pytest.fixture
async def door(target: ControlPlane | None, tmp_path: Path) -> AsyncIterator[Door]:
    if target is not None:
        account = "/api/v1/namespaces/default/serviceaccounts/default/token"
        made = target.kubectl("create", "--raw", account, "-f", "-", stdin=REQUEST)
        token = str(json.loads(made.stdout)["status"]["token"])
        yield Door(target.server, ssl.create_default_context(cafile=target.ca_file), token)
        return
    async with EmbeddedApiServer(tls=a_certificate(tmp_path), tokens=["other", TOKEN]) as server:
        trust = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        yield Door(server.url, trust, TOKEN)


REQUEST = '{"apiVersion":"authentication.k8s.io/v1","kind":"TokenRequest","spec":{}}'


def a_certificate(folder: Path) -> Tls:
    authority = Authority(folder)
    made = authority.issue("server", "server", sans=["127.0.0.1"])
    return Tls(made.cert_file, made.key_file, authority.cert_file)


async def test_known_token_is_let_in(door: Door) -> None:
    assert (await door.get("/api", door.token))[0] == 200


async def test_unknown_token_is_not(door: Door) -> None:
    assert await door.get("/api", "wrong") == (401, "application/json", "Unauthorized")
    assert (await door.get("/api"))[0] in (401, 403)


@pytest.mark.parametrize("path", ["/healthz", "/livez", "/readyz", "/version"])
async def test_health_and_version_are_told_to_anybody(door: Door, path: str) -> None:
    assert (await door.get(path))[0] == 200


async def test_unknown_authority_ends_the_connection(door: Door) -> None:
    stranger = Door(door.url, ssl.create_default_context(), door.token)
    with pytest.raises(aiohttp.ClientConnectorCertificateError):
        await stranger.get("/healthz")


async def test_kubectl_comes_in_by_the_servers_own_kubeconfig(tmp_path: Path) -> None:
    async with EmbeddedApiServer(tls=a_certificate(tmp_path), tokens=[TOKEN]) as server:
        path = tmp_path / "kubeconfig"
        await server.write_kubeconfig(path)
        trust = ssl.create_default_context(cafile=tmp_path / "ca.crt")
        headers = {"Authorization": f"Bearer {TOKEN}"}
        async with aiohttp.ClientSession(headers=headers) as session:
            api = ContractApi(server.url, session, trust, path, "default", True)
            await api.made(api.configmaps, a_configmap("c"))
        shown = await asyncio.to_thread(run_kubectl, path, "get", "configmap", "c", "-o", "name")
        assert shown.stdout == "configmap/c\n"
