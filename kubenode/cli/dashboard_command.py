"""`kubenode dashboard`: open the dashboard of a cluster in the browser, logged in.

It forwards a free port of this host to a pod of Kube Defender and logs in with the caller's own
identity. `--url` replaces the forwarding if the dashboard can be reached.
"""

import asyncio
import ssl
import webbrowser
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from urllib.parse import urlsplit

import typer

from kubenode.cli.cluster import CommandKube, hello
from kubenode.cli.dashboard_client import (
    DashboardClient,
    DashboardUnreachable,
    dashboard_client,
)
from kubenode.cli.dashboard_pod import find_dashboard
from kubenode.cli.dashboard_session import DashboardProxy
from kubenode.cli.dashboard_token import LoginToken
from kubenode.cli.exits import PEOPLE, Exit, Refusal, say
from kubenode.cli.settings import local
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden
from kubenode.runtime.kube.portforward import PortForward
from kubenode.runtime.kube.transport import CredentialsTransport
from kubenode.runtime.webserver import WebServer

ADDRESS = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class DashboardRequest:
    """What the person wants to open.

    url: address of the dashboard; "" to forward a port to its pod.
    authorities: file with the authorities that sign its certificate; None for those of the system.
    account: service account to log in as, NAME or NAMESPACE/NAME; "" for the person's own token.
    port: local port; 0 for a free one.
    """

    namespace: str
    url: str = ""
    authorities: Path | None = None
    account: str = ""
    port: int = 0
    browser: bool = True


async def dashboard_command(
    kubeconfig: str | None, context: str | None, request: DashboardRequest
) -> None:
    """Serve until the person ends it. Raises Refusal with what to do."""
    from kubenode.runtime.kube.official import connect  # imports kubernetes: 1 s

    check_url(request.url)
    transport = connect(kubeconfig, context)
    kube = CommandKube(transport)
    try:
        await hello(kube, kubeconfig)
        token = LoginToken(kube, transport, request.namespace, request.account)
        await token.read()  # before anything is forwarded, so that its errors come first
        if request.url:
            async with dashboard_client(
                request.url, verified(request.authorities), token
            ) as direct:
                await _enter(direct, None)
                await serve_browser(direct, request)
        else:
            await _serve_forwarded(kube, transport, token, request)
    finally:
        await kube.close()


def check_url(url: str) -> None:
    """Raise Refusal for an address to which no token may be sent."""
    parts = urlsplit(url)
    if url and (parts.scheme not in ("http", "https") or not parts.hostname or parts.query):
        text = f"--url: {url!r} is no address: write https://HOST:PORT, or https://HOST:PORT/PATH"
        raise Refusal(text, Exit.USAGE)
    if parts.scheme == "http" and not local(parts.hostname or ""):
        text = f"--url: {url} would get your token unencrypted: use https, or leave --url out"
        raise Refusal(text, Exit.USAGE)


def verified(authorities: Path | None) -> ssl.SSLContext:
    """Return a context that verifies the dashboard. Raises Refusal for a file without any."""
    try:
        return ssl.create_default_context(cafile=authorities)
    except (OSError, ssl.SSLError) as error:
        text = f"--ca-file {authorities}: it cannot be read: {error}; name a PEM file"
        raise Refusal(text, Exit.USAGE) from error


def through_tunnel() -> ssl.SSLContext:
    """Return a context for a forwarded port.

    The API server proves which pod answers, as for `kubectl exec`. The authority that signs the
    pod's certificate is in a Secret that people may not read.
    """
    context = ssl.create_default_context()
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
    return context


async def _serve_forwarded(
    kube: Kube, transport: CredentialsTransport, token: LoginToken, request: DashboardRequest
) -> None:
    find = partial(find_dashboard, kube, request.namespace)
    await find()
    forward = PortForward(transport, find)
    async with (
        forward.listen() as port,
        dashboard_client(f"https://{ADDRESS}:{port}", through_tunnel(), token) as client,
    ):
        await _enter(client, forward)
        await serve_browser(client, request)


async def _enter(client: DashboardClient, forward: PortForward | None) -> None:
    """Log in. Raises Refusal that names the cause."""
    try:
        await client.enter()
    except DashboardUnreachable as error:
        cause = forward.problem if forward is not None else None
        if isinstance(cause, Forbidden):
            raise Refusal(
                f"you may not forward ports to Kube Defender: {cause}; Role kubenode-dashboard of"
                f" {PEOPLE} has the right, or name the address of the dashboard with --url"
            ) from error
        where = "its pod" if forward is not None else "--url"
        raise Refusal(f"the dashboard does not answer at {where}: {cause or error}") from error


async def serve_browser(client: DashboardClient, request: DashboardRequest) -> None:
    """Let in one browser, and serve it until its session ends."""
    proxy = DashboardProxy(client)
    server = WebServer(proxy.app(), address=ADDRESS, port=request.port, flag="--port")
    async with asyncio.TaskGroup() as tasks:
        serving = tasks.create_task(server.run(), name="server")
        listening = tasks.create_task(server.listening.wait(), name="listening")
        await asyncio.wait({serving, listening}, return_when=asyncio.FIRST_COMPLETED)
        if not server.listening.is_set():  # `serving` holds the reason, which the group raises
            listening.cancel()
            return
        proxy.port = server.port
        await _show(proxy, request.browser)
        say(f"{await proxy.ended}")
        serving.cancel()


async def _show(proxy: DashboardProxy, browser: bool) -> None:
    if browser and await asyncio.to_thread(webbrowser.open, proxy.entrance):
        say(f"the dashboard is open in the browser at {proxy.address}; Ctrl-C ends it")
        return
    if browser:
        say("no browser was started: open this address yourself")
    say("the address lets in one browser, once; Ctrl-C ends it")
    typer.echo(proxy.entrance)
