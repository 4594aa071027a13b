"""Answers AdmissionReviews about what people write into jobs: signs it, or rejects it.

failurePolicy is Fail for decisions (charts/kubenode/remedy/webhook.yaml): a decision without an
author must not be stored. It reads nothing but the review, so every replica answers as soon as it
listens.

Any client that reaches the port may post a review with any user name. So a review is no evidence:
the job controller audits decisions from the stored job (remedy/job/audit.py).
"""

import logging
from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from kubenode.api.problems import problems
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision
from kubenode.runtime.admission.review import AdmissionVerdict, BadReview, Review, answer, read
from kubenode.runtime.clock import Clock
from remedy.webhook.approvals import ApprovalCaller, signed
from remedy.webhook.metrics import SigningMetrics

log = logging.getLogger(__name__)

PATH = "/mutate/remedyoperationjobs"
RESOURCE = "remedyoperationjobs.kubenode.io"
YES = AdmissionVerdict(True)
ODD_SHAPE = (AttributeError, IndexError, KeyError, TypeError)
"""Exceptions from a job that the schema would have rejected: no API server sends one."""


class Signer:
    """Signs reviews. `spokesmen`: users that may name the person they speak for; that `by` is kept,
    with the user's own name added.
    """

    def __init__(
        self,
        clock: Clock,
        metrics: SigningMetrics,
        spokesmen: Collection[str] = (),
    ) -> None:
        self._clock, self._metrics = clock, metrics
        self._spokesmen = frozenset(spokesmen)

    async def answer(self, raw: bytes, seconds: float) -> dict[str, Any]:
        """Return the body of the reply. Raises BadReview."""
        review = read(raw)
        if review.resource != RESOURCE:
            raise BadReview(f"request.resource: {review.resource!r} is not {RESOURCE}")
        return answer(review.uid, self._verdict(review))

    def _verdict(self, review: Review) -> AdmissionVerdict:
        if review.object is None or review.sub_resource:
            return YES
        caller = ApprovalCaller(review.user, review.user in self._spokesmen)
        try:
            result = signed(review.object, review.old, caller, self._clock.now())
        except ValidationError as error:
            return self._no(review, "; ".join(problems(error, ApprovalDecision)[:4]))
        except ValueError as error:
            return self._no(review, str(error))
        except ODD_SHAPE as error:
            raise BadReview(f"request.object: no {RESOURCE}: {error!r}") from error
        self._metrics.signed(bool(result.decisions or result.started or result.cancelled))
        lines = [f"{word.decision} by {word.by}" for word in result.decisions]
        return AdmissionVerdict(
            True, audit={"said": "; ".join(lines)} if lines else {}, patch=result.patch
        )

    def _no(self, review: Review, why: str) -> AdmissionVerdict:
        self._metrics.refused()
        log.info("word not admitted", extra={"job": review.name, "who": review.user, "why": why})
        return AdmissionVerdict(False, why)
