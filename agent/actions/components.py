"""RepairComponent: brings one component of this host back to what was applied, and to health.

It is the engine of components that does it, in its own journaled steps: files, packages and units
as they shall be, what runs is restarted, and its checks pass. An interrupted repair is taken up
again by the engine itself; only its end cannot be told any more.
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
    """Components of this host, for who has its hands."""

    async def repairable(self, name: str) -> bool: ...

    async def repair(self, name: str, limit: float) -> str:
        """ "" once it is well; else what is wrong after `limit` seconds at most."""
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
