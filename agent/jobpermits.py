"""Checks a job's permit right before the agent reboots the host or resets a GPU.

The request names the permit. The Permit is read from the API server at that moment, because a watch
may be behind and a process may start late. A job without a permit's name comes from an older
operator, and is executed without this check.
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
"""Actions that need a live permit, and the least class of that permit."""
RECENT_SECONDS = 2.0
"""A permit that was read at most this long ago need not be read again."""


def least_class(request: StepRequest) -> str:
    """Return the class of permit that the request needs; "" if it is not checked."""
    if not request.permit or request.step is None:
        return ""
    return GUARDED.get(request.step.action, "")


class JobPermits:
    def __init__(self, permits: PermitReader) -> None:
        self._permits = permits

    async def refusal(self, request: StepRequest) -> str:
        """Describe why the request must not begin now; "" if it may. Raises KubeError.

        The operator recognises this refusal by its first word and decides again.
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
