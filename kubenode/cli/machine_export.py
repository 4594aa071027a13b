"""`kubenode machine export`: removes a host from KubeNode and leaves it as it was before.

The Machine is deleted first, while the agent can still undo what its deletion requires; then the
agent is removed. An interrupted export continues when it is run again.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import typer

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machine import MachineOrigin
from kubenode.api.v1alpha1.machinestatus import MachineConditionType
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.machine_host import HostLeftovers, ImportHost
from kubenode.cli.machine_import_rows import ImportRow, row_of
from kubenode.cli.machine_importer import Reach, Tell
from kubenode.cli.machine_ssh import connect_ssh, require_asyncssh
from kubenode.cli.machine_tokens import refusals
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Forbidden, NotFound
from kubenode.runtime.kube.paths import custom
from machine.access import PLURAL
from machine.hostimport.probe import HostFacts
from machine.names import LEASES

POLL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Exporter:
    """Exports one host.

    seconds: timeout for the Machine's deletion, which may drain the node and remove components.
    uninstall: remove components even if the Machine keeps them.
    """

    kube: Kube
    reach: Reach
    tell: Tell
    seconds: float
    uninstall: bool = False

    async def run(self, row: ImportRow) -> Exit:
        """Export the host. Return FINDING if something of ours remains. Raises Refusal."""
        name = row.machine_name
        async with self.reach(row) as remote:
            host = ImportHost(remote, row.host, self.kube.clock)
            facts, _ = await host.probe()
            machine = await machine_of(self.kube, name)
            _is_its_host(row, machine, facts)
            node = name if machine is None else await self._give_up(machine)
            leftovers = await host.leave()
        marks = await self._marks(node)
        return self._report(name, leftovers, [*marks, *await self._lease(name)])

    async def _give_up(self, machine: Machine) -> str:
        """Delete the Machine and wait until it is gone.

        Return the name of its Node, "" for none.
        """
        name = machine.metadata.name
        path = custom(PLURAL, name)
        if machine.spec.origin is not MachineOrigin.IMPORT:
            raise Refusal(
                f"Machine {name} was made by a provider: deleting it deletes its instance;"
                f" if that is meant, `kubectl delete knm {name}`"
            )
        with refusals(name):
            if self.uninstall:
                policy = {"spec": {"deletion": {"imported": "Uninstall"}}}
                await self.kube.patch(path, policy)
            await self.kube.delete(path, uid=machine.metadata.uid)
            self.tell(f"{name}: Machine: deletion asked for")
            await self._wait_gone(path, machine)
        self.tell(f"{name}: Machine: gone")
        return machine.node_name if machine.spec.node == "Expected" else ""

    async def _wait_gone(self, path: str, machine: Machine) -> None:
        """Wait until the Machine is gone. Raises Refusal with what blocks the deletion."""
        clock, last_message = self.kube.clock, ""
        end = clock.monotonic() + self.seconds
        while True:
            try:
                there = await self.kube.get(path, Machine.from_server)
            except NotFound:
                return
            if there.metadata.uid != machine.metadata.uid:
                return
            condition = there.status.condition(MachineConditionType.DELETABLE)
            why = "" if condition is None else f"{condition.reason}: {condition.message}"
            if why and why != last_message:
                self.tell(f"{machine.metadata.name}: Machine: {why}")
                last_message = why
            if clock.monotonic() >= end:
                cause = why or f"finalizers {', '.join(there.metadata.finalizers)}"
                raise Refusal(
                    f"Machine {machine.metadata.name} is still being deleted: {cause}; nothing was"
                    " taken off the host yet, run it again"
                )
            await clock.sleep(POLL_SECONDS)

    async def _marks(self, node: str) -> list[str]:
        """List annotations, taints and labels of ours that the Node still has."""
        if not node:
            return []
        try:
            stored: Mapping[str, Any] = await self.kube.get(paths.node(node))
        except NotFound:
            return []
        except Forbidden:
            return [f"Node {node}: not looked at, a right is missing: get nodes"]
        meta, spec = stored.get("metadata", {}), stored.get("spec", {})
        keys = [*meta.get("annotations", {}), *meta.get("labels", {})]
        keys += [taint["key"] for taint in spec.get("taints", ())]
        return [f"Node {node}: {key}" for key in keys if key.startswith("kubenode.io/")]

    async def _lease(self, name: str) -> list[str]:
        """Delete the agent's Lease, which is no longer renewed.

        Return why it remains, [] if it is gone.
        """
        try:
            await self.kube.delete(paths.lease(LEASES, name))
        except NotFound:
            return []
        except Forbidden:
            return [f"Lease {LEASES}/{name}: not deleted, a right is missing: delete leases"]
        return []

    def _report(self, name: str, leftovers: HostLeftovers, marks: list[str]) -> Exit:
        self.tell(f"{name}: agent: taken off")
        for path in leftovers.paths:
            typer.echo(f"stays: {path}")
        for mark in marks:
            typer.echo(f"stays: {mark}")
        for package in leftovers.packages:
            typer.echo(f"stays: package {package}, which came with the agent's; others need it now")
        for component in leftovers.components:
            typer.echo(f"stays: {component}")
        if not (leftovers.paths or marks or leftovers.packages or leftovers.components):
            typer.echo(f"{name}: nothing of ours stays")
        lost = [entry for entry in leftovers.components if entry.stays]
        return Exit.FINDING if leftovers.paths or marks or lost else Exit.FINE


async def machine_of(kube: Kube, name: str) -> Machine | None:
    """Return the Machine, None if it does not exist."""
    try:
        return await kube.get(custom(PLURAL, name), Machine.from_server)
    except NotFound:
        return None


def _is_its_host(row: ImportRow, machine: Machine | None, facts: HostFacts) -> None:
    """Raise Refusal unless the host belongs to the Machine.

    The check prevents a typing error from cleaning another host or deleting another Machine.
    """
    name = row.machine_name
    if not facts.root:
        how = "log in as root, or let this user `sudo` without a password"
        raise Refusal(f"{row.host}: neither root nor sudo without a password; {how}")
    if facts.agent not in ("", name):
        raise Refusal(f"{row.host}: it is the host of Machine {facts.agent}, not of {name}")
    ready = None if machine is None else machine.status.condition(MachineConditionType.AGENT_READY)
    if not facts.agent and ready is not None and ready.status == "True":
        raise Refusal(
            f"{row.host}: no agent is here, and that of Machine {name} lives: is --ssh right?"
        )


@dataclass(frozen=True, slots=True)
class SshAddress:
    """Where and how to reach the host.

    ssh: USER@HOST:PORT; "" for the Machine's first address.
    """

    ssh: str = ""
    identity: str = ""
    known_hosts: str = ""


async def export_command(
    name: str,
    address: SshAddress,
    seconds: float,
    kubeconfig: str | None,
    context: str | None,
    *,
    uninstall: bool,
) -> Exit:
    require_asyncssh()
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        row = await _row(kube, name, address)
        exporter = Exporter(kube, connect_ssh, _tell, seconds, uninstall)
        return await exporter.run(row)


async def _row(kube: Kube, name: str, address: SshAddress) -> ImportRow:
    """Return the row that names the host to export. Raises Refusal if no host is known."""
    host = ImportRow(host=name, ssh=address.ssh).ssh_target[1] if address.ssh else ""
    if not host or host == name:
        machine = await machine_of(kube, name)
        if machine is None and not address.ssh:
            how = "say --ssh USER@HOST to clean a host that was its"
            raise Refusal(f"there is no Machine {name}; {how}")
        if machine is not None and machine.spec.addresses:
            host = machine.spec.addresses[0]
    return row_of(
        {
            "host": host or name,
            "name": name,
            "ssh": address.ssh,
            "identity": address.identity,
            "knownHosts": address.known_hosts,
        }
    )


def _tell(line: str) -> None:
    typer.echo(line, err=True)
