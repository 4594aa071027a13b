"""Write the status of policies: figures, states of breakers, and conditions.

Figures change with every permit and are written periodically. A change of a breaker is written at
once, because the next leader continues from it, and is emitted as an Event. This module also
creates the policy `default` if there is none, so that pauses and breakers can be stored.
"""

import logging
from collections.abc import Callable
from datetime import datetime, timedelta

from defender.decision.breaker.control_path import Thaw
from defender.decision.census import CLUSTER
from defender.decision.conditions import conditions
from defender.decision.control import RiskControl
from defender.decision.policies import LoadedPolicy
from kubenode.api.base import API_VERSION
from kubenode.api.v1alpha1 import DefenderPolicy, default_policy
from kubenode.api.v1alpha1.defenderpolicy import (
    BreakerChange,
    BreakerState,
    Decisions,
    DefenderPolicyStatus,
)
from kubenode.runtime.clock import Clock
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, KubeError
from kubenode.runtime.kube.informer import Informer
from kubenode.runtime.recorder import EventRecorder

log = logging.getLogger(__name__)

EVERY = timedelta(seconds=10)
"""Least time between two writes of figures."""
POLICIES = paths.custom(DefenderPolicy.resource.plural)


class PolicyReporter:
    """Writer of policies' statuses and of their Events."""

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        fence: Fence,
        policies: Informer[LoadedPolicy],
        control: RiskControl,
        recorder: EventRecorder | None = None,
        thawed: Callable[[Thaw, datetime], None] = lambda thaw, now: None,
    ) -> None:
        self.granted = self.refused = 0
        self._kube, self._clock, self._fence = kube, clock, fence
        self._policies, self._control, self._recorder = policies, control, recorder
        self._breakers = control.breakers
        self._before: dict[str, tuple[Decisions, int]] = {}
        self._written_at: datetime | None = None
        self._version = 0
        self._last_reported: dict[str, BreakerChange] = {}
        self._unreadable: dict[str, str] = {}
        self._thawed = thawed
        self._lifted: Thaw | None = None

    async def ensure_policy(self) -> None:
        """Create `default` if the server has no policy. Raises KubeError."""
        listed = await self._kube.get(POLICIES)
        if listed["items"]:
            return
        self._fence.check()
        try:
            await self._kube.create(POLICIES, default_policy().to_dict())
        except AlreadyExists:
            return
        log.info("no DefenderPolicy was there: created the default")

    async def report(self) -> None:
        """Write each policy's status if it has changed: after a change of a breaker at once, else
        periodically.
        """
        now, version = self._clock.now(), self._breakers.version
        moved = version != self._version
        await self._tell_unreadable()
        await self._tell_thaw(now)
        if not moved and self._written_at is not None and now < self._written_at + EVERY:
            return
        self._written_at = now
        written = [await self._write(policy, now) for policy in list(self._policies.cache.values())]
        if all(written):
            self._version = version

    async def _write(self, policy: LoadedPolicy, now: datetime) -> bool:
        """Write the status. Return whether the policy has the current status now."""
        await self._tell(policy)
        status = self.status(policy, now)
        if status == policy.status:
            return True
        self._fence.check()
        path = paths.custom(DefenderPolicy.resource.plural, policy.name, "status")
        try:
            await self._kube.patch(path, {"status": status.to_dict()})
        except KubeError as error:
            extra = {"policy": policy.name, "why": str(error)}
            log.warning("policy status not written", extra=extra)
            return False
        return True

    async def _tell(self, policy: LoadedPolicy) -> None:
        """Emit an Event and a log line for each new change of the policy's breakers."""
        history = self._breakers.history(policy.name)
        last = self._last_reported.get(policy.name) or next(
            reversed(policy.status.breaker_history), None
        )
        news = history[history.index(last) + 1 :] if last in history else history
        if history:
            self._last_reported[policy.name] = history[-1]
        for each in news:
            message = f"{each.scope}: {each.why}"
            extra = {"policy": policy.name, "scope": each.scope, "why": each.why}
            log.warning(f"breaker: {each.state}", extra=extra)
            if self._recorder is not None:
                kind = "Normal" if each.state is BreakerState.CLOSED else "Warning"
                about = _regarding(policy)
                await self._recorder.emit(about, kind, f"Breaker{each.state}", message)

    async def _tell_thaw(self, now: datetime) -> None:
        """Emit Events, a log line and an audit line about who ended a freeze and why."""
        thaw = self._breakers.control_path.lifted
        if thaw is None or thaw == self._lifted:
            return
        self._lifted = thaw
        log.warning("the control path was thawed", extra={"by": thaw.by, "why": thaw.why})
        self._thawed(thaw, now)
        for policy in list(self._policies.cache.values()):
            if self._recorder is not None:
                message = f"{thaw.by} ended the freeze of the control path: {thaw.why}"
                about = _regarding(policy)
                await self._recorder.emit(about, "Warning", "ControlPathThawed", message)

    async def _tell_unreadable(self) -> None:
        """Emit an Event and a log line once for each unreadable permit."""
        unreadable = {permit.name: permit for permit in self._control.ledger if permit.unreadable}
        for name, permit in unreadable.items():
            if self._unreadable.get(name) == permit.unreadable:
                continue
            effect = "its node is refused" if permit.open else "it counts in rates"
            extra = {"permit": name, "node": permit.node, "why": permit.unreadable}
            log.error("permit cannot be read", extra=extra)
            if self._recorder is not None:
                about = {"kind": "Permit", "api_version": API_VERSION, "name": name}
                about["uid"] = permit.uid
                message = f"cannot be read, so {effect}: {permit.unreadable}"
                await self._recorder.emit(about, "Warning", "PermitUnreadable", message)
        self._unreadable = {name: permit.unreadable for name, permit in unreadable.items()}

    def status(self, policy: LoadedPolicy, now: datetime) -> DefenderPolicyStatus:
        """Return the status of the policy."""
        group = (policy.name, CLUSTER)
        status = policy.status
        before, missed = self._before.setdefault(
            policy.name, (status.decisions, status.missed_deadline)
        )
        control, healthy = self._control, self._control.counts.free(group)
        return DefenderPolicyStatus(
            observed_generation=policy.metadata.generation,
            healthy=max(0, healthy),
            unhealthy=max(0, control.census.tally(group).members - healthy),
            permits=sum(control.census.belongs(h.node, group) for h in control.ledger.open()),
            breaker=self._breakers.status(policy.name),
            breaker_history=self._breakers.history(policy.name),
            decisions=Decisions(
                granted=before.granted + self.granted, refused=before.refused + self.refused
            ),
            missed_deadline=missed + control.missed(policy.name),
            conditions=conditions(policy, self._breakers.causes(policy.name), now),
        )


def _regarding(policy: LoadedPolicy) -> dict[str, str]:
    return {
        "kind": DefenderPolicy.resource.kind,
        "api_version": API_VERSION,
        "name": policy.name,
        "uid": policy.metadata.uid,
    }
