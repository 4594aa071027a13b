"""Checks that the permit of a job is valid right before a boot of the host, or a reset of a GPU.

The request in the job carries the permit's name, and the Permit is read from the API server at that
moment: a watch may be old, and a process may start late. A job without a permit's name was written
by an operator that sends none, and is done as before.
"""

from agent.request import StepRequest
from agent.wire import REBOOT
from kubenode.runtime.disruption.permits import PermitReader, invalid
from kubenode.runtime.disruption.request import (
    ActRefused,
    ActRequest,
    DisruptiveAct,
    RefusalReason,
)

GUARDED = {REBOOT: "Node", "ResetGPU": "Pods"}
"""Actions that are not begun without a live permit, and the least class of it."""
RECENT_SECONDS = 2.0
"""A permit that was read so long ago is valid now."""


def least_class(request: StepRequest) -> str:
    """Class of the permit that the request needs, "" if it is done without a look at it."""
    if not request.permit or request.step is None:
        return ""
    return GUARDED.get(request.step.action, "")


class JobPermits:
    def __init__(self, permits: PermitReader) -> None:
        self._permits = permits

    async def refusal(self, request: StepRequest) -> str:
        """Why the request may not be begun now, "" if it may. Raises KubeError.

        An operator knows this refusal by its first word, and decides anew.
        """
        class_ = least_class(request)
        if not class_:
            return ""
        assert request.step is not None
        act_request = ActRequest(
            DisruptiveAct.REBOOT if request.step.action == REBOOT else DisruptiveAct.RESET,
            target=request.agent,
            node=request.node,
            who=f"RemedyOperationJob {request.job}",
            request=str(request.key),
            permit=request.permit,
            holder_uid=request.key.job_uid,
            class_=class_,
        )
        why = invalid(act_request, await self._permits.read(request.permit))
        return str(ActRefused(RefusalReason.NO_PERMIT, why)) if why else ""
