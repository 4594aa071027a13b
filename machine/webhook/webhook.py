"""Admission webhook of the Machine operator.

It runs on every replica, leader or not, because the caches that it reads are current on all.
"""

import asyncio
import logging
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from kubenode.runtime.admission.app import CannotJudge, app
from kubenode.runtime.admission.review import AdmissionVerdict, BadReview, Review, answer, read
from kubenode.runtime.admission.settings import WebhookPlace
from kubenode.runtime.process import Part
from kubenode.runtime.tls.context import LiveContext
from kubenode.runtime.tls.files import PemFiles, start_webhook_files
from kubenode.runtime.tls.keeper import VALIDATING, CertificateKeeper
from kubenode.runtime.tls.server import HttpsServer
from machine.ground import SharedCaches
from machine.webhook.judge import KINDS, YES, AdmissionContext, Validate, judged
from machine.webhook.metrics import MachineWebhookMetrics

log = logging.getLogger(__name__)

PATH = "/validate/machines"


@dataclass(frozen=True, slots=True, kw_only=True)
class MachineWebhookSettings(WebhookPlace):
    """Settings of the webhook.

    files: the certificate, if others create it and publish its authority
    """

    service: str = "kubenode-machine-webhook"
    secret: str = "kubenode-machine-webhook"
    hook: str = "kubenode-machine"
    files: PemFiles = field(default_factory=PemFiles)


class MachineValidator:
    """Answers admission reviews from the caches.

    A write that does not change the spec is always allowed. So is one of an object that is being
    deleted, because validation must never block a deletion.
    """

    def __init__(
        self, ground: SharedCaches, validate: Validate, metrics: MachineWebhookMetrics
    ) -> None:
        self._ground, self._validate, self._metrics = ground, validate, metrics
        self._threads = ThreadPoolExecutor(1, thread_name_prefix="machine webhook")

    def close(self) -> None:
        self._threads.shutdown(wait=False, cancel_futures=True)

    async def answer(self, raw: bytes, seconds: float) -> dict[str, Any]:
        """Return the body of the response. Raises BadReview and CannotJudge."""
        with self._metrics.seconds.time():
            review = read(raw)
            if review.resource not in KINDS:
                raise BadReview(f"request.resource: {review.resource!r} is none of {list(KINDS)}")
            verdict = YES if _passes(review) else await self._judge(review)
        self._metrics.answered(review.resource, verdict)
        if not verdict.allowed:
            about = {"resource": review.resource, "object": review.name, "why": verdict.message}
            log.info("not admitted", extra=about)
        return answer(review.uid, verdict)

    async def _judge(self, review: Review) -> AdmissionVerdict:
        known, stale = self._known()
        if stale:
            raise CannotJudge(f"caches are not current yet: {stale}; apply it again")
        loop = asyncio.get_running_loop()
        new = None if review.operation == "DELETE" else dict(review.object or {})
        # A pass over 10,000 machines would block the event loop.
        return await loop.run_in_executor(
            self._threads, judged, review.resource, new, review.name, known, self._validate
        )

    def _known(self) -> tuple[AdmissionContext, str]:
        ground = self._ground
        caches = (
            ground.machines,
            ground.classes,
            ground.machine_sets,
            ground.components,
            ground.component_sets,
        )
        stale = ", ".join(cache.name for cache in caches if not cache.fresh())
        return AdmissionContext(*(dict(cache.cache) for cache in caches)), stale


def _passes(review: Review) -> bool:
    new, old = review.object or {}, review.old or {}
    if review.operation == "UPDATE" and new.get("spec") == old.get("spec"):
        return True
    return bool((new.get("metadata") or {}).get("deletionTimestamp"))


class MachineWebhook:
    """The parts of the webhook. `close` stops its thread after the review in progress."""

    def __init__(
        self, ground: SharedCaches, validate: Validate, settings: MachineWebhookSettings
    ) -> None:
        self._validator = MachineValidator(ground, validate, MachineWebhookMetrics(ground.registry))
        self.context = LiveContext()
        self.server = HttpsServer(
            app({PATH: self._validator.answer}),
            self.context,
            address=settings.address,
            port=settings.port,
            flag="--webhook-port",
            limits=settings.limits,
        )
        keeper = start_webhook_files(ground.clock, self.context, settings.files, "--webhook")
        self.keeper: Part = keeper or CertificateKeeper(
            ground.kube,
            ground.clock,
            self.context,
            namespace=settings.namespace,
            secret=settings.secret,
            hook=settings.hook,
            names=settings.names,
            lives=settings.lives,
            kinds=(VALIDATING,),
        )

    @property
    def parts(self) -> list[Part]:
        return [self.keeper, self.server]

    def close(self) -> None:
        self._validator.close()
