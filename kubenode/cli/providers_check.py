"""`kubenode providers check`: shows provider and power of each node, checks event sources."""

import asyncio
from collections.abc import Sequence
from dataclasses import asdict, dataclass

from prometheus_client import CollectorRegistry

from kubenode.cli.cluster import connected
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import ReportFormat
from kubenode.cli.providers_file import listened, provided
from kubenode.cli.tables import show_report, table
from kubenode.providers.errors import ProviderError
from kubenode.providers.events import ProviderEventSource
from kubenode.providers.port import ProviderMachine
from kubenode.providers.registry import Providers
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.kube import paths

AT_A_TIME = 8


@dataclass(frozen=True, slots=True)
class ProviderRow:
    """A node and the answer of its provider.

    power: "" if unknown.
    about: the provider's own text, or why the power state is unknown.
    """

    node: str
    provider: str
    power: str
    about: str


@dataclass(frozen=True, slots=True)
class EventRow:
    """A source of provider events, and whether it can be read."""

    source: str
    events: str
    answers: bool
    about: str


async def checked(
    path: str,
    wanted: Sequence[str],
    output: ReportFormat,
    kubeconfig: str | None,
    context: str | None,
) -> int:
    """Check the providers and print the result.

    Return FINDING if one does not answer. Raises Refusal.
    """
    if not path:
        raise Refusal(
            "--providers-file: required: name the file of the remedy operator", Exit.USAGE
        )
    clock = SystemClock()
    async with (
        provided(path, clock, CollectorRegistry()) as providers,
        listened(path, clock) as sources,
    ):
        assert providers is not None
        machines = await _machines(wanted, kubeconfig, context)
        room = asyncio.Semaphore(AT_A_TIME)
        rows = await asyncio.gather(*(_row(providers, machine, room) for machine in machines))
        events = await asyncio.gather(*(_source(source, room) for source in sources))
    _print(rows, events, output)
    fine = all(row.power for row in rows) and all(event.answers for event in events)
    return Exit.FINE if fine else Exit.FINDING


def _print(rows: Sequence[ProviderRow], events: Sequence[EventRow], output: ReportFormat) -> None:
    report = [asdict(row) for row in rows] + [asdict(event) for event in events]
    show_report(report, output, lambda: _lines(rows, events))


def _lines(rows: Sequence[ProviderRow], events: Sequence[EventRow]) -> list[str]:
    cells = [(row.node, row.provider, row.power, row.about) for row in rows]
    lines = table(["NODE", "PROVIDER", "POWER", "ABOUT"], cells)
    if not events:
        return lines
    about = [(e.source, e.events, "yes" if e.answers else "no", e.about) for e in events]
    return [*lines, "", *table(["SOURCE", "EVENTS OF", "ANSWERS", "ABOUT"], about)]


async def _source(source: ProviderEventSource, room: asyncio.Semaphore) -> EventRow:
    async with room:
        try:
            about = await source.check()
        except ProviderError as error:
            message = f"{type(error).__name__}: {error.message}"
            return EventRow(source.name, source.where, answers=False, about=message)
    return EventRow(source.name, source.where, answers=True, about=about)


async def _machines(
    wanted: Sequence[str], kubeconfig: str | None, context: str | None
) -> list[ProviderMachine]:
    async with connected(kubeconfig, context) as kube:
        nodes = (await kube.get(paths.nodes()))["items"]
    machines = [
        ProviderMachine(
            node["spec"].get("providerID", ""),
            node["metadata"]["name"],
            node["metadata"].get("annotations", {}),
        )
        for node in nodes
    ]
    if missing := sorted(set(wanted) - {machine.node for machine in machines}):
        raise Refusal(f"there is no node {', '.join(missing)} in this cluster: check the name")
    return [machine for machine in machines if not wanted or machine.node in wanted]


async def _row(
    providers: Providers, machine: ProviderMachine, room: asyncio.Semaphore
) -> ProviderRow:
    provider = providers.of(machine)
    if provider is None:
        named = machine.provider_id or "no providerID and no BMC"
        return ProviderRow(machine.node, "", "", f"nobody's machine: {named}")
    async with room:
        try:
            power = await provider.power(machine)
        except ProviderError as error:
            return ProviderRow(
                machine.node, provider.name, "", f"{type(error).__name__}: {error.message}"
            )
    return ProviderRow(machine.node, provider.name, power.state.value, power.raw)
