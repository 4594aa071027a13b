"""Kube Defender's HTTP frontends: its API, the authentication of callers, its admission webhook.

Settings that would let everybody in or send tokens unencrypted end the program with an error.
"""

import logging
from collections.abc import Iterable
from dataclasses import dataclass, field

from prometheus_client import CollectorRegistry

from defender.server.auth.gate import RequestAuthenticator, RequestAuthenticatorSettings
from defender.server.http.app import create_app
from defender.server.http.owners import Owners
from defender.server.http.shown import ShownService
from defender.server.server import DefenderServer
from defender.service import Defender
from defender.webhook.webhook import GuardSettings, GuardWebhook
from kubenode.cli.dashboard import check_dashboard, dashboard_parts
from kubenode.cli.defender_settings import ApiFlags
from kubenode.cli.permit_client import require_files
from kubenode.cli.settings import local, path_of
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import CannotStart, Part
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper, PemFiles, start_webhook_files
from kubenode.runtime.tls.keeper import VALIDATING, CertificateKeeper

log = logging.getLogger(__name__)

SECRET = HOOK = "kubenode-defender"
"""Names that the chart uses: the Secret in which replicas share the certificate, and the webhook
configuration.
"""
CHART = "charts/kubenode/defender/webhook.yaml"


@dataclass(frozen=True, slots=True)
class DefenderFrontends:
    """The HTTP frontends of a program.

    gate: authenticates callers.
    parts: run on every replica, leader or not.
    """

    gate: RequestAuthenticator
    parts: list[Part] = field(default_factory=list)


def checked(settings: ApiFlags) -> None:
    """Raise CannotStart for contradictory settings and for unreadable files."""
    if (settings.tls_cert_file is None) is not (settings.tls_key_file is None):
        raise CannotStart("--tls-cert-file and --tls-key-file belong together: give both, or none")
    if settings.tls and settings.tls_cert_file:
        raise CannotStart("--tls and --tls-cert-file: two certificates; give one of them")
    if settings.client_ca_file and not _encrypted(settings):
        raise CannotStart("--client-ca-file needs HTTPS: give --tls or --tls-cert-file as well")
    require_files(settings, ("token_file", "client_ca_file", "tls_cert_file", "tls_key_file"))
    check_dashboard(settings, encrypted=_encrypted(settings))
    if settings.listen_port is None or local(settings.listen_address):
        return
    where = f"--listen-address {settings.listen_address}: others than this host reach it"
    if settings.token_review is False and not (settings.token_file or settings.client_ca_file):
        raise CannotStart(
            f"{where}, and anyone might ask: take --no-token-review away, or give --token-file or"
            " --client-ca-file"
        )
    if not _encrypted(settings) and not settings.plain_http:
        raise CannotStart(
            f"{where}, and tokens would be sent in the clear: give --tls or --tls-cert-file, or"
            " --plain-http where a mesh encrypts"
        )


def _encrypted(settings: ApiFlags) -> bool:
    return settings.tls or settings.tls_cert_file is not None


def doors(
    service: Defender,
    kube: Kube,
    clock: Clock,
    registry: CollectorRegistry,
    settings: ApiFlags,
) -> DefenderFrontends:
    """Build the frontends from settings that `checked` accepts. Raises CannotStart."""
    gate = RequestAuthenticator(kube, clock, gate_settings(settings))
    own = LiveContext()
    parts: list[Part] = []
    if settings.listen_port is not None:
        parts += _api(service, kube, gate, clock, settings, own)
    if settings.guard_port is not None:
        callers = settings.guard_callers
        guarding = GuardSettings(
            settings.guard_port, callers, settings.guard_address, settings.http_limits
        )
        context = own if _publishes(settings) else LiveContext()
        keeper = start_webhook_files(clock, context, settings.guard_files, "--guard")
        parts += [keeper] if keeper else []
        parts += GuardWebhook(service, kube, clock, registry, context, guarding).parts
    parts += dashboard_parts(service, kube, clock, settings, own)
    serves = (settings.listen_port, settings.dashboard_port)
    if _publishes(settings) or (settings.tls and any(p is not None for p in serves)):
        parts.append(_keeper(kube, clock, settings, own))
    return DefenderFrontends(gate, parts)


def gate_settings(settings: ApiFlags) -> RequestAuthenticatorSettings:
    shown = settings.token_file or settings.client_ca_file or settings.token_review
    anyone = local(settings.listen_address) and not shown
    if anyone and settings.listen_port is not None:
        log.warning(
            "whoever is on this host may ask Kube Defender: give --token-file or --token-review to"
            " change that",
            extra={"address": settings.listen_address},
        )
    return RequestAuthenticatorSettings(
        token_file=path_of(settings.token_file),
        review_tokens=settings.token_review is not False,
        audience=settings.token_audience,
        anyone=anyone,
    )


def _api(
    service: Defender,
    kube: Kube,
    gate: RequestAuthenticator,
    clock: Clock,
    settings: ApiFlags,
    own: LiveContext,
) -> Iterable[Part]:
    assert settings.listen_port is not None
    owners = Owners(service.ledger, settings.holder_users)
    app = create_app(service, ShownService(service, clock, kube), gate, owners=owners)
    context = own if settings.tls else LiveContext() if settings.tls_cert_file else None
    yield DefenderServer(
        app,
        address=settings.listen_address,
        port=settings.listen_port,
        context=context,
        limits=settings.http_limits,
    )
    files = PemFiles(
        path_of(settings.tls_cert_file),
        path_of(settings.tls_key_file),
        path_of(settings.client_ca_file),
    )
    if context is not None and files != PemFiles():
        keeper = FileKeeper(clock, context, files)
        keeper.start("--tls-cert-file, --tls-key-file and --client-ca-file")
        yield keeper


def _publishes(settings: ApiFlags) -> bool:
    """Return whether Kube Defender makes the webhook's certificate itself and publishes its
    authority.
    """
    return settings.guard_port is not None and settings.guard_files == PemFiles()


def _keeper(kube: Kube, clock: Clock, settings: ApiFlags, own: LiveContext) -> CertificateKeeper:
    return CertificateKeeper(
        kube,
        clock,
        own,
        namespace=settings.namespace,
        secret=SECRET,
        hook=HOOK,
        names=settings.names,
        chart=CHART,
        kinds=(VALIDATING,) if _publishes(settings) else (),
    )
