"""Leader election on a coordination.k8s.io/v1 Lease.

    retry < deadline < ttl, seconds (2, 10, 15)

A leader measures time from before it sent its last successful renewal, by its monotonic clock. It
stops `deadline` later whatever the cause: errors, a hung server, its own blocked loop. A follower
waits a whole `ttl` after it last *observed* a change of the Lease. So the old leader has stopped
before the new one starts, and no two wall clocks are ever compared.

If two candidates try at once, the resourceVersion in the PUT decides: one of them gets 409.
"""

import asyncio
import logging
import random
import secrets
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Any

from kubenode.runtime.clock import Clock, SystemClock
from kubenode.runtime.fence import AlwaysLeader, Fence, LeaseLost, under
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Conflict, KubeError, NotFound
from kubenode.runtime.rate import Spread

__all__ = ["AlwaysLeader", "Fence", "LeaderElection", "LeaseLost", "Sighting", "new_identity"]

log = logging.getLogger(__name__)

REQUEST_SECONDS = 5.0
RELEASE_SECONDS = 2.0


def new_identity(host: str) -> str:
    """Return an identity that is unique per process: a pod may restart under its old name."""
    return f"{host}-{secrets.token_hex(4)}"


@dataclass(frozen=True, slots=True)
class Sighting:
    """What a follower knows: the Lease at its last change, and when we observed it (monotonic)."""

    holder: str
    renew_time: str
    duration: float
    observed_at: float

    def update(self, spec: dict[str, Any], ttl: float, now: float) -> "Sighting":
        """Return the same sighting if the Lease has not changed since, else a new one."""
        holder, renewed = spec.get("holderIdentity") or "", spec.get("renewTime") or ""
        if (holder, renewed) == (self.holder, self.renew_time):
            return self
        return Sighting(holder, renewed, float(spec.get("leaseDurationSeconds") or ttl), now)

    def free(self, identity: str, now: float) -> bool:
        """Return whether `identity` may take the Lease: no holder, we are it, or it has expired."""
        return self.holder in ("", identity) or now >= self.observed_at + self.duration


NO_SIGHTING = Sighting("\0", "\0", 0.0, 0.0)


