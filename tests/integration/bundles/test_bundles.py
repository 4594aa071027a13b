"""Bundles at the operator: every place keeps the same promises, and only agents hand theirs in."""

import gzip
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import boto3
import pytest
from moto import mock_aws
from prometheus_client import CollectorRegistry
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.types import ASGIApp, Receive, Scope, Send
from support.asgi import Reply, request
from support.clock import T0, FakeClock

from kubenode.runtime.audit import SILENT
from kubenode.runtime.tls.peer import SCOPE_KEY, Peer
from remedy.bundles import routes as http
from remedy.bundles.folder import FolderStore
from remedy.bundles.places import BadPlace, store_at
from remedy.bundles.port import BundleStore, NoBundle, StoreFailed, fits
from remedy.bundles.routes import BundleRoutes
from remedy.bundles.s3 import S3Store
from remedy.hostdoctor.app import DeliveryEndpoints
from remedy.hostdoctor.desk import HostEventService
from remedy.hostdoctor.gate import DeliveryAuthenticator, DeliveryAuthenticatorSettings
from remedy.hostdoctor.metrics import HostDoctorMetrics

pytestmark = pytest.mark.integration
BUCKET = "bundles"
LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(params=["folder", "s3"])
def store(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Iterator[BundleStore]:
    if request.param == "folder":
        yield FolderStore(tmp_path / "kept")
        return
    for name in ("ACCESS_KEY_ID", "SECRET_ACCESS_KEY"):
        monkeypatch.setenv(f"AWS_{name}", "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "us-east-1")
    with mock_aws():
        boto3.client("s3").create_bucket(Bucket=BUCKET)
        yield S3Store(BUCKET, "prod/")


def a_bundle(folder: Path, text: str = "x") -> Path:
    path = folder / "made"
    path.write_bytes(gzip.compress(text.encode() * 1000))
    return path


async def got(store: BundleStore, agent: str, name: str) -> bytes:
    return b"".join([part async for part in store.get(agent, name)])


async def test_what_was_put_is_got_back_and_its_place_is_told(
    store: BundleStore, tmp_path: Path
) -> None:
    await store.check()
    file = a_bundle(tmp_path)
    place = await store.put("n1", "a.tar.gz", file)
    assert place.endswith("n1/a.tar.gz")
    assert await got(store, "n1", "a.tar.gz") == file.read_bytes()


async def test_one_of_the_same_name_takes_its_place(store: BundleStore, tmp_path: Path) -> None:
    await store.put("n1", "a.tar.gz", a_bundle(tmp_path, "old"))
    await store.put("n1", "a.tar.gz", a_bundle(tmp_path, "new"))
    assert gzip.decompress(await got(store, "n1", "a.tar.gz")).startswith(b"new")


async def test_what_is_not_there_is_said(store: BundleStore, tmp_path: Path) -> None:
    await store.put("n1", "a.tar.gz", a_bundle(tmp_path))
    for agent, name in (("n2", "a.tar.gz"), ("n1", "b.tar.gz")):
        with pytest.raises(NoBundle, match=f"host {agent} has no bundle {name}"):
            await got(store, agent, name)


async def test_a_folder_keeps_the_newest_of_each_host(tmp_path: Path) -> None:
    store = FolderStore(tmp_path / "kept", per_host=2)
    for name in ("a", "b", "c"):
        await store.put("n1", f"{name}.tar.gz", a_bundle(tmp_path, name))
    await store.put("n2", "a.tar.gz", a_bundle(tmp_path))
    left = sorted(str(p.relative_to(tmp_path / "kept")) for p in (tmp_path / "kept").rglob("*.gz"))
    assert left == ["n1/b.tar.gz", "n1/c.tar.gz", "n2/a.tar.gz"]


async def test_a_place_that_cannot_be_written_is_said_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(StoreFailed, match="file"):
        await FolderStore(tmp_path / "file").check()
    with mock_aws(), pytest.raises(StoreFailed, match="bucket nowhere"):
        await S3Store("nowhere").check()


@pytest.mark.parametrize(
    ("place", "endpoint", "why"),
    [
        ("s3://", "", "names no bucket"),
        ("relative/folder", "", "full path"),
        ("gs://bucket", "", "full path"),
        ("/var/lib/bundles", "https://minio:9000", "for s3:// alone"),
    ],
)
def test_a_place_that_makes_no_sense_is_said(place: str, endpoint: str, why: str) -> None:
    with pytest.raises(BadPlace, match=why):
        store_at(place, endpoint)


def test_a_place_is_a_folder_or_a_bucket() -> None:
    assert isinstance(store_at("/var/lib/bundles"), FolderStore)
    with mock_aws():
        assert isinstance(store_at("s3://bucket/some/prefix"), S3Store)


# -- over HTTP


async def refuse_all(request: Request) -> Response | None:
    return PlainTextResponse("no", 403)


async def refuse_nobody(request: Request) -> Response | None:
    return None


def a_server(
    store: BundleStore, peer: Peer | None = None, may_read: http.Guard = refuse_all
) -> ASGIApp:
    """Host Doctor's listener behind a connection that shows this certificate."""
    gate = DeliveryAuthenticator(FakeClock(), DeliveryAuthenticatorSettings())
    ends = DeliveryEndpoints(
        HostEventService.__new__(HostEventService),
        gate,
        FakeClock(),
        HostDoctorMetrics(CollectorRegistry()),
        SILENT,
    )
    app = ends.app(BundleRoutes(store, ends.may_hand_in, may_read).routes)

    async def with_peer(scope: Scope, receive: Receive, send: Send) -> None:
        await app({**scope, SCOPE_KEY: peer}, receive, send)

    return with_peer


def agent(name: str, *groups: str, ends: datetime = LATER) -> Peer:
    return Peer(f"kubenode:agent:{name}", groups or ("kubenode:agents",), ends)


async def put(
    store: BundleStore, peer: Peer | None, body: bytes, name: str = "a.tar.gz", **headers: str
) -> Reply:
    app = a_server(store, peer)
    return await request(app, "PUT", f"/v1/hosts/n1/bundles/{name}", body, headers)


async def test_an_agent_hands_in_its_own_and_a_person_fetches_it(
    store: BundleStore, tmp_path: Path
) -> None:
    body = a_bundle(tmp_path).read_bytes()
    reply = await put(store, agent("n1"), body)
    assert reply.status == 201 and reply.body.decode().strip().endswith("n1/a.tar.gz")
    path = "/v1/hosts/n1/bundles/a.tar.gz"
    assert (await request(a_server(store), "GET", path)).status == 403
    app = a_server(store, may_read=refuse_nobody)
    reply = await request(app, "GET", path)
    assert reply.status == 200 and reply.body == body
    assert (await request(app, "GET", path.replace("a.tar", "b.tar"))).status == 404


@pytest.mark.parametrize(
    ("peer", "status"),
    [
        (None, 401),
        (agent("n2"), 403),
        (agent("n1", "others"), 401),
        (agent("n1", ends=T0), 401),
        (Peer("n1", ("kubenode:agents",), LATER), 401),
    ],
)
async def test_nobody_else_hands_in_for_a_host(
    peer: Peer | None, status: int, tmp_path: Path
) -> None:
    store = FolderStore(tmp_path / "kept")
    assert (await put(store, peer, a_bundle(tmp_path).read_bytes())).status == status
    assert not (tmp_path / "kept").exists()


async def test_what_is_no_bundle_is_refused_and_nothing_is_kept(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store, good = FolderStore(tmp_path / "kept"), a_bundle(tmp_path).read_bytes()
    assert (await put(store, agent("n1"), b"#!/bin/sh")).status == 415
    assert (await put(store, agent("n1"), b"")).status == 400
    assert (await put(store, agent("n1"), good, "a.txt")).status == 400
    assert (await put(store, agent("n1"), good, **{"content-length": "99999999999"})).status == 413
    monkeypatch.setattr(http, "MOST_BYTES", 10)
    assert (await put(store, agent("n1"), good)).status == 413
    assert not (tmp_path / "kept").exists()


@pytest.mark.parametrize(
    ("agent_name", "name"),
    [("..", "a.tar.gz"), ("n1", "../a.tar.gz"), ("n1", "a..tar.gz"), ("", "a.tar.gz"), ("N1", "a")],
)
def test_names_are_no_paths(agent_name: str, name: str) -> None:
    assert not fits(agent_name, name)
