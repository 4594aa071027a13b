"""Answer AdmissionReviews about acts of users on nodes: delete, cordon, evict.

In mode Enforce the act needs a permit, so that a burst stays within the budget. In mode Audit
nothing is refused, but a would-be refusal is reported. If the act cannot be judged now, the
failurePolicy of the webhook's configuration decides.
"""

import asyncio
import logging
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Any, Protocol

import msgspec

from defender.client import DefenderUnreachable
from defender.decision.control import RiskControl
from defender.decision.permit_reader import UnreadablePermit, read_permit
from defender.server.store import LIFE, PERMITS
from defender.webhook.acts import OVERRIDE, USER, GuardedAct, GuardedActKind, of_eviction, of_node
from defender.webhook.callers import Callers
from defender.webhook.decision import Course, GuardDecision, anywhere, decide
from defender.webhook.metrics import GuardMetrics, GuardOutcome
from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Ask, Reason
from kubenode.api.v1alpha1 import Verdict as Judgement
from kubenode.api.v1alpha1.permit import PermitState
from kubenode.runtime.admission.app import CannotJudge
from kubenode.runtime.admission.review import AdmissionVerdict, BadReview, Review, answer, read
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound
from kubenode.runtime.kube.objects import Node, Pod, structs
from kubenode.runtime.recorder import EventRecorder

log = logging.getLogger(__name__)

NODES, EVICTIONS = "/validate/nodes", "/validate/evictions"
LEAVE_SECONDS = 0.3
"""Part of the API server's timeout that is kept for the way back."""
BLIND = (Reason.STALE_DATA, Reason.STORE_UNAVAILABLE, Reason.UNKNOWN)
"""Reasons for which the act cannot be judged."""
PROLONG = LIFE - timedelta(minutes=1)
"""Remaining life below which the next eviction renews a permit."""
YES = AdmissionVerdict(True)
_pod = structs(Pod)


class PermitRequester(Protocol):
    """The part of `Permits` that the webhook needs."""

    async def ask(self, ask: Ask) -> Judgement: ...

    async def renew(self, permit: str) -> Judgement: ...


@dataclass(frozen=True, slots=True)
class GuardContext:
    """Dependencies of the webhook."""

    permits: PermitRequester
    control: RiskControl
    node: Callable[[str], Node | None]
    kube: Kube
    clock: Clock
    callers: Callers


