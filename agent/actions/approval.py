"""ApproveEvent: tells Azure that a scheduled event may start now, which it hears from inside the
machine only (`POST /metadata/scheduledevents`, field StartRequests).

One word lets the event begin on every machine that it names: whether they are all empty is the
operator's to know, before it asks.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.detectors.metadata.approval import Began, NotApproved, approve
from agent.outcome import StepOutcome, done, failed, refused
from agent.request import StepRequest
from agent.wire import EVENT

if TYPE_CHECKING:
    from agent.actions import Bench

LONGEST_ID = 512


class ApproveEvent:
    announced = False

    def unfit(self, request: StepRequest) -> str:
        event = _event(request)
        return "" if 0 < len(event) <= LONGEST_ID else "the request names no event"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        return {EVENT: _event(request)}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        event = _event(request)
        if bench.metadata.cloud != "azure":
            return refused("ApproveEvent: settings [metadata] do not say that this is Azure")
        try:
            began = await approve(bench.metadata, event, limit)
        except NotApproved as error:
            return failed(f"ApproveEvent: {error}")
        how = "has begun already" if began is Began.ALREADY else "may start"
        return done(f"ApproveEvent: event {event} {how}")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        return None  # whether it was heard, the event's own phase tells the operator

    def after_boot(self, boot_id: str) -> StepOutcome:
        return done("ApproveEvent: the host has booted since it was asked")


def _event(request: StepRequest) -> str:
    params = request.step.params if request.step is not None else None
    return (params or {}).get(EVENT, "")
