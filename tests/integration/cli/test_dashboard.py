"""`kubenode dashboard` against a real API server and a real dashboard, as a browser sees it."""

import asyncio
import json
import re
import uuid
from collections.abc import AsyncIterator, Iterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import aiohttp
import pytest
import yaml  # type: ignore[import-untyped]
from support.command import COMMAND, environment, kubeconfig, kubenode
from support.control_plane import ControlPlane
from support.dashboard_running import Running, dashboard_over
from support.dashboard_world import POLICIES
from support.kubelet_ports import forwarding_kubelet
from support.people import ROLES
from support.remedy_cluster import install_crds

from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from kubenode.api.v1alpha1 import default_policy
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists
from kubenode.runtime.kube.official import connect, connect_as
from kubenode.runtime.site.people import Writers
from kubenode.runtime.tls.certificates import Pair
from kubenode.runtime.tls.context import LiveContext

pytestmark = [pytest.mark.integration, pytest.mark.timeout(240)]

PATIENCE = 120.0
POD = "kubenode-defender-0"
DASHBOARD_ROLE = "kubenode-dashboard"
SERVICE = {
    "apiVersion": "v1",
    "kind": "Service",
    "metadata": {"name": "kubenode-dashboard"},
    "spec": {"ports": [{"name": "https", "port": 443, "targetPort": 8446}]},
}


