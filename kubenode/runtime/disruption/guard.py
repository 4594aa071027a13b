"""Performs an act by the protocol of this package, or refuses it with a reason."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TypeVar

from kubenode.runtime.audit import Audit, AuditLine
from kubenode.runtime.clock import Clock
from kubenode.runtime.disruption.permits import PermitReader, invalid
from kubenode.runtime.disruption.request import (
    UNNEEDED,
    ActRefused,
    ActRequest,
    LiveTarget,
    RefusalReason,
)
from kubenode.runtime.fence import Fence
from kubenode.runtime.kube.errors import KubeError

T = TypeVar("T")

MOST_WRITTEN = 4096
"""Requests whose last audit line is remembered, so that it is not repeated."""

Intent = Callable[[], Awaitable[bool]]
"""Stores the intent; returns whether it is stored under the request's ID by now."""
Key = tuple[str, str, str]
ReadTarget = Callable[[], Awaitable[LiveTarget]]


def never_frozen() -> str:
    return ""


async def stored() -> bool:
    """Return True, for a caller that has read its intent from a status, annotation or journal."""
    return True


@dataclass(frozen=True, slots=True)
class DisruptionGuard:
    """Performs acts, or refuses them.

    permits: reads a Permit live
    audit: receives a line for each act and each refusal
    frozen: returns why nothing in this cluster may be deleted, stopped or replaced now, else ""
    by: part of KubeNode that acts, for the audit log
    """

    permits: PermitReader
    fence: Fence
    clock: Clock
    audit: Audit
    frozen: Callable[[], str] = never_frozen
    by: str = "machine"
    _written: dict[Key, tuple[str, str]] = field(default_factory=dict)

    async def perform(
        self,
        request: ActRequest,
        *,
        intent: Intent,
        target: ReadTarget,
        act: Callable[[], Awaitable[T]],
    ) -> T:
        """Perform the act. Raises ActRefused if it was not done, LeaseLost, and errors of `act`."""
        try:
            await self._check_or_refuse(request, intent, target)
        except ActRefused as refused:
            self._write(request, "Refused", str(refused))
            raise
        self.fence.check()
        try:
            done = await act()
        except Exception as error:
            self._write(request, "Unknown", f"{type(error).__name__}: {error}")
            raise
        self._write(request, "Done", request.evidence)
        return done

    async def _check_or_refuse(
        self, request: ActRequest, intent: Intent, target: ReadTarget
    ) -> None:
        """Check the request. If the API server cannot be read, the act is refused as well."""
        try:
            await self._check(request, intent, target)
        except KubeError as error:
            why = f"the API server cannot be asked about it: {error}"
            raise ActRefused(RefusalReason.UNREADABLE, why) from error

    async def _check(self, request: ActRequest, intent: Intent, target: ReadTarget) -> None:
        self._still(request)
        if not await intent():
            raise ActRefused(RefusalReason.NO_INTENT, "its intent is not stored yet")
        live = await target()
        if live.changed:
            raise ActRefused(RefusalReason.TARGET_CHANGED, live.changed)
        if request.boot_id and live.boot_id != request.boot_id:
            live_boot = live.boot_id or "unknown"
            why = f"the host runs boot {live_boot}, and it was decided on boot {request.boot_id}"
            raise ActRefused(RefusalReason.BOOT_CHANGED, why)
        named = request.permit not in ("", UNNEEDED)
        permit = await self.permits.read(request.permit) if named else None
        if why := invalid(request, permit):
            raise ActRefused(RefusalReason.NO_PERMIT, why)
        self._still(request)  # the reads above may have taken long

    def _still(self, request: ActRequest) -> None:
        if why := self.frozen():
            raise ActRefused(RefusalReason.FROZEN, why)
        if request.expires is not None and self.clock.now() >= request.expires:
            raise ActRefused(RefusalReason.EXPIRED, "its time is over: it is decided anew")

    def _write(self, request: ActRequest, outcome: str, why: str) -> None:
        """Write a line to the audit log, unless the request's last line had the same outcome."""
        key = (str(request.act), request.target, request.request)
        if self._written.get(key) == (outcome, why):
            return
        self._written[key] = (outcome, why)
        if len(self._written) > MOST_WRITTEN:
            self._written.pop(next(iter(self._written)))
        under = f"permit {request.permit}" if request.permit else "no permit"
        self.audit.write(
            AuditLine(
                self.clock.now(),
                self.by,
                request.who,
                str(request.act),
                outcome,
                why=f"{request.target}, {under}: {why}",
                node=request.node,
                request_id=request.request,
            )
        )
