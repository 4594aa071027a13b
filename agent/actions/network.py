"""RestartNetwork: restarts the network service and rolls back without help from the network.

A transient unit saves links, addresses and routes, restarts the service, tests the API server and
rolls back if needed. The agent only starts the unit and reads its result.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.actions.repair import STANDS, Repair, params_of, ports_of
from agent.host import Contraindicated
from agent.host.ports import NetworkResult
from agent.outcome import StepOutcome, bounded, done, failed
from agent.request import StepRequest
from kubenode.runtime.duration import seconds

if TYPE_CHECKING:
    from agent.actions import Bench

LEAST, MOST = 5.0, 300.0
"""Bounds in seconds for the time within which the API server must be reachable again."""
POLL_SECONDS = 0.5


class RestartNetwork(Repair):
    name = "RestartNetwork"

    def unfit(self, request: StepRequest) -> str:
        if why := super().unfit(request):
            return why
        within = _within(request)
        if not LEAST <= within <= MOST:
            return f"RestartNetwork: params.within {within:g} s: give {LEAST:g} s to {MOST:g} s"
        if within * 2 > request.timeout:
            return (
                f"RestartNetwork: timeout {request.timeout:g} s is too short: give it twice"
                f" params.within ({within:g} s), as the way back takes as long"
            )
        return ""

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        network = ports_of(bench).network
        manager = await network.manager()
        if not manager:
            raise Contraindicated(
                "RestartNetwork: neither systemd-networkd, NetworkManager nor networking.service"
                " runs here: nothing could be restarted"
            )
        if why := await network.degraded():
            raise Contraindicated(f"RestartNetwork: {why}")
        return {"name": str(request.key), "manager": manager, "within": f"{_within(request):g}"}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        await ports_of(bench).network.begin(
            before["name"], before["manager"], float(before["within"])
        )
        result = await self._wait(before, limit, bench)
        if result is None:
            return failed(f"RestartNetwork: {before['manager']}: no end within {limit:.0f} s")
        return await self._make_outcome(result, before, bench)

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        result = await self._wait(before, limit, bench)
        return None if result is None else await self._make_outcome(result, before, bench, STANDS)

    async def _wait(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> NetworkResult | None:
        network, clock = ports_of(bench).network, bench.clock
        end = clock.monotonic() + limit
        while (result := await network.result(before["name"])) is None:
            if clock.monotonic() + POLL_SECONDS > end:
                return None
            await clock.sleep(POLL_SECONDS)
        return result

    async def _make_outcome(
        self, result: NetworkResult, before: Mapping[str, str], bench: "Bench", note: str = ""
    ) -> StepOutcome:
        await ports_of(bench).network.forget(before["name"])
        suffix = bounded(f"{note}\n{result.output}".rstrip(), 2000)
        manager = before["manager"]
        if not result.rolled_back:
            return done(f"RestartNetwork: {manager} restarted, the API server is reached{suffix}")
        now = "is reached" if result.reachable else "is not reached with them either"
        return failed(
            f"RestartNetwork: {manager} restarted, and the API server was not reached within"
            f" {before['within']} s: links, addresses and routes were put back; it {now}{suffix}"
        )


def _within(request: StepRequest) -> float:
    return seconds(params_of(request).get("within", "20s"))
