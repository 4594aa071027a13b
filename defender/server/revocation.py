"""Revoke permits after a person paused with `now`, or after a breaker opened.

Only permits of jobs that have begun nothing irreversible are revoked, because a half-done repair is
worse than a finished one. A revoked permit counts until its holder releases it. The holder begins
nothing more, keeps its cordon, and asks anew.
"""

import logging
from collections.abc import Callable
from datetime import datetime

from pydantic import ValidationError

from defender.decision.breaker.control_path import SCOPE as CONTROL_PATH
from defender.decision.control import RiskControl
from defender.decision.coverage import in_scope
from defender.decision.ledger import JOB, LedgerPermit
from defender.decision.pauses import scope_of
from defender.decision.policies import LoadedPolicy, covering
from defender.replicas.charge.charge import Charge
from defender.server.keeper import turn_of
from defender.server.store import PermitStore
from defender.server.turns import KeyedLocks
from kubenode.api.v1alpha1 import Operation, Reason, RemedyOperationJob
from kubenode.api.v1alpha1.defenderpolicy import BreakerState, Pause
from kubenode.api.v1alpha1.permit import PermitState
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError, NotFound

log = logging.getLogger(__name__)

SECONDS = 1.0
"""Interval of rounds in seconds."""
CAUSES = {Reason.PAUSED: "pause", Reason.BREAKER_OPEN: "breaker"}
Stop = tuple[Reason, str]
"""Why a permit is revoked, as reason and message."""


def stopped(permit: LedgerPermit, control: RiskControl, now: datetime) -> Stop | None:
    """Return why the permit must be revoked, None if it must not. Pure."""
    member = control.census.member(permit.node)
    if member is None:
        return None
    for policy in covering(control.policies, member.labels, permit.operation, control.fallback):
        for pause in policy.spec.pauses if policy.spec is not None else ():
            if _holds(pause, now) and scope_of(pause).has(permit.node, member.labels):
                return Reason.PAUSED, f"{scope_of(pause)} is paused, and what ran is stopped"
        if why := _opened(permit, policy, control):
            return Reason.BREAKER_OPEN, why
    return None


def _holds(pause: Pause, now: datetime) -> bool:
    return pause.now and (pause.until is None or pause.until > now)


def _opened(permit: LedgerPermit, policy: LoadedPolicy, control: RiskControl) -> str:
    """Return why a breaker that opened after the grant revokes the permit, "" if none does.

    A permit that was granted while the breaker was open stays.
    """
    member = control.census.member(permit.node)
    if member is None or permit.operation is Operation.EVACUATE:
        return ""
    for status in control.breakers.status(policy.name):
        inside = status.scope == CONTROL_PATH or in_scope(status.scope, member.labels)
        if status.state is BreakerState.OPEN and inside and permit.grants[-1][1] < status.since:
            return f"{status.scope}: {status.why}"
    return ""


class Revoking:
    """A part for the holder of the lease. `count` is called with the cause of each: pause or
    breaker.
    """

    name = "revoking"

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        store: PermitStore,
        charge: Charge,
        turns: KeyedLocks,
        control: RiskControl,
        count: Callable[[str], None] = lambda cause: None,
    ) -> None:
        self._kube, self._clock, self._store = kube, clock, store
        self._charge, self._turns, self._control, self._count = charge, turns, control, count
        self._past: set[str] = set()
        """Permits of jobs that have begun something irreversible, which never changes."""

    async def run(self) -> None:
        while True:
            await self.round()
            await self._clock.sleep(SECONDS)

    async def round(self) -> None:
        """Check all permits once. What fails is tried again in the next round."""
        if self._charge.why_not():
            return
        open_ = self._store.ledger.open()
        self._past &= {permit.name for permit in open_}
        for permit in open_:
            if self._stop(permit) is None:
                continue
            async with self._turns.of(turn_of(permit)):
                stop = self._stop(permit)
                if stop is not None and self._store.ledger.get(permit.name) is permit:
                    await self._take_back(permit, stop)

    def _stop(self, permit: LedgerPermit) -> Stop | None:
        doubtful = permit.unsure or permit.late or permit.releasing or permit.unreadable
        plain = permit.open and not doubtful
        if not plain or permit.state is PermitState.REVOKED or permit.name in self._past:
            return None
        if permit.holder.kind != JOB:
            return None
        return stopped(permit, self._control, self._clock.now())

    async def _take_back(self, permit: LedgerPermit, stop: Stop) -> None:
        reason, message = stop
        try:
            if await self._is_past(permit):
                self._past.add(permit.name)
                return
            if why := self._charge.why_not():
                log.info("permit not revoked", extra={"permit": permit.name, "why": why})
                return
            await self._store.revoke(permit, reason, message)
            await self._charge.tell(permit)
        except (KubeError, ValidationError) as error:
            extra = {"permit": permit.name, "why": str(error)}
            log.info("permit could not be revoked, trying again", extra=extra)
            return
        self._count(CAUSES[reason])
        log.warning(
            "permit revoked", extra={"permit": permit.name, "node": permit.node, "why": message}
        )

    async def _is_past(self, permit: LedgerPermit) -> bool:
        """Return whether the job has begun something irreversible, by a live read, as caches may
        lag.

        True also if the job is gone; housekeeping frees its permit.
        """
        path = paths.custom(RemedyOperationJob.resource.plural, permit.holder.name)
        try:
            job = await self._kube.get(path, RemedyOperationJob.from_server)
        except NotFound:
            return True
        return job.metadata.uid != permit.holder.uid or job.began_irreversible
