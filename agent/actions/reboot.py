"""Reboot: reboots the host. The agent that orders the reboot does not see its end.

The intent is on disk and the answer Running is written before systemd is called. The end of the
agent proves nothing; a new boot ID proves the reboot (failure mode F23).
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench


class Reboot:
    announced = True

    def unfit(self, request: StepRequest) -> str:
        return ""

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        return {}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        end = bench.clock.monotonic() + limit
        await bench.host.reboot()
        await bench.clock.sleep(end - bench.clock.monotonic())  # the reboot interrupts it
        return failed(f"Reboot: ordered, and the host still runs after {limit:.0f} s")

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        return None  # same boot: no proof, and the reboot is not ordered again

    def after_boot(self, boot_id: str) -> StepOutcome:
        if not boot_id:
            return failed("Reboot: the boot ID cannot be read, so nothing is proven")
        return done(f"Reboot: the host runs boot {boot_id} now")
