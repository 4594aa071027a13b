"""DeleteSandbox: removes pod sandboxes that have ended, so that the kubelet creates new ones."""

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING

from agent.actions.repair import STANDS, Repair, params_of, ports_of
from agent.host import Contraindicated
from agent.host.containers import Sandbox
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench

MOST = 16
YOUNG_SECONDS = 60.0
"""A younger sandbox may just not be ready yet."""


class DeleteSandbox(Repair):
    name = "DeleteSandbox"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        known = await ports_of(bench).containers.sandboxes()
        wanted = params_of(request).get("id")
        if wanted is None:
            ended = [s.id for s in known if not _describe_protection(s, bench.clock.now())]
            return {"ids": ",".join(ended[:MOST])}
        for sandbox in known:
            if sandbox.id == wanted and (why := _describe_protection(sandbox, bench.clock.now())):
                raise Contraindicated(f"DeleteSandbox: {wanted} of {sandbox.pod} {why}")
        return {"ids": wanted if any(s.id == wanted for s in known) else ""}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        if not before["ids"]:
            return done("DeleteSandbox: there is none that has ended")
        containers, ids = ports_of(bench).containers, before["ids"].split(",")
        end = bench.clock.monotonic() + limit
        for sandbox in ids:
            if bench.clock.monotonic() < end:
                await containers.remove_sandbox(sandbox)
        remaining = await self._list_remaining(before, bench)
        if remaining:
            return failed(f"DeleteSandbox: still there: {', '.join(remaining)}")
        return done(f"DeleteSandbox: gone: {', '.join(ids)}")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        if await self._list_remaining(before, bench):
            return None
        return done(f"DeleteSandbox: gone: {before['ids']}{STANDS}")

    async def _list_remaining(self, before: Mapping[str, str], bench: "Bench") -> list[str]:
        known = {s.id for s in await ports_of(bench).containers.sandboxes()}
        return [i for i in before["ids"].split(",") if i in known]


def _describe_protection(sandbox: Sandbox, now: datetime) -> str:
    """Describe why the sandbox must stay; "" if it may be removed."""
    if sandbox.ready:
        return "is ready: its pod runs"
    if sandbox.host_network:
        return "shares the host's network"
    if (now - sandbox.created).total_seconds() < YOUNG_SECONDS:
        return f"is younger than {YOUNG_SECONDS:.0f} s"
    return ""
