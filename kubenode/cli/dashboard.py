"""Starts Kube Defender's dashboard in a program, as its settings say."""

from collections.abc import Iterator
from functools import partial

from defender.dashboard.server import Dashboard, DashboardSettings
from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.service import Defender
from kubenode.cli.dashboard_proxy import check_encryption, proxy_of
from kubenode.cli.defender_settings import ApiFlags
from kubenode.cli.settings import path_of
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.official import connect_as
from kubenode.runtime.process import Part
from kubenode.runtime.site.people import Writers
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper, PemFiles


def check_dashboard(settings: ApiFlags, *, encrypted: bool) -> None:
    """Raise CannotStart for settings that let anyone in or send tokens unencrypted.

    encrypted: whether the program serves with a certificate.
    """
    if settings.dashboard_port is None:
        return
    proxy_of(settings)
    check_encryption(
        settings.dashboard_address,
        encrypted=encrypted or settings.plain_http,
        remedy="--tls or --tls-cert-file",
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
