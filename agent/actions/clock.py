"""SyncTime: synchronises the clock with its sources; sets it at once only if it is far off.

A clock that jumps breaks programs that order events by time. On a host with etcd the clock is never
set, only slewed.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.actions.repair import STANDS, Repair, params_of, ports_of
from agent.host import Contraindicated
from agent.host.ports import TimeState
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench

GOOD_SECONDS = 0.05
"""Largest offset of a correct clock (node-mixin NodeClockSkewDetected)."""
STEP_SECONDS = 1.0
"""Largest offset that is slewed; a larger one would take the time service hours."""
POLL_SECONDS = 1.0


class SyncTime(Repair):
    name = "SyncTime"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        ports = ports_of(bench)
        state = await ports.time.state()
        if state.reachable == 0:
            raise Contraindicated(
                f"SyncTime: no time source of {state.service} answers, so nothing could set the"
                " clock right"
            )
        allowed = params_of(request).get("step", "Auto") == "Auto"
        etcd = await ports.processes.runs("etcd")
        return {
            "offset": _offset(state),
            "step": "no" if etcd or not allowed else "yes",
            "why": "etcd runs here" if etcd else "the step says Never",
        }

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        time, clock = ports_of(bench).time, bench.clock
        end = clock.monotonic() + limit
        await time.measure()
        stepped = False
        while True:
            state = await time.state()
            if _good(state):
                how = "set" if stepped else "slewed"
                return done(f"SyncTime: {how}; {_offset(state)}, was {before['offset']}")
            far = state.offset is not None and abs(state.offset) > STEP_SECONDS
            if far and not stepped and before["step"] == "yes":
                await time.step()
                stepped = True
            if clock.monotonic() + POLL_SECONDS > end:
                note = f"; not set at once, as {before['why']}" if before["step"] == "no" else ""
                return failed(f"SyncTime: {_offset(state)} after {limit:.0f} s{note}")
            await clock.sleep(POLL_SECONDS)

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        state = await ports_of(bench).time.state()
        return done(f"SyncTime: {_offset(state)}{STANDS}") if _good(state) else None


def _good(state: TimeState) -> bool:
    return state.synchronised and state.offset is not None and abs(state.offset) <= GOOD_SECONDS


def _offset(state: TimeState) -> str:
    off = "unknown" if state.offset is None else f"{state.offset:+.6f} s"
    return f"{state.service}: offset {off}" + ("" if state.synchronised else ", not synchronised")
