"""`kubenode providers check`: each node with its provider and the power of its machine."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass

import typer
from prometheus_client import CollectorRegistry

from kubenode.cli.cluster import connected
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import Plain
from kubenode.cli.providing import provided
from kubenode.cli.tables import table
from kubenode.providers.errors import ProviderError
from kubenode.providers.port import Machine
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths

AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class Row:
    """power  "" if it is not known
    about  the provider's own words, or why the power is not known
    """

    node: str
    provider: str
    power: str
    about: str


async def checked(
    path: str, wanted: Sequence[str], output: Plain, kubeconfig: str | None, context: str | None
) -> int:
    """The exit code. Raises Refusal."""
    if not path:
        raise Refusal(
            "--providers-file: required: name the file of the remedy operator", Exit.USAGE
        )
    async with provided(path, SystemClock(), CollectorRegistry()) as providers:
        assert providers is not None
        machines = await _machines(wanted, kubeconfig, context)
        room = asyncio.Semaphore(AT_A_TIME)
        rows = await asyncio.gather(*(_row(providers, machine, room) for machine in machines))
    if output is Plain.JSON:
        typer.echo(json.dumps([asdict(row) for row in rows], indent=2))
    else:
        cells = [(row.node, row.provider, row.power, row.about) for row in rows]
        for line in table(["NODE", "PROVIDER", "POWER", "ABOUT"], cells):
            typer.echo(line)
    return Exit.FINE if all(row.power for row in rows) else Exit.FINDING


async def _machines(
    wanted: Sequence[str], kubeconfig: str | None, context: str | None
) -> list[Machine]:
    async with connected(kubeconfig, context) as kube:
        nodes = (await kube.get(paths.nodes()))["items"]
    machines = [
        Machine(
            node["spec"].get("providerID", ""),
            node["metadata"]["name"],
            node["metadata"].get("annotations", {}),
        )
        for node in nodes
    ]
    if missing := sorted(set(wanted) - {machine.node for machine in machines}):
        raise Refusal(f"there is no node {', '.join(missing)} in this cluster: check the name")
    return [machine for machine in machines if not wanted or machine.node in wanted]


async def _row(providers: Providers, machine: Machine, room: asyncio.Semaphore) -> Row:
    provider = providers.of(machine)
    if provider is None:
        named = machine.provider_id or "no providerID and no BMC"
        return Row(machine.node, "", "", f"nobody's machine: {named}")
    async with room:
        try:
            power = await provider.power(machine)
        except ProviderError as error:
            return Row(machine.node, provider.name, "", f"{type(error).__name__}: {error.told}")
    return Row(machine.node, provider.name, power.state.value, power.raw)
