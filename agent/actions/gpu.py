"""ResetGPU: resets GPUs that no process uses.

The step has class Pods, so the operator has moved the pods. If a process still uses a GPU (a device
plugin, DCGM, a lost process), the action refuses.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING

from agent.actions.repair import Repair, params_of, ports_of
from agent.host import Contraindicated
from agent.host.ports import Gpu
from agent.outcome import StepOutcome, done, failed
from agent.request import StepRequest

if TYPE_CHECKING:
    from agent.actions import Bench


class ResetGPU(Repair):
    name = "ResetGPU"

    async def read_before(self, request: StepRequest, bench: "Bench") -> Mapping[str, str]:
        wanted = params_of(request).get("gpu")
        gpus = await ports_of(bench).gpus.gpus()
        chosen = [g for g in gpus if wanted in (None, g.uuid, str(g.index))]
        if not chosen:
            known = ", ".join(g.uuid for g in gpus) or "none"
            raise Contraindicated(f"ResetGPU: no GPU {wanted or 'at all'} here; there is {known}")
        for gpu in chosen:
            if why := _unfit(gpu):
                raise Contraindicated(f"ResetGPU: {gpu.uuid} {why}")
        return {"gpus": ",".join(g.uuid for g in chosen)}

    async def act(
        self, request: StepRequest, before: Mapping[str, str], limit: float, bench: "Bench"
    ) -> StepOutcome:
        gpus, uuids = ports_of(bench).gpus, before["gpus"].split(",")
        await gpus.reset(uuids)
        back = {g.uuid for g in await gpus.gpus() if g.answers}
        if lost := [uuid for uuid in uuids if uuid not in back]:
            return failed(f"ResetGPU: does not answer after its reset: {', '.join(lost)}")
        return done(f"ResetGPU: reset, and answers: {', '.join(uuids)}")


def _unfit(gpu: Gpu) -> str:
    """Describe why the GPU cannot or must not be reset; "" if it may be."""
    if not gpu.answers:
        return "does not answer: no reset reaches it, only a boot or a power cycle"
    if gpu.divided:
        return "is divided (MIG): a reset would take all of its parts"
    if gpu.users:
        return f"is used by {gpu.users} processes: move the pods, stop device plugin and DCGM"
    return ""
