"""Progress of a host from its import to Running, and what is missing. Pure.

It depends on the Machine alone, so that it is the same from any computer and after a crash.
"""

from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from kubenode.api.meta import Condition, format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import MachineMode
from kubenode.api.v1alpha1.machinestatus import MachineConditionType, MachinePhase
from machine.machine.success import applied, status_of


class Name(StrEnum):
    """Steps of an import, in their order."""

    MACHINE = "Machine"
    TOKEN = "token"
    AGENT = "agent"
    CERTIFICATE = "certificate"
    LEASE = "Lease"
    NODE = "Node"
    SYNCED = "synced"
    COMPONENTS = "components"
    RUNNING = "Running"


class StepMark(StrEnum):
    """State of a step. SKIPPED: the Machine does not need it. FAILED: a person must act."""

    DONE = "Done"
    WAITING = "Waiting"
    SKIPPED = "Skipped"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class ImportStep:
    """One step. `why` says what is observed, or what is missing and what to do about it."""

    name: Name
    mark: StepMark
    why: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether the step needs nothing more."""
        return self.mark in (StepMark.DONE, StepMark.SKIPPED)


def steps(machine: Machine, now: datetime, *, installed: bool = False) -> list[ImportStep]:
    """Return the steps in order.

    installed: whether the caller has just installed the agent on the host.
    """
    rest = (_token, _certificate, _lease, _node, _synced, _components, _running)
    by_name = {step.name: step for step in (check(machine, now) for check in rest)}
    by_name[Name.AGENT] = _agent(machine, by_name[Name.CERTIFICATE], installed)
    by_name[Name.MACHINE] = ImportStep(Name.MACHINE, StepMark.DONE, machine.metadata.name)
    return [by_name[name] for name in Name]


def missing(progress: list[ImportStep]) -> ImportStep | None:
    """Return the first step that failed, else the first that waits. None if the Machine is
    running.
    """
    if progress[-1].mark is StepMark.DONE:
        return None
    failed = next((step for step in progress if step.mark is StepMark.FAILED), None)
    return failed or next((step for step in progress if not step.is_finished), None)


StepCheck = Callable[[Machine, datetime], ImportStep]


def _ends(machine: Machine) -> datetime | None:
    bootstrap = machine.status.bootstrap
    return None if bootstrap is None else bootstrap.certificate_expires_at


def _token(machine: Machine, now: datetime) -> ImportStep:
    bootstrap = machine.status.bootstrap
    if _ends(machine) is not None or (bootstrap is not None and bootstrap.token_id):
        return ImportStep(Name.TOKEN, StepMark.DONE)
    why = "none is made: does `kubenode run machine` run and lead?"
    return ImportStep(Name.TOKEN, StepMark.WAITING, why)


def _agent(machine: Machine, certificate: ImportStep, installed: bool) -> ImportStep:
    requested = certificate.mark in (StepMark.DONE, StepMark.FAILED)
    if installed or requested or machine.status.host is not None:
        return ImportStep(Name.AGENT, StepMark.DONE)
    return ImportStep(Name.AGENT, StepMark.WAITING, "it is not installed, or was not heard of yet")


def _certificate(machine: Machine, now: datetime) -> ImportStep:
    condition, ends = _condition(machine, MachineConditionType.AGENT_READY), _ends(machine)
    if condition is not None and condition.reason in ("CertificateDenied", "CertificateExpired"):
        return ImportStep(Name.CERTIFICATE, StepMark.FAILED, condition.message)
    if ends is not None and ends > now:
        return ImportStep(Name.CERTIFICATE, StepMark.DONE, f"until {format_time(ends)}")
    why = "not asked for yet: `journalctl -u kubenode-agent` on the host says why"
    return ImportStep(Name.CERTIFICATE, StepMark.WAITING, why)


def _lease(machine: Machine, now: datetime) -> ImportStep:
    condition = _condition(machine, MachineConditionType.AGENT_READY)
    if condition is not None and condition.status == "True":
        return ImportStep(Name.LEASE, StepMark.DONE)
    why = "the agent has not renewed it: `journalctl -u kubenode-agent` on the host says why"
    return ImportStep(Name.LEASE, StepMark.WAITING, why)


def _node(machine: Machine, now: datetime) -> ImportStep:
    if not machine.expects_node:
        return ImportStep(Name.NODE, StepMark.SKIPPED, "a host outside Kubernetes")
    return _from(
        machine,
        Name.NODE,
        MachineConditionType.NODE_READY,
        f"Node {machine.node_name} is not seen to be Ready: is its kubelet running?",
        failed=("NodeConflict",),
    )


def _synced(machine: Machine, now: datetime) -> ImportStep:
    if not machine.expects_node:
        return ImportStep(Name.SYNCED, StepMark.SKIPPED, "a host outside Kubernetes")
    if machine.spec.mode is MachineMode.OBSERVE:
        return ImportStep(Name.SYNCED, StepMark.SKIPPED, "it is observed only")
    return _from(
        machine,
        Name.SYNCED,
        MachineConditionType.NODE_SYNCED,
        "labels and taints are not on the Node yet",
        failed=("LabelConflict", "DriftFight"),
    )


def _components(machine: Machine, now: datetime) -> ImportStep:
    behind = [
        f"{component.name} {reported.state} {reported.reason}".rstrip()
        if reported
        else f"{component.name} new"
        for component in machine.spec.components
        if not applied(component, reported := status_of(machine, component.name))
    ]
    pending = ", ".join(behind) or "what the sets choose for it is not on the host yet"
    return _from(machine, Name.COMPONENTS, MachineConditionType.COMPONENTS_READY, pending)


def _running(machine: Machine, now: datetime) -> ImportStep:
    phase = machine.status.phase
    if phase in (MachinePhase.RUNNING, MachinePhase.UPDATING):
        return ImportStep(Name.RUNNING, StepMark.DONE)
    condition = _condition(machine, MachineConditionType.HEALTHY)
    message = "" if condition is None or condition.status == "True" else condition.message
    why = f"phase {phase or 'unknown'}" + (f": {message}" if message else "")
    bad = phase in (MachinePhase.FAILED, MachinePhase.DELETING)
    return ImportStep(Name.RUNNING, StepMark.FAILED if bad else StepMark.WAITING, why)


def _condition(machine: Machine, type_: MachineConditionType) -> Condition | None:
    return machine.status.condition(type_)


def _from(
    machine: Machine,
    name: Name,
    type_: MachineConditionType,
    otherwise: str,
    failed: tuple[str, ...] = (),
) -> ImportStep:
    """Return the step by a condition of the Machine.

    otherwise: what is missing, if the condition has no message.
    failed: reasons of the condition that need a person.
    """
    condition = machine.status.condition(type_)
    if condition is not None and condition.status == "True":
        return ImportStep(name, StepMark.DONE)
    if condition is None or not condition.message:
        return ImportStep(name, StepMark.WAITING, otherwise)
    mark = StepMark.FAILED if condition.reason in failed else StepMark.WAITING
    return ImportStep(name, mark, f"{condition.reason}: {condition.message}")
