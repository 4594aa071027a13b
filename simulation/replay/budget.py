"""Kube Defender in memory: production verdict and ledger, without any writes."""

import json
from collections.abc import Sequence
from datetime import datetime, timedelta

from defender.decision.control import RiskControl
from defender.decision.jobs import ObservedJob
from defender.decision.ledger import JOB, LedgerPermit
from defender.decision.policies import LoadedPolicy, read_policy
from defender.decision.verdict import granted, judge
from defender.server.store import LIFE
from kubenode.api.v1alpha1 import (
    Ask,
    DefenderPolicy,
    Disruption,
    Operation,
    Reason,
    RemedyOperationJob,
    Verdict,
)
from kubenode.api.v1alpha1.permit import Holder, PermitState
from kubenode.runtime.hosttime import HostTime
from kubenode.runtime.kube.objects import Node, structs
from simulation.replay.clock import SetClock

PRUNE = timedelta(hours=1)
_job = structs(ObservedJob)


class ReplayPermitClient:
    """Implements remedy.job.act.PermitClient.

    policies: empty for the default of Kube Defender.
    unlimited: grant every request.
    """

    def __init__(
        self, clock: SetClock, policies: Sequence[DefenderPolicy], *, unlimited: bool = False
    ) -> None:
        self._clock, self._unlimited = clock, unlimited
        self.control = RiskControl()
        self.ledger = self.control.ledger
        self.control.govern([_policy(policy) for policy in policies], clock.now())
        self._jobs: dict[str, ObservedJob] = {}
        self._pruned = self._changed = clock.now()
        self._remembered = self.control.remembered()

    def node_changed(self, name: str, old: Node | None, new: Node | None) -> None:
        if new is None or old is None or _counts_differ(old, new):
            self._let_pass()
            self.control.node_changed(name, new, self._clock.now())

    def job_changed(self, name: str, new: RemedyOperationJob | None) -> None:
        """Record the change of a job.

        new: None if the job is deleted.
        """
        old, job = self._jobs.pop(name, None), None
        if new is not None:
            job = self._jobs[name] = _job(new.model_dump_json(by_alias=True).encode())
        self._let_pass()
        self.control.job_changed(old, job, self._clock.now())

    def _let_pass(self) -> None:
        """Advance the breakers to the previous instant before a change at a new one.

        Breakers must evaluate the state after all changes of one instant.
        """
        if self._changed < self._clock.now():
            self.control.advance(self._changed)
            self._changed = self._clock.now()

    async def ask(self, ask: Ask) -> Verdict | str:
        now = self._clock.now()
        self._prune(now)
        self.control.advance(now)
        mine = self.ledger.open_of(ask.holder, ask.node)
        if mine is not None and mine.expires_at <= now:
            mine.expires_at = now + LIFE  # the request shows that its holder is alive
        verdict = self.control.answered(ask, judge(ask, self.control, now), now)
        if self._unlimited and not verdict.allowed and verdict.reason is not Reason.UNKNOWN:
            verdict = Verdict(allowed=True, reason=Reason.GRANTED, class_=ask.class_)
        if ask.dry_run:
            return verdict.model_copy(update={"permit": ""})
        if not verdict.allowed or verdict.permit:
            return verdict
        return granted(self._take(ask, now))

    def _take(self, ask: Ask, now: datetime) -> LedgerPermit:
        mine = self.ledger.open_of(ask.holder, ask.node)
        if mine is not None:
            self.ledger.grant(mine, ask.class_, now)
            return mine
        entry = LedgerPermit(
            name=self.ledger.next_name(ask.holder, ask.node),
            node=ask.node,
            operation=ask.operation,
            holder=ask.holder,
            grants=[(ask.class_, now)],
            expires_at=now + LIFE,
            scopes=self.control.scopes_of(ask),
        )
        self.ledger.enter(entry)
        return entry

    def remember(self, node: str, at: datetime, *, ended: bool) -> None:
        """Record a repair of the node that began at `at`, before the timeline.

        ended: whether it also ended then; else its permit is still open.
        """
        name = f"{node}-{at.isoformat()}"
        entry = LedgerPermit(
            name=name,
            node=node,
            operation=Operation.REPAIR,
            holder=Holder(kind=JOB, name=name, uid=name),
            grants=[(Disruption.NODE, at)],
            expires_at=at + LIFE,
            state=PermitState.RELEASED if ended else PermitState.GRANTED,
            released_at=at if ended else None,
        )
        self.ledger.enter(entry)

    def check(self, permit: str, seconds: float) -> Verdict:
        entry = self.ledger.get(permit)
        if entry is None or not entry.open:
            return self._no(f"permit {permit} is not held")
        if entry.expires_at < self._clock.now() + timedelta(seconds=seconds):
            return self._no(f"permit {permit} ends before the step would: renew it")
        return granted(entry)

    async def renew(self, permit: str, seconds: float = 0) -> Verdict | str:
        entry = self.ledger.get(permit)
        if entry is None or not entry.open:
            return self._no(f"permit {permit} is not held")
        entry.expires_at = self._clock.now() + max(LIFE, timedelta(seconds=seconds))
        return granted(entry)

    async def release(self, permit: str) -> str:
        entry = self.ledger.get(permit)
        if entry is not None and entry.open:
            self.ledger.release(entry, self._clock.now())
        return ""

    def _prune(self, now: datetime) -> None:
        """Forget released permits that no limit counts any more. Runs once an hour."""
        if now < self._pruned + PRUNE:
            return
        self._pruned = now
        for entry in self.ledger:
            if entry.released_at is not None and entry.released_at < now - self._remembered:
                self.ledger.forget(entry.name)

    def _no(self, message: str) -> Verdict:
        return Verdict(allowed=False, reason=Reason.UNKNOWN, message=message)


def _policy(policy: DefenderPolicy) -> LoadedPolicy:
    """Return the policy as Kube Defender would read it, with unreadable parts."""
    body = policy.to_dict()
    body["metadata"]["name"] = policy.metadata.name or "default"
    return read_policy(json.dumps(body).encode())


def _counts_differ(old: Node, new: Node) -> bool:
    """Return whether anything changed that the census reads, which excludes heartbeats."""
    if old.metadata is not new.metadata or old.spec is not new.spec:
        return True
    if old.status is new.status:
        return False
    return _ready(old) != _ready(new) or old.status.node_info != new.status.node_info


def _ready(node: Node) -> tuple[str, HostTime | None]:
    ready = node.ready_condition
    return (ready.status, ready.last_transition_time) if ready is not None else ("", None)
