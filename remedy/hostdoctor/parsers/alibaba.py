"""Types and statuses of ECS system events, the same in every transport. Pure.

Names: "System events" of the ECS documentation. A type keeps its name when its event was avoided or
is over: the status counts, and a time at which it finished.
"""

from datetime import datetime

from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.noderemedier import Severity
from remedy.hostdoctor.parsers.payload import meant
from remedy.hostdoctor.report import Reported, ReportedHost

C, P = HostEventClass, HostEventPhase
CLASSES = {
    "SystemMaintenance.Reboot": C.REBOOT,
    "SystemMaintenance.Redeploy": C.REDEPLOY,
    "SystemMaintenance.Stop": C.STOP,
    "SystemMaintenance.RebootAndIsolateErrorDisk": C.DISK_FAULT,
    "SystemMaintenance.RebootAndReInitErrorDisk": C.DISK_FAULT,
    "SystemMaintenance.IsolateErrorDisk": C.DISK_FAULT,
    "SystemMaintenance.ReInitErrorDisk": C.DISK_FAULT,
    "SystemMaintenance.CleanInactiveDisks": C.DISK_FAULT,
    "SystemFailure.Reboot": C.HARDWARE_FAULT,
    "SystemFailure.Redeploy": C.REDEPLOY,
    "SystemFailure.Stop": C.HARDWARE_FAULT,
    "SystemFailure.Delete": C.HARDWARE_FAULT,
    "InstanceFailure.Reboot": C.REBOOT,
    "InstanceExpiration.Stop": C.BILLING,
    "InstanceExpiration.Delete": C.BILLING,
    "AccountUnbalanced.Stop": C.BILLING,
    "AccountUnbalanced.Delete": C.BILLING,
    "PreemptibleInstanceInterruption": C.SPOT_INTERRUPTION,
    "LiveMigrationAcrossDDH": C.FREEZE,
}
"""Classes of event types. A failed host is HardwareFault if the cloud restarts the instance by
itself; a move that loses local disks is Redeploy, whatever its cause.
"""
CONDITIONS = ("Degraded", "SeverelyDegraded", "Stalled", "ErrorDetected")
"""Types that occur for disks and for instances; the subject decides the class."""
PHASES = {
    "Inquiring": P.AWAITING_APPROVAL,
    "Scheduled": P.SCHEDULED,
    "Executing": P.ACTIVE,
    "Executed": P.COMPLETED,
    "Avoided": P.CANCELLED,
    "Canceled": P.CANCELLED,
    "Rejected": P.CANCELLED,
    "Failed": P.COMPLETED,
}
"""Phases of statuses. A failed event counts as completed: the cloud does not retry it."""
SEVERITIES = {
    C.FREEZE: Severity.INFO,
    C.HARDWARE_FAULT: Severity.CRITICAL,
    C.SPOT_INTERRUPTION: Severity.CRITICAL,
}


def class_of(kind: str, *, disk: bool) -> HostEventClass:
    """Return the class of an event type; OTHER for an unknown one, so that people are notified."""
    if kind in CONDITIONS:
        return C.DISK_FAULT if disk else C.HARDWARE_FAULT
    return CLASSES.get(kind, C.OTHER)


def phase_of(status: str) -> HostEventPhase | None:
    """Return the phase of a status; None for an unknown one."""
    return PHASES.get(status) or meant(status)


def reported(
    identity: str,
    kind: str,
    class_: HostEventClass,
    host: ReportedHost,
    phase: HostEventPhase,
    *,
    not_before: datetime | None = None,
    notes: dict[str, str],
    silent: bool = False,
) -> Reported:
    about = notes.get("disk") or host.instance
    return Reported(
        HostEventSource.ALIBABA_CLOUD,
        identity,
        class_,
        host,
        phase=phase,
        severity=SEVERITIES.get(class_, Severity.WARNING),
        not_before=not_before,
        attributes={"type": kind, **notes},
        message=f"system event {kind} of {about}"
        + (f": {notes['status']}" if "status" in notes else ""),
        silent=silent,
    )
