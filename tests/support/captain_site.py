"""Captain's pages: over a fixed scene, and over informers of an embedded API server."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from support.captain_fleet import make_clusters, make_online, make_running
from support.clock import FakeClock
from support.dashboard_running import LINK, KnownPeople
from support.dashboard_world import put
from support.release_api import ReleaseApiDouble
from support.running import running, until

from captain.site.scene import CaptainBoard, CaptainScene
from captain.site.server import CaptainSite
from kubenode.api.v1alpha1 import MemberCluster, Release, ReleasePipeline
from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.kube.plain import PlainTransport
from kubenode.runtime.process import Part, serve
from kubenode.runtime.site.people import Writers
from kubenode.runtime.site.server import SiteSettings
from simulation.apiserver import EmbeddedApiServer

READS = {("get", "memberclusters"), ("get", "releases")}
STEERS = READS | {("patch", "releases")}
APPROVES = STEERS | {("update", "releases/approval")}
PEOPLE = KnownPeople(
    {f"secret-of-{name}": name for name in ("rita", "max", "ann", "eve")},
    {"rita": READS, "max": STEERS, "ann": APPROVES},
)
"""A reader, a manager, an approver, and a person without rights."""
MEMBERS, PIPELINES, RELEASES = (
    paths.custom(kind.resource.plural) for kind in (MemberCluster, ReleasePipeline, Release)
)


class FixedBoard:
    """A scene that does not change."""

    version = 0

    def __init__(self, scene: CaptainScene) -> None:
        self._scene = scene
        self.changed = asyncio.Event()

    def scene(self) -> CaptainScene:
        return self._scene


def build_site(
    scene: CaptainScene, api: ReleaseApiDouble, clock: Clock | None = None, **settings: Any
) -> CaptainSite:
    """Pages for PEOPLE that write to `api`."""
    clock = clock or FakeClock()
    kube = Kube(api.connect(""), attempts=1, clock=clock)
    writers = Writers(kube, api.connect)
    return CaptainSite(FixedBoard(scene), kube, clock, PEOPLE, writers, SiteSettings(**settings))


@dataclass(frozen=True)
class RunningCaptainSite:
    """kube: another client of the same API server."""

    kube: Kube
    site: CaptainSite

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.site.server.port}"

    @property
    def way_in(self) -> str:
        return f"{self.url}/login?link={LINK}"


async def fill_fleet(kube: Kube, count: int) -> None:
    """Store a pipeline, `count` clusters and the release rules-7, which waits for an approval."""
    now = kube.clock.now()
    await put(kube, PIPELINES, make_online().to_dict())
    for cluster in make_clusters(count, now):
        await put(kube, MEMBERS, cluster)
    await put(kube, RELEASES, make_running(count, now=now))


@asynccontextmanager
async def captain_site_over(
    api: EmbeddedApiServer, kube: Kube, **settings: Any
) -> AsyncIterator[RunningCaptainSite]:
    """Yield when the pages answer and every list is read. Captain's controllers do not run."""
    clock = SystemClock()
    clusters = Informer(kube, MEMBERS, MemberCluster.from_server)
    pipelines = Informer(kube, PIPELINES, ReleasePipeline.from_server)
    releases = Informer(kube, RELEASES, Release.from_server)
    board = CaptainBoard(clusters, pipelines, releases, clock)
    writers = Writers(kube, lambda token: PlainTransport(api.url))
    chosen = SiteSettings(**{"link": LINK, **settings})
    site = CaptainSite(board, kube, clock, PEOPLE, writers, chosen)
    parts: list[Part] = [clusters, pipelines, releases, *site.parts]
    async with running(serve(parts)):
        await until(site.server.listening.is_set, 60, "the pages are served")
        await until(lambda: board.scene().loaded, 60, "the lists are read")
        yield RunningCaptainSite(kube, site)
