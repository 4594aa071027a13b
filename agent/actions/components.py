"""RepairComponent: refused, until components of a Machine are known to the agent."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.actions.repair import Repair
from agent.outcome import Outcome, refused
from agent.request import Request

if TYPE_CHECKING:
    from agent.actions import Bench


class RepairComponent(Repair):
    name = "RepairComponent"

    def unfit(self, request: Request) -> str:
        return super().unfit(request) or WHY

    async def look(self, request: Request, bench: "Bench") -> Mapping[str, str]:
        return {}

    async def act(
        self, request: Request, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> Outcome:
        return refused(WHY)


WHY = (
    "RepairComponent: no component of this host is managed by KubeNode, so there is no version to"
    " bring it back to; restart its unit with RestartUnit, or its pod"
)
