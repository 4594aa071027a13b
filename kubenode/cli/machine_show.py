"""`kubenode machine show` and `kubenode machine list`."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

import typer

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import ComponentStatus, MachineConditionType
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit
from kubenode.cli.lengths import length
from kubenode.cli.machine_tokens import refusals
from kubenode.cli.options import Listing
from kubenode.cli.tables import show, table
from kubenode.runtime.kube.paths import custom
from machine.access import PLURAL
from machine.hostimport.steps import missing, steps
from machine.machine.success import status_of

COLUMNS = {
    "NAME": "name",
    "PHASE": "phase",
    "NODE": "node",
    "AGENT": "agent",
    "AVAILABLE": "available",
    "UPTODATE": "upToDate",
    "CERT": "certificate",
    "AGE": "age",
}
WIDE = {
    "ZONE": "zone",
    "COMPONENTS": "components",
    "KUBELET": "kubelet",
    "HOST": "host",
    "TOKEN": "token",
    "WHY": "why",
}
CONDITION_COLUMNS = ("CONDITION", "STATUS", "REASON", "FOR", "MESSAGE")
COMPONENT_COLUMNS = ("COMPONENT", "WANTED", "VERSION", "STATE", "NEEDS", "REASON")


async def shown(name: str, output: Listing, kubeconfig: str | None, context: str | None) -> Exit:
    """Print Machines.

    name: one Machine; "" for all.

    Return FINDING if a single Machine's agent is not ready.
    """
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        with refusals(name):
            if name:
                machines = [await kube.get(custom(PLURAL, name), Machine.from_server)]
            else:
                answer: Mapping[str, Any] = await kube.get(custom(PLURAL))
                machines = [Machine.model_validate(m, extra="ignore") for m in answer["items"]]
        now = kube.clock.now()
    rows = [row(machine, now) for machine in machines]
    plain = output in (Listing.TABLE, Listing.WIDE)
    if not rows and plain:
        typer.echo("no Machines")
        return Exit.FINE
    if name and not plain:
        rows = [{**rows[0], **details(machines[0])}]
    show(rows, COLUMNS, WIDE, output, Machine.resource.kind)
    if name and plain:
        for line in _more(machines[0], now):
            typer.echo(line)
    return Exit.FINDING if name and rows[0]["agent"] != "Ready" else Exit.FINE


def row(machine: Machine, now: datetime) -> dict[str, Any]:
    status, made = machine.status, machine.metadata.creation_timestamp
    bootstrap, host = status.bootstrap, status.host
    ready = status.condition(MachineConditionType.AGENT_READY)
    ends = None if bootstrap is None else bootstrap.certificate_expires_at
    kubelet = None if bootstrap is None else bootstrap.kubelet
    live = ready is not None and ready.status == "True"
    return {
        "name": machine.metadata.name,
        "phase": status.phase or "",
        "node": "" if machine.spec.node == "None" else machine.node_name,
        "agent": "Ready" if live else ("Unknown" if ready is None else ready.reason),
        "available": _status(machine, MachineConditionType.AVAILABLE),
        "upToDate": _status(machine, MachineConditionType.UP_TO_DATE),
        "certificate": _format_remaining(ends, now),
        "age": "" if made is None else length(now - made),
        "zone": machine.spec.failure_domain,
        "components": " ".join(f"{c.name}={c.version or c.state}" for c in status.components),
        "kubelet": ""
        if kubelet is None
        else _format_remaining(kubelet.certificate_expires_at, now),
        "host": "" if host is None else f"{host.os} {host.arch} {host.agent}".strip(),
        "token": "" if bootstrap is None else bootstrap.token_id,
        "why": "" if ready is None or live else ready.message,
    }


def details(machine: Machine) -> dict[str, Any]:
    """Return conditions and components of one Machine as JSON types, for programs."""
    return {
        "conditions": [c.to_dict() for c in machine.status.conditions],
        "componentsWanted": [c.to_dict() for c in machine.spec.components],
        "components": [c.to_dict() for c in machine.status.components],
    }


def _more(machine: Machine, now: datetime) -> list[str]:
    """Render conditions, components, and what the Machine waits for before it is Running."""
    lines: list[str] = []
    if conditions := _conditions(machine, now):
        lines += ["", *table(CONDITION_COLUMNS, conditions)]
    if components := _components(machine):
        lines += ["", *table(COMPONENT_COLUMNS, components)]
    if (gap := missing(steps(machine, now))) is not None:
        lines += ["", f"waits for {gap.name}: {gap.why}"]
    return lines


def _conditions(machine: Machine, now: datetime) -> Sequence[Sequence[object]]:
    return [
        [c.type, c.status, c.reason, length(now - c.last_transition_time), c.message]
        for c in machine.status.conditions
    ]


def _components(machine: Machine) -> Sequence[Sequence[object]]:
    """Return a row for each assigned component, then for others that the agent reports."""
    rows: list[list[object]] = []
    for assignment in machine.spec.components:
        reported = status_of(machine, assignment.name)
        rows.append([assignment.name, assignment.component, *_reported(reported)])
    wanted = {assignment.name for assignment in machine.spec.components}
    rest = (c for c in machine.status.components if c.name not in wanted)
    return [*rows, *([c.name, "", *_reported(c)] for c in rest)]


def _reported(status: ComponentStatus | None) -> list[object]:
    if status is None:
        return ["", "", "", ""]
    return [status.version, status.state, status.needs, f"{status.reason} {status.message}".strip()]


def _status(machine: Machine, type_: MachineConditionType) -> str:
    condition = machine.status.condition(type_)
    return "" if condition is None else str(condition.status)


def _format_remaining(ends: datetime | None, now: datetime) -> str:
    if ends is None:
        return ""
    return length(ends - now) if ends > now else f"ended {format_time(ends)}"
