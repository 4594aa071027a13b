"""Admission webhook of Kube Defender."""

from dataclasses import dataclass

from prometheus_client import CollectorRegistry

from defender.service import Defender
from defender.webhook.callers import Callers
from defender.webhook.guard import EVICTIONS, NODES, GuardContext, NodeGuard
from defender.webhook.metrics import GuardMetrics
from kubenode.runtime.admission.app import SHORT_REVIEW, app
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import Part
from kubenode.runtime.serverlimits import DEFAULT, HttpLimits
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.server import HttpsServer


@dataclass(frozen=True, slots=True)
class GuardSettings:
    """Settings of the webhook. `port` 0 takes a free one."""

    port: int
    callers: Callers
    address: str = "127.0.0.1"
    limits: HttpLimits = DEFAULT


class GuardWebhook:
    """The webhook, on every replica. A replica that does not lead leaves reviews to the
    failurePolicy.

    In the chart no Service selects such a replica (defender.server.endpoints).

    context: TLS context with the serving certificate.
    """

    def __init__(
        self,
        service: Defender,
        kube: Kube,
        clock: Clock,
        registry: CollectorRegistry,
        context: LiveContext,
        settings: GuardSettings,
    ) -> None:
        world = GuardContext(
            service, service.control, service.nodes.get, kube, clock, settings.callers
        )
        guard = NodeGuard(world, service.recorder, GuardMetrics(registry))
        self.server = HttpsServer(
            app({NODES: guard.nodes, EVICTIONS: guard.evictions}, {EVICTIONS: SHORT_REVIEW}),
            context,
            address=settings.address,
            port=settings.port,
            flag="--guard-port",
            limits=settings.limits,
        )
        self.parts: list[Part] = [self.server]
