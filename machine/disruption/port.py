"""How the Machine operator's controllers prepare and end a disruption of one node.

Level-based: `prepare` is called at every reconcile until it says Ready, and on while the act lasts,
which keeps the permit; `end` is called at every reconcile afterwards until it says True. Neither
remembers anything that a restart may lose: the permit is Kube Defender's, the cordon the Node's.
"""

from dataclasses import dataclass
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Protocol

from kubenode.api.v1alpha1 import Disruption, Severity
from kubenode.api.v1alpha1.machinework import ChangeClass
from kubenode.api.v1alpha1.permit import Holder, Operation
from kubenode.runtime.disruption.request import UNNEEDED as UNNEEDED

DRAIN_TIMEOUT = timedelta(minutes=30)

DISRUPTION: dict[ChangeClass, Disruption] = {
    ChangeClass.NONE: Disruption.NONE,
    ChangeClass.RELOAD: Disruption.NONE,
    ChangeClass.RESTART: Disruption.HOST,
    ChangeClass.DRAIN: Disruption.PODS,
    ChangeClass.REBOOT: Disruption.NODE,
}
"""What Kube Defender is asked for; None: it is not asked."""


class DisruptionState(StrEnum):
    """WAITING   not allowed, or not any more: begin nothing; an act that is under way goes on
    DRAINING  allowed and cordoned; pods are still to leave
    READY     act now, under the permit
    FAILED    not without somebody's decision: call `end`, which lets a later `prepare` begin anew
    """

    WAITING = "Waiting"
    DRAINING = "Draining"
    READY = "Ready"
    FAILED = "Failed"


class DisruptionHold(StrEnum):
    """Reasons beside those of Kube Defender's refusals."""

    PREPARED = "Prepared"
    MELTDOWN = "Meltdown"
    REMEDY_JOB_OPEN = "RemedyJobOpen"
    DEFENDER_UNREACHABLE = "DefenderUnreachable"
    DRAINING = "Draining"
    PDB_BLOCKED = "PDBBlocked"
    PERSON_UNCORDONED = "PersonUncordoned"
    DRAIN_TIMEOUT = "DrainTimeout"
    CONTENDED = "Contended"


@dataclass(frozen=True, slots=True)
class DisruptionRequest:
    """One act on one node.

    node           name of the Node; None: the machine has none, then no permit is asked
    holder         the object that acts: Machine, MachineSet or MachineComponentSet
    class_         how much the act disturbs; Drain and above cordon and drain first
    begun          the act is under way or nobody knows that it is not: it ends under its permit,
                   whatever comes between; before that an open job of the node gets it back
    drain_timeout  from the grant on; after it the drain Failed
    """

    node: str | None
    holder: Holder
    operation: Operation
    class_: ChangeClass
    severity: Severity = Severity.INFO
    begun: bool = False
    drain_timeout: timedelta = DRAIN_TIMEOUT


@dataclass(frozen=True, slots=True)
class Prepared:
    """How far a disruption is prepared.

    permit      name of the Permit that is held, UNNEEDED without a Node, "" for none
    expires_at  of the permit, while one is held
    reason      of `DisruptionHold`, or Kube Defender's own when it refuses
    message     one sentence that holds no ticking value
    look_again  seconds; None: something else will wake who asks
    """

    state: DisruptionState
    permit: str = ""
    expires_at: datetime | None = None
    reason: str = DisruptionHold.PREPARED
    message: str = ""
    look_again: float | None = None


class DisruptionService(Protocol):
    async def prepare(self, wish: DisruptionRequest) -> Prepared:
        """One step further, or why not. Raises KubeError; then it is tried again."""
        ...

    async def end(self, node: str | None, holder: Holder) -> bool:
        """Take off the holder's mark, with the last one the cordon if it is ours, and give the
        permit back. Whether that is done; False: call again. Raises KubeError.
        """
        ...