class LeaderElection:
    """One candidate. `kube` must be its own client with its own transport.

    A burst of calls must not delay a renewal; give `Kube(transport, timeout=5, attempts=1)`.
    """

    name = "lease"

    def __init__(
        self,
        kube: Kube,
        namespace: str,
        name: str,
        identity: str,
        ttl: float = 15.0,
        deadline: float = 10.0,
        retry: float = 2.0,
        clock: Clock | None = None,
        spread: Spread = random.random,
    ) -> None:
        if not 0 < retry < deadline < ttl:
            raise ValueError(f"need 0 < retry < deadline < ttl, not {retry}, {deadline}, {ttl}")
        self._kube = kube
        self._namespace, self._lease = namespace, name
        self.identity = identity
        self._ttl, self._deadline, self._retry = ttl, deadline, retry
        self._clock = clock or SystemClock()
        self._spread = spread
        self._leading = False
        self._epoch = 0
        self._renewed = float("-inf")
        self._sighting = NO_SIGHTING

    # -- the fence ----------------------------------------------------------------------------

    @property
    def leading(self) -> bool:
        return self._leading and self.remaining_seconds() > 0

    def check(self) -> int:
        """Return the epoch: the resourceVersion of the write that took the lease.

        Unlike `leaseTransitions` it grows even if somebody deletes the Lease. Raises LeaseLost as
        soon as another process may lead, also if our loop was blocked until now.
        """
        if not self.leading:
            raise LeaseLost(f"lease {self._namespace}/{self._lease} of {self.identity}")
        return self._epoch

    def remaining_seconds(self) -> float:
        """Return the seconds until we have to stop, unless we renew."""
        return self._renewed + self._deadline - self._clock.monotonic()

    # -- leading ------------------------------------------------------------------------------

    async def run(self, lead: Callable[[], Awaitable[None]]) -> None:
        """Wait for the lease, run `lead`, return when it ends.

        Raises LeaseLost (alone or in a group with other errors) if the lease is lost. The process
        then ends, because its caches and queues date from the time of that lease. If cancelled, it
        renews the lease until `lead` has ended, and then releases it.
        """
        await self._acquire()
        try:
            async with asyncio.TaskGroup() as tasks:
                work = tasks.create_task(self._reign(lead), name=f"leader {self._lease}")
                try:
                    await self._hold(work)
                except asyncio.CancelledError:
                    work.cancel()
                    await self._hold(work)
                    raise
        finally:
            safe = self.leading
            self._leading = False
            if safe:
                await self._release()

    async def _reign(self, lead: Callable[[], Awaitable[None]]) -> None:
        with under(self):
            await lead()

    async def _acquire(self) -> None:
        log.info("waiting for the lease", extra=self._extra())
        while True:
            started_at = self._clock.monotonic()
            if await self._attempt(min(self._deadline / 2, REQUEST_SECONDS)):
                self._renewed, self._leading = started_at, True  # counted from before the request
                log.info("leading", extra={**self._extra(), "epoch": self._epoch})
                return
            await self._clock.sleep(self._retry * (1 + 0.2 * self._spread()))

    async def _hold(self, work: "asyncio.Task[None]") -> None:
        """Renew until `work` is done. Raises LeaseLost, upon which the group cancels `work`."""
        while not work.done():
            await asyncio.wait({work}, timeout=min(self._retry, max(self.remaining_seconds(), 0)))
            if work.done():
                return
            started_at, remaining = self._clock.monotonic(), self.remaining_seconds()
            if remaining <= 0:
                self._lose("not renewed in time")
            if await self._attempt(min(remaining, REQUEST_SECONDS)):
                self._renewed = started_at

    def _lose(self, why: str) -> None:
        self._leading = False
        log.warning("lease lost", extra={**self._extra(), "why": why})
        raise LeaseLost(f"lease {self._namespace}/{self._lease} of {self.identity}: {why}")

    # -- requests -----------------------------------------------------------------------------

    async def _attempt(self, seconds: float) -> bool:
        """Take or renew the lease within `seconds`; False if another has it, or after an error."""
        try:
            async with asyncio.timeout(seconds):
                return await self._take()
        except (AlreadyExists, Conflict):
            return False  # another candidate wrote first; the next attempt reads it
        except (KubeError, TimeoutError) as error:
            why = str(error) or f"no answer within {seconds:.1f} s"
            log.warning("lease request failed", extra={**self._extra(), "why": why})
            return False

    async def _take(self) -> bool:
        path = paths.lease(self._namespace, self._lease)
        try:
            lease = await self._kube.get(path)
        except NotFound:
            lease = await self._kube.create(paths.leases(self._namespace), self._new())
            self._epoch = int(lease["metadata"]["resourceVersion"])
            return True
        spec = lease.setdefault("spec", {})
        holder = spec.get("holderIdentity") or ""
        if self._leading and holder != self.identity:
            self._lose(f"taken by {holder or 'nobody'}")
        now = self._clock.monotonic()
        self._sighting = self._sighting.update(spec, self._ttl, now)
        if not self._sighting.free(self.identity, now):
            return False
        taking = not self._leading
        if taking:
            spec["acquireTime"] = self._wall()
            spec["leaseTransitions"] = (spec.get("leaseTransitions") or 0) + 1
        spec |= self._mine()
        lease = await self._kube.replace(path, lease)  # carries the resourceVersion that we read
        if taking:
            self._epoch = int(lease["metadata"]["resourceVersion"])
        return True

    def _new(self) -> dict[str, Any]:
        return {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": self._lease, "namespace": self._namespace},
            "spec": {**self._mine(), "acquireTime": self._wall(), "leaseTransitions": 0},
        }

    def _mine(self) -> dict[str, Any]:
        return {
            "holderIdentity": self.identity,
            "leaseDurationSeconds": max(1, round(self._ttl)),
            "renewTime": self._wall(),
        }

    def _wall(self) -> str:
        """Return the time as a MicroTime, which only people read."""
        return self._clock.now().strftime("%Y-%m-%dT%H:%M:%S.%fZ")

    async def _release(self) -> None:
        """Release the lease for the next leader. If that fails, candidates wait for the ttl."""
        path = paths.lease(self._namespace, self._lease)
        try:
            async with asyncio.timeout(RELEASE_SECONDS):
                lease = await self._kube.get(path)
                if lease["spec"].get("holderIdentity") != self.identity:
                    return
                free = {"holderIdentity": "", "leaseDurationSeconds": 1, "renewTime": self._wall()}
                lease["spec"] |= free
                await self._kube.replace(path, lease)
                log.info("lease released", extra=self._extra())
        except (KubeError, TimeoutError) as error:
            log.warning("lease not released", extra={**self._extra(), "why": str(error)})

    def _extra(self) -> dict[str, str]:
        return {"lease": f"{self._namespace}/{self._lease}", "identity": self.identity}
