"""Answers AdmissionReviews about NodeRemediers.

A write that does not change the spec, a deletion and a rule in mode Off are always allowed:
stopping a rule must never wait for its examination.

Any client that reaches the port may post a review with any user name. So a review is no evidence
and is not reported: an accepted blast radius is reported from the stored rule
(remedy/registry/registry.py).
"""

import asyncio
import logging
from collections.abc import Callable, Iterable
from concurrent.futures import Executor
from typing import Any

from pydantic import ValidationError

from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import NodeRemedier
from kubenode.runtime.admission.review import BadReview, Review, answer, read
from remedy.registry.radius import MOST_MATCHING
from remedy.webhook.examine import Examiner, orphans
from remedy.webhook.metrics import RuleWebhookMetrics
from remedy.webhook.review import RuleVerdict
from remedy.webhook.verdict import judged

log = logging.getLogger(__name__)

PATH = "/validate/noderemediers"
RESOURCE = "noderemediers.kubenode.io"
LEAVE_SECONDS = 0.5
"""Part of the API server's timeout that is reserved for the reply."""
YES = RuleVerdict(True)


class RuleValidator:
    """Validates rules. `most`: nodes that a rule in Enforce may match when it is written."""

    def __init__(
        self,
        examiner: Examiner,
        rules: Callable[[], Iterable[NodeRemedier]],
        threads: Executor,
        metrics: RuleWebhookMetrics,
        most: int | str = MOST_MATCHING,
    ) -> None:
        self._examiner, self._rules = examiner, rules
        self._threads, self._metrics, self._most = threads, metrics, most

    async def answer(self, raw: bytes, seconds: float) -> dict[str, Any]:
        """Return the body of the reply, within `seconds`. Raises BadReview."""
        with self._metrics.seconds.time():
            review = await self._in_thread(read, raw)
            if review.resource != RESOURCE:
                raise BadReview(f"request.resource: {review.resource!r} is not {RESOURCE}")
            verdict = await self._verdict(review, max(seconds - LEAVE_SECONDS, seconds / 2))
        self._metrics.answered(verdict)
        if not verdict.allowed:
            log.info("rule not admitted", extra={"rule": review.name, "why": verdict.message})
        return answer(review.uid, verdict, "kubenode rules lint shows them all")

    async def _verdict(self, review: Review, seconds: float) -> RuleVerdict:
        if review.operation == "DELETE":
            return await self._deleted(review)
        new, old = review.object or {}, review.old or {}
        if review.operation == "UPDATE" and new.get("spec") == old.get("spec"):
            return YES
        if (new.get("metadata") or {}).get("deletionTimestamp"):
            return YES
        try:
            rule = await self._in_thread(NodeRemedier.model_validate, new, extra="ignore")
        except ValidationError as error:
            return RuleVerdict(False, "; ".join(problems(error, NodeRemedier)[:8]))
        try:
            examination = await self._examiner.examine(rule, seconds)
        except TimeoutError:
            text = f"the rule could not be compiled within {seconds:g} s: apply it again"
            return RuleVerdict(False, text, code=503)
        return judged(examination, self._most, review.user)

    async def _deleted(self, review: Review) -> RuleVerdict:
        try:
            rule = NodeRemedier.model_validate(review.old or {}, extra="ignore")
        except ValidationError:
            return YES
        if rule.spec.infer is None:
            return YES
        lost = await self._in_thread(orphans, rule, list(self._rules()))
        return RuleVerdict(
            True, warnings=[f"rule {name} will be refused: {why}" for name, why in lost.items()]
        )

    async def _in_thread(self, work: Callable[..., Any], *given: Any, **named: Any) -> Any:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._threads, lambda: work(*given, **named))
