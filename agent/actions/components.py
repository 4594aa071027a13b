"""RepairComponent: applies a component of this host again, as it was applied last, until healthy.

The component engine does the work in its own journaled steps. It restores files, packages and
units, restarts the units, and runs the checks. The engine itself continues an interrupted repair,
but its result cannot be reported any more.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Protocol

from agent.actions.repair import Repair, params_of
from agent.host import Contraindicated
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench


class ComponentRepairs(Protocol):
    """Repairs components. The caller holds the agent's hands."""

    async def repairable(self, name: str) -> bool: ...

    async def repair(self, name: str, limit: float) -> str:
        """Return "" once the component is healthy; else what is wrong after at most `limit`
        seconds.
        """
        ...


class RepairComponent(Repair):
    name = "RepairComponent"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        name = params_of(request)["component"]
        if bench.components is None or not await bench.components.repairable(name):
            raise Contraindicated(WHY.format(name))
        return {"component": name}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        if bench.components is None:
            return failed(WHY.format(before["component"]))
        wrong = await bench.components.repair(before["component"], limit)
        return failed(wrong) if wrong else done(f"component {before['component']} is Healthy")


WHY = (
    "RepairComponent: KubeNode has applied no component {} to this host, or is about to change it,"
    " so there is no version to bring it back to; restart its unit with RestartUnit, or its pod"
)
