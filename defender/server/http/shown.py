"""Read-only view of a running Kube Defender, computed from its memory."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from defender.answers import (
    READY,
    Answer,
    Breakers,
    Explanation,
    Objection,
    OpenPermit,
    PodPreview,
    PolicyBreakers,
    Preview,
    Queue,
    Status,
    Waiting,
)
from defender.client import DefenderUnreachable
from defender.decision.control import RiskControl
from defender.decision.ledger import LedgerPermit
from defender.decision.limits.case import LimitRefusal
from defender.decision.requests import Requests, RequestsPage
from defender.decision.verdict import ORDER, judge, refusals
from defender.server import eviction
from defender.server.eviction import read_preview
from kubenode.api.v1alpha1 import Ask, Disruption, Operation
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube

CLASSES = (Disruption.HOST, Disruption.PODS, Disruption.NODE)
SOMEBODY = Holder(kind="Explanation", name="somebody-new", uid="explanation")
"""Holder of the asks in explanations. It holds nothing and waits for nothing."""


class StatusSource(Protocol):
    """Source of the read-only view. `explain` returns None for an unknown node."""

    def status(self) -> Status: ...

    def explain(self, node: str) -> Explanation | None: ...

    async def preview(self, node: str) -> Preview | None:
        """Return the preview, None for an unknown node. Raises DefenderUnreachable."""
        ...

    def queue(self) -> Queue: ...

    def breakers(self) -> Breakers: ...

    def requests(self, since: datetime | None, limit: int) -> RequestsPage: ...


class Running(Protocol):
    """The part of the service that is shown."""

    control: RiskControl
    requests: Requests

    def ready(self) -> str: ...

    def status(self) -> dict[str, Any]: ...


class ShownService:
    """View of `defender.service.Defender`. `kube` is for live reads; None: nothing is read live."""

    def __init__(self, service: Running, clock: Clock, kube: Kube | None = None) -> None:
        self._service, self._clock, self._kube = service, clock, kube

    def status(self) -> Status:
        return Status.model_validate(self._service.status(), extra="ignore")

    def explain(self, node: str) -> Explanation | None:
        ready = self._service.ready() or READY
        return explained(node, self._service.control, self._clock.now(), ready)

    async def preview(self, node: str) -> Preview | None:
        if self._service.control.census.member(node) is None:
            return None
        if self._kube is None:
            raise DefenderUnreachable("there is no API server to read pods from")
        eviction_preview = await read_preview(self._kube, node)
        if eviction_preview.problem:
            raise DefenderUnreachable(eviction_preview.problem)
        return Preview(
            node=node,
            pods=[_pod(each) for each in eviction_preview.pods],
            stay=eviction_preview.stay,
        )

    def queue(self) -> Queue:
        return Queue(waiting=_waiting(self._service.control))

    def breakers(self) -> Breakers:
        control = self._service.control
        names = sorted({policy.name for policy in (*control.policies, control.fallback)})
        return Breakers(policies=[_breakers(name, control) for name in names])

    def requests(self, since: datetime | None, limit: int) -> RequestsPage:
        return self._service.requests.page(since, limit)


def _breakers(policy: str, control: RiskControl) -> PolicyBreakers:
    return PolicyBreakers(
        policy=policy,
        breakers=control.breakers.status(policy),
        history=control.breakers.history(policy),
    )


def explained(node: str, control: RiskControl, now: datetime, ready: str) -> Explanation | None:
    """Return every answer about one node, None for an unknown node. Pure."""
    member = control.census.member(node)
    if member is None:
        return None
    return Explanation(
        node=node,
        health=member.health,
        policies=sorted(p.name for p in control.policies if p.covers(member.labels)),
        ready=ready,
        permits=list_open_permits(control.ledger.open_on(node)),
        waiting=[each for each in _waiting(control) if each.node == node],
        answers=[_answer(node, o, class_, control, now) for o in Operation for class_ in CLASSES],
    )


def _answer(
    node: str, operation: Operation, class_: Disruption, control: RiskControl, now: datetime
) -> Answer:
    ask = Ask(operation=operation, class_=class_, node=node, holder=SOMEBODY, dry_run=True)
    verdict, against = judge(ask, control, now), refusals(ask, control, now)
    return Answer(
        operation=operation,
        class_=class_,
        verdict=verdict,
        objections=[objection(each) for each in sorted(against, key=_rank_refusal)],
    )


def _pod(pod: eviction.PodEvictionPreview) -> PodPreview:
    return PodPreview(
        namespace=pod.namespace,
        pod=pod.name,
        budget=pod.budget,
        allowed=pod.allowed,
        blocked=pod.blocked,
        why=pod.why,
    )


def _waiting(control: RiskControl) -> list[Waiting]:
    return [Waiting.model_validate(place.to_dict()) for place in control.queue.waiting()]


def _rank_refusal(refusal: LimitRefusal) -> int:
    return ORDER.index(refusal.reason)


def objection(refusal: LimitRefusal) -> Objection:
    return Objection(
        reason=refusal.reason,
        message=refusal.message,
        scope=refusal.scope,
        used=refusal.used,
        limit=refusal.limit,
        look_again_at=refusal.requeue_at,
    )


def list_open_permits(open_: Iterable[LedgerPermit]) -> list[OpenPermit]:
    """Return the permits, oldest first."""
    return [
        OpenPermit(
            name=permit.name,
            node=permit.node,
            class_=permit.class_,
            state=permit.state,
            holder=permit.holder,
            scopes=sorted(permit.scopes or ()),
            expires_at=permit.expires_at,
        )
        for permit in sorted(open_, key=lambda permit: permit.granted_at)
    ]
