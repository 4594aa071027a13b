"""Starts Kube Defender's dashboard in a program, as its settings say."""

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from defender.dashboard.server import Dashboard, DashboardSettings
from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.service import Defender
from kubenode.cli.defender_settings import ApiFlags, DashboardFlags
from kubenode.cli.settings import local, path_of
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect_as
from kubenode.runtime.process import CannotStart, Part
from kubenode.runtime.site.people import Proxy, Writers, networks
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper, PemFiles


def check_dashboard(settings: ApiFlags, *, encrypted: bool) -> None:
    """Raise CannotStart for settings that let anyone in or send tokens unencrypted.

    encrypted: whether the program serves with a certificate.
    """
    if settings.dashboard_port is None:
        return
    proxy_of(settings)
    if not (local(settings.dashboard_address) or encrypted or settings.plain_http):
        raise CannotStart(
            f"--dashboard-address {settings.dashboard_address}: others than this host reach it, and"
            " tokens would be sent in the clear: give --tls or --tls-cert-file, or --plain-http"
            " where a mesh or a proxy beside us encrypts"
        )


def dashboard_parts(
    service: Defender, kube: Kube, clock: Clock, settings: ApiFlags, own: LiveContext
) -> Iterator[Part]:
    """Yield the parts that serve the dashboard; none without --dashboard-port.

    own: the TLS context whose certificate our own authority signs.
    """
    if settings.dashboard_port is None:
        return
    context = own if settings.tls else LiveContext() if settings.tls_cert_file else None
    gate = RequestAuthenticator(
        kube,
        clock,
        RequestAuthenticatorSettings(token_file=path_of(settings.token_file), review_tokens=True),
    )
    connect = partial(connect_as, kubeconfig=settings.kubeconfig, context=settings.context)
    dashboard = Dashboard(
        service,
        kube,
        clock,
        gate,
        Writers(kube, connect),
        DashboardSettings(
            address=settings.dashboard_address,
            port=settings.dashboard_port,
            key_file=settings.dashboard_key_file,
            proxy=proxy_of(settings),
            context=context,
            limits=settings.http_limits,
            namespace=settings.namespace,
            leases=not settings.no_lease,
            insight_url=settings.insight_url,
        ),
    )
    yield from dashboard.ground
    yield dashboard.server
    if context is not None and settings.tls_cert_file:
        files = PemFiles(path_of(settings.tls_cert_file), path_of(settings.tls_key_file))
        keeper = FileKeeper(clock, context, files)
        keeper.start("--tls-cert-file and --tls-key-file")
        yield keeper


def proxy_of(settings: DashboardFlags) -> Proxy:
    """Return the reverse proxy that the settings trust. Raises CannotStart for unsafe settings."""
    named = settings.dashboard_proxy_addresses
    try:
        within = networks(tuple(each.strip() for each in named.split(",") if each.strip()))
    except ValueError as error:
        raise CannotStart(
            f"--dashboard-proxy-addresses {named}: {error}; write addresses or networks like"
            " 10.0.0.0/24, commas between"
        ) from error
    if settings.dashboard_user_header and not within:
        raise CannotStart(
            "--dashboard-user-header would be believed of whoever sends it: say with"
            " --dashboard-proxy-addresses where the proxy speaks from"
        )
    if settings.dashboard_user_prefix.startswith("system:"):
        raise CannotStart("--dashboard-user-prefix: system: is for parts of Kubernetes, not people")
    secret = _secret(settings.dashboard_proxy_secret_file)
    if settings.dashboard_user_header and not (secret or all(n.is_loopback for n in within)):
        raise CannotStart(
            f"--dashboard-proxy-addresses {named}: whoever sends from there is whom they name: give"
            " --dashboard-proxy-secret-file, whose secret the proxy sends in X-Proxy-Secret,"
            " or only addresses of loopback"
        )
    return Proxy(
        user=settings.dashboard_user_header,
        groups=settings.dashboard_groups_header,
        within=within,
        secret=secret,
        prefix=settings.dashboard_user_prefix,
    )


def _secret(file: str | None) -> str:
    if file is None:
        return ""
    try:
        secret = Path(file).read_text().strip()
    except (OSError, ValueError) as error:
        raise CannotStart(f"--dashboard-proxy-secret-file {file}: not readable: {error}") from None
    if not secret:
        raise CannotStart(f"--dashboard-proxy-secret-file {file}: it is empty: write a secret")
    return secret
