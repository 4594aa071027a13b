"""Admission webhooks of a running remedy operator: from its caches to two parts.

They run on every replica, leader or not, since the caches that they read are current on all of
them.
"""

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from itertools import islice

from prometheus_client import CollectorRegistry

from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.admission.app import SHORT_REVIEW, app
from kubenode.runtime.admission.settings import WebhookPlace
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.process import Part
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import FileKeeper, PemFiles, start_webhook_files
from kubenode.runtime.tls.keeper import MUTATING, VALIDATING, CertificateKeeper
from kubenode.runtime.tls.server import HttpsServer
from remedy.operator import RemedyOperator
from remedy.registry.radius import MOST_MATCHING
from remedy.webhook import authorship, decision_signer
from remedy.webhook.authorship import RuleSigner
from remedy.webhook.decision_signer import Signer
from remedy.webhook.examine import Examiner
from remedy.webhook.metrics import RuleWebhookMetrics, SigningMetrics
from remedy.webhook.validator import PATH, RuleValidator
from rules.facts import FactSet

SAMPLE = 200
"""Nodes with condition types that represent the fleet."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RuleWebhookSettings(WebhookPlace):
    """Settings of the webhooks.

    hook: name of the validating and the mutating configuration
    most: nodes that a rule in Enforce may match when it is written
    spokesmen: users that may name the person they speak for when they write into a job
    files: the certificate, if others create it and publish its authority
    """

    service: str = "kubenode-remedy-webhook"
    secret: str = "kubenode-remedy-webhook"
    hook: str = "kubenode-remedy"
    most: int | str = MOST_MATCHING
    spokesmen: tuple[str, ...] = ()
    files: PemFiles = field(default_factory=PemFiles)


class RuleWebhook:
    """The webhooks. `close` ends their threads after the current calls."""

    def __init__(
        self,
        operator: RemedyOperator,
        kube: Kube,
        clock: Clock,
        registry: CollectorRegistry,
        settings: RuleWebhookSettings,
    ) -> None:
        self._threads = ThreadPoolExecutor(2, thread_name_prefix="webhook")

        def rules() -> Collection[NodeRemedier]:
            return list(operator.informers.remediers.cache.values())

        validator = RuleValidator(
            Examiner(
                rules,
                CachedFleet(operator),
                clock,
                self._threads,
                operator.settings.node_keys,
            ),
            rules,
            self._threads,
            RuleWebhookMetrics(registry),
            settings.most,
        )
        signer = Signer(clock, SigningMetrics(registry), settings.spokesmen)
        self.context = LiveContext()
        self.server = HttpsServer(
            app(
                {
                    PATH: validator.answer,
                    decision_signer.PATH: signer.answer,
                    authorship.PATH: RuleSigner().answer,
                },
                {decision_signer.PATH: SHORT_REVIEW},
            ),
            self.context,
            address=settings.address,
            port=settings.port,
            flag="--webhook-port",
            limits=settings.limits,
        )
        self.keeper = self._keeper(kube, clock, settings)

    def _keeper(
        self, kube: Kube, clock: Clock, settings: RuleWebhookSettings
    ) -> FileKeeper | CertificateKeeper:
        keeper = start_webhook_files(clock, self.context, settings.files, "--webhook")
        return keeper or CertificateKeeper(
            kube,
            clock,
            self.context,
            namespace=settings.namespace,
            secret=settings.secret,
            hook=settings.hook,
            names=settings.names,
            lives=settings.lives,
            kinds=(VALIDATING, MUTATING),
        )

    @property
    def parts(self) -> list[Part]:
        return [self.keeper, self.server]

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)


class CachedFleet:
    """The nodes in the operator's caches."""

    def __init__(self, operator: RemedyOperator) -> None:
        self._operator = operator

    def nodes(self) -> Collection[str]:
        return self._operator.informers.nodes.cache.keys()

    def facts(self, node: str) -> FactSet | None:
        return self._operator.facts.facts(node)

    def fresh(self) -> bool:
        return self._operator.informers.nodes.fresh()

    def conditions(self) -> Collection[str]:
        some = islice(self._operator.informers.nodes.cache.values(), SAMPLE)
        return {condition.type for node in some for condition in node.status.conditions}
