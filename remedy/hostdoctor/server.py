"""Host Doctor of a running remedy operator: its service, sweep and listener.

Every replica listens and stores events; the sweep runs on the leader.
"""

import logging
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from starlette.routing import BaseRoute
from starlette.types import ASGIApp

from kubenode.runtime.audit import SILENT, Audit
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import Part
from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper, PemFiles
from kubenode.runtime.tls.keeper import CertificateKeeper
from kubenode.runtime.webserver import WebServer
from remedy.hostdoctor.app import DeliveryEndpoints
from remedy.hostdoctor.desk import HostEventService
from remedy.hostdoctor.gate import DeliveryAuthenticator, DeliveryAuthenticatorSettings
from remedy.hostdoctor.metrics import HostDoctorMetrics
from remedy.hostdoctor.serviceaccount import agent_token_reviewer

log = logging.getLogger(__name__)

SECRET = "kubenode-host-doctor"
"""Secret of the chart in which all replicas share the certificate."""
AGENTS = 8
"""Factor on the usual number of connections: every agent of the fleet keeps one open."""
FLAG = "--host-doctor-port"
FILES = "--host-doctor-cert-file, --host-doctor-key-file and --host-doctor-client-ca-file"


@dataclass(frozen=True, slots=True)
class HostDoctorSettings:
    """Settings of the listener.

    port: 0 takes a free one
    tls: HTTPS, with the certificate in `files` or, without one, from our own authority
    names: DNS names of our certificate
    """

    port: int
    address: str = "127.0.0.1"
    namespace: str = "kubenode-system"
    names: tuple[str, ...] = ()
    tls: bool = True
    files: PemFiles = field(default_factory=PemFiles)
    gate: DeliveryAuthenticatorSettings = field(default_factory=DeliveryAuthenticatorSettings)
    limits: HttpLimits = DEFAULT


class HostDoctorServer(WebServer):
    """A Part that serves HTTP. `port` 0 takes a free port, which the attribute then holds.

    context: None: plain HTTP
    """

    name = "host doctor server"

    def __init__(
        self,
        app: ASGIApp,
        address: str,
        port: int,
        context: LiveContext | None,
        limits: HttpLimits = DEFAULT,
    ) -> None:
        self._tls = context is not None
        many = replace(limits, connections=limits.connections * AGENTS)
        super().__init__(app, address=address, port=port, flag=FLAG, context=context, limits=many)

    def announce(self) -> None:
        where = {"address": self.address, "port": self.port, "tls": self._tls}
        log.info("host doctor listens", extra=where)


class HostDoctorListener:
    """The listener and its certificate. Its `parts` run on every replica."""

    def __init__(
        self,
        desk: HostEventService,
        kube: Kube,
        clock: Clock,
        metrics: HostDoctorMetrics,
        settings: HostDoctorSettings,
        audit: Audit = SILENT,
        more: Callable[[DeliveryEndpoints], Sequence[BaseRoute]] = lambda endpoints: (),
    ) -> None:
        """Set up the listener. `more` adds routes, which authenticate their own callers.

        Raises CannotStart for files that cannot be used.
        """
        gate = DeliveryAuthenticator(
            clock, settings.gate, agent_token_reviewer(kube, clock, settings.gate.audience)
        )
        self.endpoints = DeliveryEndpoints(desk, gate, clock, metrics, audit)
        context = LiveContext() if settings.tls else None
        self.server = HostDoctorServer(
            self.endpoints.app(more(self.endpoints)),
            settings.address,
            settings.port,
            context,
            settings.limits,
        )
        self.parts: list[Part] = [self.server]
        if context is None:
            return
        if settings.files != PemFiles():
            files = FileKeeper(clock, context, settings.files)
            files.start(FILES)
            self.parts.append(files)
        if settings.files.certificate is None:
            self.parts.append(_keeper(kube, clock, context, settings))


def _keeper(
    kube: Kube, clock: Clock, context: LiveContext, settings: HostDoctorSettings
) -> CertificateKeeper:
    return CertificateKeeper(
        kube,
        clock,
        context,
        namespace=settings.namespace,
        secret=SECRET,
        hook="",
        names=settings.names,
        chart="",
        kinds=(),
    )
