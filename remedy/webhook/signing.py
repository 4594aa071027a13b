"""Answers AdmissionReviews about what people write into jobs: signs it, or refuses it.

failurePolicy is Fail for words (charts/kubenode/remedy/webhook.yaml): a word without an author must
not be stored. It reads nothing but the review, so every replica answers as soon as it listens.
"""

import logging
from collections.abc import Collection
from typing import Any

from pydantic import ValidationError

from kubenode.api.decisions import phase_of
from kubenode.api.problems import problems
from kubenode.api.v1alpha1.remedyoperationjob import ApprovalDecision
from kubenode.runtime.admission.review import BadReview, Review, Verdict, answer, read
from kubenode.runtime.audit import Audit, Line
from kubenode.runtime.clock import Clock
from remedy.webhook.approvals import Caller, Signed, signed
from remedy.webhook.metrics import SigningMetrics

log = logging.getLogger(__name__)

PATH = "/mutate/remedyoperationjobs"
RESOURCE = "remedyoperationjobs.kubenode.io"
YES = Verdict(True)


class Signer:
    """spokesmen  users that may say for whom they speak: their `by` is kept, with their name"""

    def __init__(
        self,
        clock: Clock,
        audit: Audit,
        metrics: SigningMetrics,
        spokesmen: Collection[str] = (),
    ) -> None:
        self._clock, self._audit, self._metrics = clock, audit, metrics
        self._spokesmen = frozenset(spokesmen)

    async def answer(self, raw: bytes, seconds: float) -> dict[str, Any]:
        """The body of the reply. Raises BadReview."""
        review = read(raw)
        if review.resource != RESOURCE:
            raise BadReview(f"request.resource: {review.resource!r} is not {RESOURCE}")
        return answer(review.uid, self._verdict(review))

    def _verdict(self, review: Review) -> Verdict:
        if review.object is None or review.sub_resource:
            return YES
        caller = Caller(review.user, review.user in self._spokesmen)
        try:
            found = signed(review.object, review.old, caller, self._clock.now())
        except ValidationError as error:
            return self._no(review, "; ".join(problems(error, ApprovalDecision)[:4]))
        except ValueError as error:
            return self._no(review, str(error))
        self._metrics.signed(bool(found.words or found.started or found.cancelled))
        if not review.dry_run:
            self._tell(review, found)
        said = [f"{word.decision} by {word.by}" for word in found.words]
        return Verdict(True, audit={"said": "; ".join(said)} if said else {}, patch=found.patch)

    def _no(self, review: Review, why: str) -> Verdict:
        self._metrics.refused()
        log.info("word not admitted", extra={"job": review.name, "who": review.user, "why": why})
        if not review.dry_run:
            self._line(review, review.user, "Word", "Refused", why)
        return Verdict(False, why)

    def _tell(self, review: Review, found: Signed) -> None:
        for word in found.words:
            rung = "" if word.rung is None else f" rung {word.rung}"
            self._line(review, word.by, word.decision, "Done", word.note, after=rung.strip())
        if found.started:
            self._line(review, found.started, "Start", "Done")
        if found.cancelled:
            self._line(review, found.cancelled, "Cancel", "Done")

    def _line(
        self, review: Review, who: str, what: str, outcome: str, why: str = "", after: str = ""
    ) -> None:
        job = review.object or {}
        spec = job.get("spec")
        node = str(spec.get("nodeName", "")) if isinstance(spec, dict) else ""
        before = str(phase_of(review.old)) if review.old is not None else ""
        name = review.name or str((job.get("metadata") or {}).get("name", ""))
        self._audit.write(
            Line(self._clock.now(), "webhook", who, what, outcome, why, name, node,
                 before=before, after=after)
        )  # fmt: skip
