"""Common parts of repairs: a check of parameters, and no proof across a reboot."""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.host import HostError
from agent.host.ports import Ports
from agent.outcome import StepOutcome, boot_cut, failed
from agent.request import StepRequest
from kubenode.runtime.agentparams import complaint

if TYPE_CHECKING:
    from agent.actions import Bench


class Repair:
    """Base of repairs. name: of the action in the API."""

    announced = False
    name = ""

    def unfit(self, request: StepRequest) -> str:
        return complaint(self.name, params_of(request))

    async def prove(
        self, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome | None:
        return None

    def after_boot(self, boot_id: str) -> StepOutcome:
        return failed(boot_cut(boot_id))


def params_of(request: StepRequest) -> Mapping[str, str]:
    return (request.step.params or {}) if request.step is not None else {}


def ports_of(bench: "Bench") -> Ports:
    """Return the host's ports. Raises HostError if the agent has none."""
    if bench.ports is None:
        raise HostError("this agent was set up for units alone")
    return bench.ports


STANDS = "; the agent was interrupted, the result stands"
