"""`kubenode machine show`."""

from collections.abc import Mapping
from datetime import datetime
from typing import Any

import typer

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit
from kubenode.cli.lengths import length
from kubenode.cli.machine_tokens import refusals
from kubenode.cli.options import Listing
from kubenode.cli.tables import show
from kubenode.runtime.kube.paths import custom
from machine.access import PLURAL

COLUMNS = {"NAME": "name", "NODE": "node", "AGENT": "agent", "CERT": "certificate", "AGE": "age"}
WIDE = {"KUBELET": "kubelet", "HOST": "host", "TOKEN": "token", "WHY": "why"}


async def shown(name: str, output: Listing, kubeconfig: str | None, context: str | None) -> Exit:
    """Ends with FINDING for one Machine whose agent does not live."""
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        with refusals(name):
            if name:
                machines = [await kube.get(custom(PLURAL, name), Machine.from_server)]
            else:
                answer: Mapping[str, Any] = await kube.get(custom(PLURAL))
                machines = [Machine.model_validate(m, extra="ignore") for m in answer["items"]]
        rows = [row(machine, kube.clock.now()) for machine in machines]
    if not rows and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no Machines")
        return Exit.FINE
    show(rows, COLUMNS, WIDE, output)
    if name and output in (Listing.TABLE, Listing.WIDE) and rows[0]["why"]:
        typer.echo(f"\n{rows[0]['why']}")
    return Exit.FINDING if name and rows[0]["agent"] != "Ready" else Exit.FINE


def row(machine: Machine, now: datetime) -> dict[str, str]:
    status, made = machine.status, machine.metadata.creation_timestamp
    bootstrap, host = status.bootstrap, status.host
    ready = status.condition(MachineConditionType.AGENT_READY)
    ends = None if bootstrap is None else bootstrap.certificate_expires_at
    kubelet = None if bootstrap is None else bootstrap.kubelet
    live = ready is not None and ready.status == "True"
    return {
        "name": machine.metadata.name,
        "node": machine.node_name,
        "agent": "Ready" if live else ("Unknown" if ready is None else ready.reason),
        "certificate": _left(ends, now),
        "age": "" if made is None else length(now - made),
        "kubelet": "" if kubelet is None else _left(kubelet.certificate_expires_at, now),
        "host": "" if host is None else f"{host.os} {host.arch} {host.agent}".strip(),
        "token": "" if bootstrap is None else bootstrap.token_id,
        "why": "" if ready is None or live else ready.message,
    }


def _left(ends: datetime | None, now: datetime) -> str:
    if ends is None:
        return ""
    return length(ends - now) if ends > now else f"ended {format_time(ends)}"
