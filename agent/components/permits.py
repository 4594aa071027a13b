"""Checks right before an act that disturbs the host that its permit is still valid.

A change begins under the permit in the watched Machine. The watch may be behind, and a process that
starts late may find a change half done. So each act of class Restart or above is checked against
the live Machine. While the API server is away, a change of this process may go on as long as the
permit that was read last is valid. Otherwise a change of the API server or the network would never
end.
"""

from collections.abc import Awaitable, Callable
from datetime import datetime
from enum import StrEnum

import msgspec

from agent.components.differences import permitted
from agent.components.publisher import PLURAL
from kubenode.runtime.clock import Clock
from kubenode.runtime.components.wire import WireChangeClass, WireMachine, WireMachinePermit
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import KubeError
from kubenode.runtime.kube.objects import structs
from kubenode.runtime.kube.paths import custom


class PermitReadiness(StrEnum):
    """Result of a permit check.

    LIVE: the act may begin
    MISSING: there is no permit, it expired, or its class is too low
    UNREADABLE: the API server does not answer
    BUSY: a repair job holds the node under another permit
    """

    LIVE = "live"
    MISSING = "missing"
    UNREADABLE = "unreadable"
    BUSY = "busy"


class PermitCheck(msgspec.Struct, frozen=True):
    """State of a permit right before an act.

    why: reason for people; "" for LIVE
    machine: the Machine that was read; None: it does not exist, or was not read
    """

    state: PermitReadiness
    why: str = ""
    machine: WireMachine | None = None


class LivePermits:
    """Reads permits live.

    read: returns the live Machine; None: it does not exist. Raises KubeError
    conflict: returns why a job holds the node under another permit than the named one; "" if none
    """

    def __init__(
        self,
        read: Callable[[], Awaitable[WireMachine | None]],
        conflict: Callable[[str], str],
        clock: Clock,
    ) -> None:
        self._read, self._conflict, self._clock = read, conflict, clock
        self._last: tuple[WireMachinePermit, datetime, float] | None = None

    async def check(self, name: str, how: WireChangeClass) -> PermitCheck:
        """Return whether an act of class `how` on the component may begin now."""
        try:
            machine = await self._read()
        except KubeError as error:
            return self._unread(name, how, error)
        permit = machine.spec.permit if machine is not None else None
        now = self._clock.now()
        self._last = (permit, now, self._clock.monotonic()) if permit is not None else None
        if not permitted(name, how, permit, now, begun=True):
            why = f"no permit for a change of class {how} is valid"
            return PermitCheck(PermitReadiness.MISSING, why, machine)
        assert permit is not None
        if why := self._conflict(permit.name):
            return PermitCheck(PermitReadiness.BUSY, why, machine)
        return PermitCheck(PermitReadiness.LIVE, machine=machine)

    def _unread(self, name: str, how: WireChangeClass, error: KubeError) -> PermitCheck:
        """Decide by the permit that was read last; the monotonic clock measures its age."""
        if self._last is not None:
            permit, read_at, at = self._last
            age = self._clock.monotonic() - at
            since = (permit.last_start - read_at).total_seconds()
            if permitted(name, how, permit, read_at, begun=True) and age < since:
                if why := self._conflict(permit.name):
                    return PermitCheck(PermitReadiness.BUSY, why)
                return PermitCheck(PermitReadiness.LIVE)
        return PermitCheck(PermitReadiness.UNREADABLE, f"the permit cannot be read: {error}")


class _Machines(msgspec.Struct):
    items: list[WireMachine] = []


_decode_machines = structs(_Machines)


class MachineReader:
    """Reads the agent's own Machine from the API server.

    It lists with a field selector, because agents have only the rights to list and watch Machines.
    """

    def __init__(self, kube: Kube, agent: str) -> None:
        self._kube, self._query = kube, {"fieldSelector": f"metadata.name={agent}"}

    async def __call__(self) -> WireMachine | None:
        """Return the Machine; None if it does not exist. Raises KubeError."""
        machines = await self._kube.get(custom(PLURAL), _decode_machines, self._query)
        return machines.items[0] if machines.items else None
