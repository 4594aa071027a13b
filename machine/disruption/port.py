"""Interface by which controllers prepare and end the disruption of one node.

A controller calls `prepare` in each reconcile until the state is Ready, and further while the act
lasts, which keeps the permit. Then it calls `end` in each reconcile until that returns True. A
restart loses nothing: the permit is stored in Kube Defender, the cordon in the Node.
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
"""Default of DisruptionRequest.drain_timeout."""

DISRUPTION: dict[ChangeClass, Disruption] = {
    ChangeClass.NONE: Disruption.NONE,
    ChangeClass.RELOAD: Disruption.NONE,
    ChangeClass.RESTART: Disruption.HOST,
    ChangeClass.DRAIN: Disruption.PODS,
    ChangeClass.REBOOT: Disruption.NODE,
}
"""Disruption class to request from Kube Defender. For Disruption.NONE it is not asked."""


class DisruptionState(StrEnum):
    """State of a disruption.

    WAITING: not allowed, or no longer. Begin nothing; an act that is under way continues.
    DRAINING: allowed and cordoned; pods are leaving.
    READY: act now, under the permit.
    FAILED: a person must decide. Call `end`, after which `prepare` can start anew.
    """

    WAITING = "Waiting"
    DRAINING = "Draining"
    READY = "Ready"
    FAILED = "Failed"


class DisruptionHold(StrEnum):
    """Reasons in addition to those of Kube Defender's refusals."""

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

    node: name of the Node. None if the machine has none; then no permit is needed.
    holder: the object that acts: a Machine, MachineSet or MachineComponentSet.
    class_: how much the act disturbs. For Drain and above the node is cordoned and drained first.
    begun: the act is under way, or may be. It is then finished under its permit. Before that, an
        open
        job on the node takes precedence and the node is released to it.
    drain_timeout: time from the grant after which the drain has failed.
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
    """State of a disruption.

    permit: name of the Permit that is held, UNNEEDED without a Node, "" for none.
    expires_at: expiry of the permit, None without one.
    reason: a DisruptionHold, or the reason of Kube Defender's refusal.
    message: one sentence without values that change with time.
    requeue_after: seconds until the next call; None if the caller will be woken.
    """

    state: DisruptionState
    permit: str = ""
    expires_at: datetime | None = None
    reason: str = DisruptionHold.PREPARED
    message: str = ""
    requeue_after: float | None = None


class DisruptionService(Protocol):
    """Service that prepares and ends disruptions."""

    async def prepare(self, wish: DisruptionRequest) -> Prepared:
        """Prepare the disruption further and return its state. Raises KubeError; then call
        again.
        """
        ...

    async def end(self, node: str | None, holder: Holder) -> bool:
        """Remove the holder's mark, with the last one our cordon, and release the permit.

        Return whether that is done. If not, call again. Raises KubeError.
        """
        ...
