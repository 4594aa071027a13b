"""Who may download diagnostics bundles, by RBAC of a real API server (finding 12)."""

import gzip
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from prometheus_client import CollectorRegistry
from starlette.types import ASGIApp, Receive, Scope, Send
from support.asgi import request
from support.chart_rights import ChartRights, account
from support.clock import FakeClock
from support.control_plane import ControlPlane
from support.machine_world import closing

from kubenode.cli.bundle_access import BundleAccess
from kubenode.runtime.audit import SILENT
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.tls.peer import SCOPE_KEY, Peer
from remedy.bundles.folder import FolderStore
from remedy.bundles.routes import BundleRoutes
from remedy.hostdoctor.app import DeliveryEndpoints
from remedy.hostdoctor.desk import HostEventService
from remedy.hostdoctor.gate import DeliveryAuthenticator, DeliveryAuthenticatorSettings
from remedy.hostdoctor.metrics import HostDoctorMetrics

pytestmark = [pytest.mark.integration, pytest.mark.timeout(180)]

AUDIENCE = "kubenode-host-doctor"
ALERTMANAGER = "a-token-that-delivers-alerts"
PEOPLE = {"reader": "kubenode-bundle-reader", "viewer": "kubenode-viewer", "one-host": "one-host"}
"""Service accounts of namespace default, and their ClusterRoles."""


def user(name: str) -> str:
    return f"system:serviceaccount:default:{name}"


@pytest.fixture(scope="module")
def rights(control_plane: ControlPlane) -> Iterator[ChartRights]:
    one_host: dict[str, Any] = {
        "apiVersion": "rbac.authorization.k8s.io/v1",
        "kind": "ClusterRole",
        "metadata": {"name": "one-host"},
        "rules": [
            {
                "apiGroups": ["kubenode.io"],
                "resources": ["bundles"],
                "resourceNames": ["n1"],
                "verbs": ["download"],
            }
        ],
    }
    with ChartRights(control_plane) as rights:
        control_plane.kubectl("create", "-f", "-", stdin=json.dumps(one_host))
        for name, role in PEOPLE.items():
            control_plane.kubectl("create", "serviceaccount", name, "-n", "default")
            rights.bind(user(name), role)
        try:
            yield rights
        finally:
            for name, role in PEOPLE.items():
                rights.unbind(user(name), role)
                control_plane.kubectl("delete", "serviceaccount", name, "-n", "default")
            control_plane.kubectl("delete", "clusterrole", "one-host")


def token_of(rights: ChartRights, name: str, audience: str = AUDIENCE) -> str:
    words = ["create", "token", name, "-n", "default"]
    if audience:
        words.append(f"--audience={audience}")
    return rights.cp.kubectl(*words).stdout.strip()


def server(kube: Kube, folder: Path, peer: Peer | None = None) -> ASGIApp:
    """Host Doctor's listener with a bundle of hosts n1 and n2."""
    for host in ("n1", "n2"):
        (folder / "kept" / host).mkdir(parents=True, exist_ok=True)
        (folder / "kept" / host / "a.tar.gz").write_bytes(gzip.compress(b"diagnostics"))
    tokens = folder / "alertmanager"
    tokens.write_text(f"{ALERTMANAGER}\n")
    gate = DeliveryAuthenticator(FakeClock(), DeliveryAuthenticatorSettings((tokens,)))
    ends = DeliveryEndpoints(
        HostEventService.__new__(HostEventService),
        gate,
        FakeClock(),
        HostDoctorMetrics(CollectorRegistry()),
        SILENT,
    )
    access = BundleAccess(kube, SystemClock(), SILENT, AUDIENCE)
    store = FolderStore(folder / "kept")
    app = ends.app(BundleRoutes(store, ends.may_hand_in, access.check).routes)

    async def with_peer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, SCOPE_KEY: peer}, receive, send)

    return with_peer


async def download(app: ASGIApp, token: str = "", host: str = "n1") -> int:
    headers = {"authorization": f"Bearer {token}"} if token else {}
    path = f"/v1/hosts/{host}/bundles/a.tar.gz"
    return (await request(app, "GET", path, headers=headers)).status


async def test_downloading_needs_the_right_of_its_own(rights: ChartRights, tmp_path: Path) -> None:
    async with closing(rights.client(account("kubenode-remedy"))) as kube:
        app = server(kube, tmp_path)
        assert await download(app, token_of(rights, "reader")) == 200
        assert await download(app, token_of(rights, "viewer")) == 403
        assert await download(app, token_of(rights, "reader", "")) == 401, "another audience"
        assert await download(app, ALERTMANAGER) == 401
        assert await download(app) == 401


async def test_the_right_may_be_for_some_hosts_alone(rights: ChartRights, tmp_path: Path) -> None:
    async with closing(rights.client(account("kubenode-remedy"))) as kube:
        app = server(kube, tmp_path)
        token = token_of(rights, "one-host")
        assert await download(app, token, "n1") == 200
        assert await download(app, token, "n2") == 403


async def test_an_agent_downloads_no_bundle(rights: ChartRights, tmp_path: Path) -> None:
    ends = datetime(2030, 1, 1, tzinfo=UTC)
    peer = Peer("kubenode:agent:n1", ("kubenode:agents",), ends)
    async with closing(rights.client(account("kubenode-remedy"))) as kube:
        assert await download(server(kube, tmp_path, peer)) == 403
        assert await download(server(kube, tmp_path, peer), host="n2") == 403


async def test_the_right_to_download_delivers_nothing(rights: ChartRights, tmp_path: Path) -> None:
    async with closing(rights.client(account("kubenode-remedy"))) as kube:
        app = server(kube, tmp_path)
        headers = {"authorization": f"Bearer {token_of(rights, 'reader')}"}
        assert (await request(app, "POST", "/v1/alertmanager", b"{}", headers)).status == 401
