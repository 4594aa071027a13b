"""How far a host has come on its way to Running, and what is missing. Pure.

It is read from the Machine alone, never from what was done before: whoever asks anew, from another
computer or after a kill, sees the same.
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
    MACHINE = "Machine"
    TOKEN = "token"
    AGENT = "agent"
    CERTIFICATE = "certificate"
    LEASE = "Lease"
    NODE = "Node"
    SYNCED = "synced"
    COMPONENTS = "components"
    RUNNING = "Running"


class Mark(StrEnum):
    """SKIPPED: nothing of this kind is wanted. FAILED: it needs a person."""

    DONE = "Done"
    WAITING = "Waiting"
    SKIPPED = "Skipped"
    FAILED = "Failed"


@dataclass(frozen=True, slots=True)
class Step:
    """`why` says what is seen, or missing and what to do about it."""

    name: Name
    mark: Mark
    why: str = ""

    @property
    def over(self) -> bool:
        return self.mark in (Mark.DONE, Mark.SKIPPED)


def steps(machine: Machine, now: datetime, *, installed: bool = False) -> list[Step]:
    """In their order. `installed`: the caller has just put the agent on the host."""
    rest = (_token, _certificate, _lease, _node, _synced, _components, _running)
    found = {step.name: step for step in (look(machine, now) for look in rest)}
    found[Name.AGENT] = _agent(machine, found[Name.CERTIFICATE], installed)
    found[Name.MACHINE] = Step(Name.MACHINE, Mark.DONE, machine.metadata.name)
    return [found[name] for name in Name]


def missing(found: list[Step]) -> Step | None:
    """The first one that failed, else the first that waits; None: it is Running."""
    if found[-1].mark is Mark.DONE:
        return None
    failed = next((step for step in found if step.mark is Mark.FAILED), None)
    return failed or next((step for step in found if not step.over), None)


Look = Callable[[Machine, datetime], Step]


def _ends(machine: Machine) -> datetime | None:
    bootstrap = machine.status.bootstrap
    return None if bootstrap is None else bootstrap.certificate_expires_at


def _token(machine: Machine, now: datetime) -> Step:
    bootstrap = machine.status.bootstrap
    if _ends(machine) is not None or (bootstrap is not None and bootstrap.token_id):
        return Step(Name.TOKEN, Mark.DONE)
    why = "none is made: does `kubenode run machine` run and lead?"
    return Step(Name.TOKEN, Mark.WAITING, why)


def _agent(machine: Machine, certificate: Step, installed: bool) -> Step:
    asked = certificate.mark in (Mark.DONE, Mark.FAILED)
    if installed or asked or machine.status.host is not None:
        return Step(Name.AGENT, Mark.DONE)
    return Step(Name.AGENT, Mark.WAITING, "it is not installed, or was not heard of yet")


def _certificate(machine: Machine, now: datetime) -> Step:
    said, ends = _condition(machine, MachineConditionType.AGENT_READY), _ends(machine)
    if said is not None and said.reason in ("CertificateDenied", "CertificateExpired"):
        return Step(Name.CERTIFICATE, Mark.FAILED, said.message)
    if ends is not None and ends > now:
        return Step(Name.CERTIFICATE, Mark.DONE, f"until {format_time(ends)}")
    why = "not asked for yet: `journalctl -u kubenode-agent` on the host says why"
    return Step(Name.CERTIFICATE, Mark.WAITING, why)


def _lease(machine: Machine, now: datetime) -> Step:
    said = _condition(machine, MachineConditionType.AGENT_READY)
    if said is not None and said.status == "True":
        return Step(Name.LEASE, Mark.DONE)
    why = "the agent has not renewed it: `journalctl -u kubenode-agent` on the host says why"
    return Step(Name.LEASE, Mark.WAITING, why)


def _node(machine: Machine, now: datetime) -> Step:
    if machine.spec.node == "None":
        return Step(Name.NODE, Mark.SKIPPED, "a host outside Kubernetes")
    return _from(
        machine,
        Name.NODE,
        MachineConditionType.NODE_READY,
        f"Node {machine.node_name} is not seen to be Ready: is its kubelet running?",
        failed=("NodeConflict",),
    )


def _synced(machine: Machine, now: datetime) -> Step:
    if machine.spec.node == "None":
        return Step(Name.SYNCED, Mark.SKIPPED, "a host outside Kubernetes")
    if machine.spec.mode is MachineMode.OBSERVE:
        return Step(Name.SYNCED, Mark.SKIPPED, "it is observed only")
    return _from(
        machine,
        Name.SYNCED,
        MachineConditionType.NODE_SYNCED,
        "labels and taints are not on the Node yet",
        failed=("LabelConflict", "DriftFight"),
    )


def _components(machine: Machine, now: datetime) -> Step:
    behind = [
        f"{one.name} {reported.state} {reported.reason}".rstrip() if reported else f"{one.name} new"
        for one in machine.spec.components
        if not applied(one, reported := status_of(machine, one.name))
    ]
    seen = ", ".join(behind) or "what the sets choose for it is not on the host yet"
    return _from(machine, Name.COMPONENTS, MachineConditionType.COMPONENTS_READY, seen)


def _running(machine: Machine, now: datetime) -> Step:
    phase = machine.status.phase
    if phase in (MachinePhase.RUNNING, MachinePhase.UPDATING):
        return Step(Name.RUNNING, Mark.DONE)
    said = _condition(machine, MachineConditionType.HEALTHY)
    told = "" if said is None or said.status == "True" else said.message
    why = f"phase {phase or 'unknown'}" + (f": {told}" if told else "")
    bad = phase in (MachinePhase.FAILED, MachinePhase.DELETING)
    return Step(Name.RUNNING, Mark.FAILED if bad else Mark.WAITING, why)


def _condition(machine: Machine, type_: MachineConditionType) -> Condition | None:
    return machine.status.condition(type_)


def _from(
    machine: Machine,
    name: Name,
    type_: MachineConditionType,
    otherwise: str,
    failed: tuple[str, ...] = (),
) -> Step:
    """By a condition; `failed` are reasons that need a person."""
    said = machine.status.condition(type_)
    if said is not None and said.status == "True":
        return Step(name, Mark.DONE)
    if said is None or not said.message:
        return Step(name, Mark.WAITING, otherwise)
    mark = Mark.FAILED if said.reason in failed else Mark.WAITING
    return Step(name, mark, f"{said.reason}: {said.message}")
