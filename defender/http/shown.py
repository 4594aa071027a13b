"""What the API shows of a running Kube Defender: put together from its memory, nothing taken."""

from collections.abc import Iterable
from datetime import datetime
from typing import Any, Protocol

from defender.answers import (
    Answer,
    Breakers,
    Explanation,
    HeldPermit,
    Objection,
    PolicyBreakers,
    Queue,
    Status,
    Waiting,
)
from defender.control import RiskControl
from defender.ledger import Held
from defender.limits.case import Refusal
from defender.requests import Requests, RequestsPage
from defender.verdict import ORDER, judge, refusals
from kubenode.api.v1alpha1 import Ask, Disruption, Operation
from kubenode.api.v1alpha1.permit import Holder
from kubenode.runtime.clock import Clock

CLASSES = (Disruption.HOST, Disruption.PODS, Disruption.NODE)
SOMEBODY = Holder(kind="Explanation", name="somebody-new", uid="explanation")
"""Asks in explanations: holds nothing and waits for nothing."""


class Shown(Protocol):
    """`explain` answers None for a node that is not known."""

    def status(self) -> Status: ...

    def explain(self, node: str) -> Explanation | None: ...

    def queue(self) -> Queue: ...

    def breakers(self) -> Breakers: ...

    def requests(self, since: datetime | None, limit: int) -> RequestsPage: ...


class Running(Protocol):
    """Of the service what is shown."""

    control: RiskControl
    requests: Requests

    def ready(self) -> str: ...

    def status(self) -> dict[str, Any]: ...


class ShownService:
    """Of `defender.service.Defender`."""

    def __init__(self, service: Running, clock: Clock) -> None:
        self._service, self._clock = service, clock

    def status(self) -> Status:
        return Status.model_validate(self._service.status(), extra="ignore")

    def explain(self, node: str) -> Explanation | None:
        ready = self._service.ready() or "yes"
        return explained(node, self._service.control, self._clock.now(), ready)

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
    """Every answer about one node. Pure."""
    member = control.census.member(node)
    if member is None:
        return None
    return Explanation(
        node=node,
        health=member.health,
        policies=sorted(p.name for p in control.policies if p.covers(member.labels)),
        ready=ready,
        permits=held_permits(control.ledger.open_on(node)),
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
        objections=[objection(each) for each in sorted(against, key=_first_told)],
    )


def _waiting(control: RiskControl) -> list[Waiting]:
    return [Waiting.model_validate(place.to_dict()) for place in control.queue.waiting()]


def _first_told(refusal: Refusal) -> int:
    return ORDER.index(refusal.reason)


def objection(refusal: Refusal) -> Objection:
    return Objection(
        reason=refusal.reason,
        message=refusal.message,
        scope=refusal.scope,
        used=refusal.used,
        limit=refusal.limit,
        look_again_at=refusal.look_again_at,
    )


def held_permits(open_: Iterable[Held]) -> list[HeldPermit]:
    """Oldest first."""
    return [
        HeldPermit(
            name=held.name,
            node=held.node,
            class_=held.class_,
            state=held.state,
            holder=held.holder,
            scopes=sorted(held.scopes or ()),
            expires_at=held.expires_at,
        )
        for held in sorted(open_, key=lambda held: held.granted_at)
    ]