@dataclass
class PeopleNamespace:
    """A namespace with people in it, of one test."""

    cp: ControlPlane
    namespace: str
    folder: Path

    def person(self, name: str, *roles: str) -> str:
        """A token of a new service account that has these cluster roles of the chart."""
        self.cp.kubectl("-n", self.namespace, "create", "serviceaccount", name)
        for role in roles:
            self.cp.kubectl(
                "create", "clusterrolebinding", f"{self.namespace}-{name}-{role}",
                f"--clusterrole={role}", f"--serviceaccount={self.namespace}:{name}",
            )  # fmt: skip
        return self.cp.kubectl("-n", self.namespace, "create", "token", name).stdout.strip()

    def config(self, token: str) -> Path:
        """A kubeconfig with this token and the authority of the server."""
        path = kubeconfig(self.folder / f"{uuid.uuid4().hex[:6]}.json", self.cp.server, token=token)
        config = json.loads(path.read_text())
        config["clusters"][0]["cluster"]["certificate-authority"] = str(self.cp.ca_file)
        path.write_text(json.dumps(config))
        return path

    def let_forward(self, name: str) -> None:
        """Bind the Role of the chart, in this namespace."""
        roles = [r for r in yaml.safe_load_all(ROLES.read_text()) if r["kind"] == "Role"]
        (role,) = (r for r in roles if r["metadata"]["name"] == DASHBOARD_ROLE)
        role["metadata"]["namespace"] = self.namespace
        self.apply(role)
        self.cp.kubectl(
            "-n", self.namespace, "create", "rolebinding", f"{name}-forwards",
            f"--role={DASHBOARD_ROLE}", f"--serviceaccount={self.namespace}:{name}",
        )  # fmt: skip

    def apply(self, thing: dict[str, Any]) -> None:
        self.cp.kubectl("-n", self.namespace, "apply", "-f", "-", stdin=json.dumps(thing))

    def pod_on(self, port: int) -> None:
        """A ready pod of Kube Defender, on a Node whose kubelet listens on this port."""
        node = {"apiVersion": "v1", "kind": "Node", "metadata": {"name": self.namespace}}
        self.apply(node)
        addresses = [{"type": "InternalIP", "address": "127.0.0.1"}]
        endpoints = {"kubeletEndpoint": {"Port": port}}
        self._status(f"node/{self.namespace}", addresses=addresses, daemonEndpoints=endpoints)
        container = {"name": "defender", "image": "kubenode"}
        spec: dict[str, Any] = {"nodeName": self.namespace, "containers": [container]}
        spec["automountServiceAccountToken"] = False
        labels = {"app.kubernetes.io/name": "kubenode-defender"}
        metadata = {"name": POD, "labels": labels}
        self.apply({"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec})
        ready = {"type": "Ready", "status": "True"}
        self._status(f"pod/{POD}", phase="Running", conditions=[ready])

    def _status(self, target: str, **status: Any) -> None:
        patch = json.dumps({"status": status})
        self.cp.kubectl("-n", self.namespace, "patch", target, "--subresource=status", "-p", patch)


@pytest.fixture(scope="module")
def chart(control_plane: ControlPlane) -> None:
    """Our kinds, and the cluster roles of people."""
    install_crds(control_plane)
    control_plane.kubectl("apply", "-f", ROLES, check=False)  # its Roles need other namespaces


@pytest.fixture
def place(control_plane: ControlPlane, chart: None, tmp_path: Path) -> Iterator[PeopleNamespace]:
    namespace = f"dashboard-{uuid.uuid4().hex[:6]}"
    control_plane.kubectl("create", "namespace", namespace)
    yield PeopleNamespace(control_plane, namespace, tmp_path)
    pods = ("delete", "pods", "--all", "--force", "--grace-period=0")
    control_plane.kubectl("-n", namespace, *pods)
    control_plane.kubectl("delete", "namespace", namespace, "--wait=false")
    control_plane.kubectl("delete", "node", namespace, "--ignore-not-found")


@asynccontextmanager
async def dashboard(cp: ControlPlane, **settings: Any) -> AsyncIterator[Running]:
    kube = Kube(connect(str(cp.kubeconfig)), rate=1000, burst=1000)
    try:
        try:
            await kube.create(POLICIES, default_policy().to_dict())
        except AlreadyExists:
            await kube.patch(f"{POLICIES}/default", {"spec": {"pauses": []}})
        reviews = RequestAuthenticatorSettings(review_tokens=True)
        gate = RequestAuthenticator(kube, SystemClock(), reviews)
        writers = Writers(kube, partial(connect_as, kubeconfig=str(cp.kubeconfig)))
        async with dashboard_over(None, kube, gate, writers, link="", **settings) as running:
            yield running
    finally:
        await kube.close()


@asynccontextmanager
async def opened(
    *flags: str | Path, browser: str = ""
) -> AsyncIterator[tuple[str, asyncio.subprocess.Process]]:
    """The address that `kubenode dashboard` prints, or gives to `browser`, while it runs."""
    words = ["dashboard", *flags, *(() if browser else ("--no-browser",))]
    process = await asyncio.create_subprocess_exec(
        COMMAND, *map(str, words), env=environment(BROWSER=browser),
        stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE,
    )  # fmt: skip
    assert process.stdout is not None and process.stderr is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE)
        if not line:
            pytest.fail((await process.stderr.read()).decode())
        yield line.decode().strip(), process
    finally:
        if process.returncode is None:
            process.terminate()
        await process.communicate()


async def refused(*flags: str | Path) -> str:
    """What the command says when it ends with a finding."""
    command = partial(kubenode, "dashboard", "--no-browser", *flags, limit=PATIENCE)
    done = await asyncio.to_thread(command)
    assert done.returncode in (1, 2) and not done.stdout, done.stderr
    return done.stderr


def browser() -> aiohttp.ClientSession:
    return aiohttp.ClientSession(cookie_jar=aiohttp.CookieJar(unsafe=True))


async def enter(session: aiohttp.ClientSession, address: str) -> tuple[int, str]:
    """Do what the page of the printed address does; the code, and the address without secret."""
    page, _, secret = address.partition("#")
    async with session.get(page) as answer:
        assert "/.kubenode/open.js" in await answer.text()
    async with session.post(page, data={"secret": secret}, allow_redirects=False) as answer:
        return answer.status, page.removesuffix("/.kubenode/open")


async def pause_node(session: aiohttp.ClientSession, url: str, node: str) -> str:
    """Send the form of the page Pauses; what the next page says."""
    async with session.get(f"{url}/pauses") as answer:
        token = re.search(r'name="form_token" value="(\w+)"', await answer.text())
    assert token is not None
    fields = {"scope": f"node={node}", "for": "1h", "why": "by hand", "empty": "yes"}
    async with session.post(f"{url}/pauses", data=fields | {"form_token": token[1]}) as answer:
        return await answer.text()


async def test_the_address_opens_the_dashboard_once_and_writes_go_out_as_the_person(
    place: PeopleNamespace,
) -> None:
    token = place.person("olga", "kubenode-operator")
    flags = ("--kubeconfig", place.config(token))
    async with (
        dashboard(place.cp) as running,
        opened("--url", running.url, *flags) as (address, process),
        browser() as session,
        browser() as stranger,
    ):
        code, url = await enter(session, address)
        assert code == 303
        async with session.get(f"{url}/") as answer:
            assert answer.status == 200 and f"{place.namespace}:olga" in await answer.text()
        names = {cookie.key for cookie in session.cookie_jar}
        assert names == {f"kubenode-dashboard-{url.rpartition(':')[2]}"}
        async with session.get(f"{url}/live/") as stream:
            assert stream.status == 200
            assert await asyncio.wait_for(stream.content.readline(), PATIENCE)
        assert "node=n7 is paused now" in await pause_node(session, url, "n7")
        (pause,) = (await running.kube.get(f"{POLICIES}/default"))["spec"]["pauses"]
        assert pause["by"] == f"system:serviceaccount:{place.namespace}:olga"

        async with stranger.get(f"{url}/") as answer:
            assert answer.status == 401
        headers = {"Host": f"evil.example:{url.rpartition(':')[2]}"}
        async with session.get(f"{url}/", headers=headers) as answer:
            assert answer.status == 403
        headers = {"Origin": "http://evil.example"}
        async with session.post(f"{url}/pauses", headers=headers) as answer:
            assert answer.status == 403

        code, _ = await enter(stranger, address)  # somebody else has the address
        assert code == 403
        assert process.stderr is not None
        message = await asyncio.wait_for(process.stderr.read(), PATIENCE)
        assert b"opened twice" in message and token.encode() not in message


async def test_a_dashboard_in_a_pod_is_reached_by_port_forwarding(place: PeopleNamespace) -> None:
    """The API server is real, and the kubelet behind it forwards ports alone."""
    context = LiveContext()
    identity = place.cp.issue_server_cert("dashboard", ["kubenode-dashboard"])
    context.load(Pair(identity.cert_file.read_bytes(), identity.key_file.read_bytes()))
    flags = (
        "-n",
        place.namespace,
        "--kubeconfig",
        place.config(place.person("vera", "kubenode-viewer")),
    )
    async with (
        dashboard(place.cp, context=context) as running,
        forwarding_kubelet(place.cp, running.dashboard.server.port) as kubelet,
    ):
        message = await refused(*flags)
        assert "a right is missing" in message and "services" in message
        place.let_forward("vera")
        assert f"Service kubenode-dashboard does not exist in namespace {place.namespace}" in (
            await refused(*flags)
        )
        place.apply(SERVICE)
        assert "no pod of Kube Defender is ready" in await refused(*flags)
        place.pod_on(kubelet.port)
        async with opened(*flags) as (address, _), browser() as session:
            code, url = await enter(session, address)
            assert code == 303
            async with session.get(f"{url}/") as answer:
                assert answer.status == 200 and f"{place.namespace}:vera" in await answer.text()
            async with session.get(f"{url}/static/style.css") as answer:
                assert len(await answer.read()) > 10_000
        assert set(kubelet.forwarded) == {(POD, "8446")}
        kubelet.target = 1  # nothing listens there
        assert f"port 8446 of pod {POD} was not reached" in await refused(*flags)
        place.cp.kubectl("-n", place.namespace, "delete", "rolebinding", "vera-forwards")
        place.cp.kubectl(
            "-n", place.namespace, "create", "rolebinding", "vera-looks", "--clusterrole=view",
            f"--serviceaccount={place.namespace}:vera",
        )  # fmt: skip
        message = await refused(*flags)
        assert "you may not forward ports" in message and "Role kubenode-dashboard" in message


async def test_credentials_without_a_token_need_a_service_account_that_they_may_use(
    place: PeopleNamespace,
) -> None:
    place.person("robot", "kubenode-viewer")
    admin, certificate = place.cp.kubeconfig, place.cp.kubeconfig_for(place.namespace)
    async with dashboard(place.cp) as running:
        url, space = ("--url", running.url), ("-n", place.namespace)
        message = await refused(*url, "--kubeconfig", admin)
        assert "no bearer token" in message and "--service-account" in message
        robot = ("--service-account", "robot")
        message = await refused(*url, *space, *robot, "--kubeconfig", certificate)
        assert "you may not create tokens of service account robot" in message
        nobody = ("--service-account", f"{place.namespace}/nobody")
        message = await refused(*url, *nobody, "--kubeconfig", admin)
        assert "service account nobody" in message and "does not exist" in message
        async with (
            opened(*url, *space, *robot, "--kubeconfig", admin, browser="echo %s") as (address, _),
            browser() as session,
        ):
            _, local = await enter(session, address)
            async with session.get(f"{local}/") as answer:
                assert f"{place.namespace}:robot" in await answer.text()


async def test_a_lost_login_is_renewed_and_a_logout_ends_the_command(
    place: PeopleNamespace,
) -> None:
    flags = ("--kubeconfig", place.config(place.person("vera", "kubenode-viewer")))
    async with AsyncExitStack() as stack, browser() as session:
        async with dashboard(place.cp) as first:
            port = first.dashboard.server.port
            command = opened("--url", first.url, *flags)
            address, process = await stack.enter_async_context(command)
            _, url = await enter(session, address)
        async with session.get(f"{url}/jobs") as answer:
            assert answer.status == 502 and "Reload the page" in await answer.text()
        async with dashboard(place.cp, port=port):  # its key is a new one: no cookie fits
            async with session.get(f"{url}/jobs") as answer:
                assert answer.status == 200 and f"{place.namespace}:vera" in await answer.text()
            async with session.post(f"{url}/logout") as answer:
                assert "logged out" in await answer.text()
            assert await asyncio.wait_for(process.wait(), PATIENCE) == 0


async def test_who_may_not_read_is_told_so_before_a_browser_starts(place: PeopleNamespace) -> None:
    async with dashboard(place.cp) as running:
        stranger = place.config(place.person("stranger"))
        message = await refused("--url", running.url, "--kubeconfig", stranger)
        assert "you may not read the dashboard" in message and "kubenode-viewer" in message
    message = await refused("--url", running.url, "--kubeconfig", stranger)
    assert "the dashboard does not answer at --url" in message
    message = await refused("--url", "http://dashboard.example", "--kubeconfig", stranger)
    assert "unencrypted" in message
