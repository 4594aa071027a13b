"""ApproveEvent: tells Azure that a scheduled event may start now.

Azure accepts this from inside the machine only (`POST /metadata/scheduledevents`, field
StartRequests). One approval starts the event on every machine that it names. The operator checks
that all of them are empty before it requests the approval.
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
        return None  # the phase of the event shows the operator whether Azure accepted it

    def after_boot(self, boot_id: str) -> StepOutcome:
        return done("ApproveEvent: the host has booted since it was asked")


def _event(request: StepRequest) -> str:
    params = request.step.params if request.step is not None else None
    return (params or {}).get(EVENT, "")