class NodeGuard:
    """Handler of admission reviews."""

    def __init__(self, world: GuardContext, recorder: EventRecorder, metrics: GuardMetrics) -> None:
        self._world, self._recorder, self._metrics = world, recorder, metrics

    async def nodes(self, raw: bytes, seconds: float) -> dict[str, Any]:
        """Answer a review of a Node. Raises BadReview and CannotJudge."""
        review = _read(raw, "nodes.")
        try:
            act = of_node(review)
        except ValueError as error:
            raise BadReview(f"request.object: no Node: {error}") from error
        return await self._answer(review, act, seconds)

    async def evictions(self, raw: bytes, seconds: float) -> dict[str, Any]:
        """Answer a review of an Eviction. Raises BadReview and CannotJudge."""
        review = _read(raw, "pods.")
        if review.sub_resource != "eviction" or review.operation != "CREATE":
            raise BadReview(
                f"request: {review.operation} pods/{review.sub_resource} is no eviction"
            )
        if self._world.callers.is_exempt(review.user):
            return self._passed(GuardedActKind.EVICTION, review)
        if not anywhere(GuardedActKind.EVICTION, self._world.control):
            return self._passed(GuardedActKind.EVICTION, review)
        return await self._answer(review, await self._evicted(review, seconds), seconds)

    def _passed(self, kind: GuardedActKind, review: Review) -> dict[str, Any]:
        self._count(kind, GuardOutcome.PASSED, review.dry_run)
        return answer(review.uid, YES)

    async def _evicted(self, review: Review, seconds: float) -> GuardedAct | None:
        """Return the eviction of a pod on a node, None for other pods."""
        name = review.name or str(((review.object or {}).get("metadata") or {}).get("name", ""))
        path = paths.pod(review.namespace, name)
        try:
            pod = await self._world.kube.call(
                "GET", path, decode=_pod, timeout=_remaining_seconds(seconds), attempts=1
            )
        except NotFound:
            return None
        except KubeError as error:
            self._count(GuardedActKind.EVICTION, GuardOutcome.ERROR, review.dry_run)
            raise CannotJudge(f"the pod cannot be read: {error}") from error
        node = self._world.node(pod.spec.node_name) if pod.spec.node_name else None
        return of_eviction(review, node, pod.metadata) if node is not None else None

    async def _answer(
        self, review: Review, act: GuardedAct | None, seconds: float
    ) -> dict[str, Any]:
        if act is None:
            return answer(review.uid, YES)
        with self._metrics.seconds.time():
            try:
                async with asyncio.timeout(_remaining_seconds(seconds)):
                    outcome, verdict = await self._verdict(act)
            except (CannotJudge, DefenderUnreachable, KubeError, TimeoutError) as error:
                self._count(act.kind, GuardOutcome.ERROR, act.dry_run)
                why = str(error) or "Kube Defender did not answer in time"
                log.warning("an act could not be judged", extra=_extra(act) | {"why": why})
                raise CannotJudge(why) from error
        self._count(act.kind, outcome, act.dry_run)
        return answer(review.uid, verdict)

    def _count(self, kind: GuardedActKind, outcome: GuardOutcome, dry_run: bool) -> None:
        if not dry_run:
            self._metrics.acts.labels(kind, outcome).inc()

    # -- judging ------------------------------------------------------------------------------

    async def _verdict(self, act: GuardedAct) -> tuple[GuardOutcome, AdmissionVerdict]:
        decision = decide(act, self._world.control, self._world.callers)
        match decision.course:
            case Course.PASS:
                return GuardOutcome.PASSED, AdmissionVerdict(True, audit={"passed": decision.why})
            case Course.OVERRIDDEN:
                return GuardOutcome.OVERRIDDEN, await self._overridden(act, decision)
            case Course.AUDIT:
                return await self._audited(act)
            case Course.ENFORCE:
                return await self._enforced(act, decision)

    async def _overridden(self, act: GuardedAct, decision: GuardDecision) -> AdmissionVerdict:
        why = f"{act.user} overrode Kube Defender to {act.kind} it: {decision.why}"
        log.warning("overridden", extra=_extra(act) | {"why": decision.why})
        await self._tell(act, "GuardOverridden", why)
        warning = f"Kube Defender was overridden; take annotation {OVERRIDE} off when you are done"
        return AdmissionVerdict(True, warnings=[warning], audit={"override": decision.why})

    async def _audited(self, act: GuardedAct) -> tuple[GuardOutcome, AdmissionVerdict]:
        judged = await self._world.permits.ask(act.ask(dry_run=True))
        if judged.allowed:
            return GuardOutcome.ALLOWED, AdmissionVerdict(
                True, audit={"mode": "Audit", "reason": judged.reason}
            )
        if judged.reason in BLIND:
            raise CannotJudge(judged.message)
        log.info("would be refused", extra=_extra(act) | {"why": judged.message})
        why = f"{act.user} was let pass to {act.kind} it; Enforce would refuse: {judged.message}"
        await self._tell(act, "GuardWouldRefuse", why)
        warning = f"Kube Defender would refuse this ({judged.reason}): {judged.message}"
        audit = {"mode": "Audit", "reason": judged.reason, "message": judged.message}
        return GuardOutcome.AUDITED, AdmissionVerdict(True, warnings=[warning], audit=audit)

    async def _enforced(
        self, act: GuardedAct, decision: GuardDecision
    ) -> tuple[GuardOutcome, AdmissionVerdict]:
        if act.user in self._world.callers.ours and (name := await self._live_permit(act)):
            return GuardOutcome.PASSED, AdmissionVerdict(
                True, audit={"passed": f"permit {name} covers it"}
            )
        judged = await self._world.permits.ask(act.ask(dry_run=act.dry_run))
        audit = {"mode": "Enforce", "reason": str(judged.reason)}
        if judged.allowed:
            await self._keep(judged)
            return GuardOutcome.ALLOWED, AdmissionVerdict(
                True, audit=audit | {"permit": judged.permit or "none"}
            )
        if judged.reason in BLIND:
            raise CannotJudge(judged.message)
        log.info("refused", extra=_extra(act) | {"why": judged.message})
        if not act.dry_run:
            await self._tell(
                act, "GuardRefused", f"{act.user} may not {act.kind} it now: {judged.message}"
            )
        message = (
            f"Kube Defender ({judged.reason}): {judged.message}{_what_to_do(judged, act, decision)}"
        )
        return GuardOutcome.DENIED, AdmissionVerdict(
            False, message, 429, audit=audit | {"message": judged.message}
        )

    async def _keep(self, judged: Judgement) -> None:
        """Renew the permit of a drain in progress, but not with every pod."""
        ends = judged.expires_at
        if judged.permit and ends is not None and ends < self._world.clock.now() + PROLONG:
            await self._world.permits.renew(judged.permit)

    async def _live_permit(self, act: GuardedAct) -> str:
        """Return a permit of our programs on the node that the cache lacks, "" for none.

        Raises KubeError.
        """
        query = {"fieldSelector": f"spec.nodeName={act.name}"}
        listed = await self._world.kube.get(PERMITS, query=query)
        for each in listed["items"]:
            permit = read_permit(msgspec.json.encode(each))
            if isinstance(permit, UnreadablePermit):
                continue
            open_ = permit.status.state in (None, PermitState.GRANTED, PermitState.OVERDUE)
            strong = permit.spec.class_.weight >= act.kind.class_.weight
            if open_ and strong and permit.spec.holder.kind != USER:
                return permit.metadata.name
        return ""

    async def _tell(self, act: GuardedAct, reason: str, message: str) -> None:
        if act.dry_run:
            return
        meta = act.node.metadata
        about = {"kind": "Node", "api_version": "v1", "name": meta.name, "uid": meta.uid}
        await self._recorder.emit(about, "Warning", reason, message)


def _read(raw: bytes, resource: str) -> Review:
    review = read(raw)
    if review.resource != resource:
        raise BadReview(f"request.resource: {review.resource!r} is not {resource!r}")
    return review


def _remaining_seconds(seconds: float) -> float:
    return max(seconds - LEAVE_SECONDS, seconds / 2)


def _extra(act: GuardedAct) -> dict[str, str]:
    return {"act": act.kind, "node": act.name, "user": act.user}


def _what_to_do(judged: Judgement, act: GuardedAct, decision: GuardDecision) -> str:
    later = f"; ask again at {format_time(judged.look_again_at)}" if judged.look_again_at else ""
    if not decision.groups:
        return later
    who = " or ".join(sorted(decision.groups))
    if act.override:
        return f"{later}; only members of {who} may override with annotation {OVERRIDE}"
    return f"{later}; members of {who} may override: annotate it with {OVERRIDE}=REASON"
