"""`kubenode component status`."""

from collections import Counter
from typing import Any

import typer

from kubenode.api.names import list_first
from kubenode.api.v1alpha1 import Machine
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import Listing
from kubenode.cli.tables import show
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.paths import custom
from machine.access import PLURAL
from machine.insight.fleet import Family, families

COLUMNS = {
    "COMPONENT": "component",
    "MACHINES": "machines",
    "WELL": "well",
    "LACKING": "lacking",
    "DRIFTING": "drifting",
    "BAD": "bad",
    "VERSIONS": "versions",
}
WIDE = {"WANTED": "wanted", "STATES": "states", "RUN-STATES": "runStates"}
SHOWN = 20
"""Machine names in a line of text; JSON and YAML have all."""


async def status_command(
    name: str, output: Listing, kubeconfig: str | None, context: str | None
) -> Exit:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        component_families = families(await machines(kube))
    if name:
        component_families = [family for family in component_families if family.name == name]
        if not component_families:
            raise Refusal(f"no machine has a component {name}; `kubenode component status` lists")
    if output in (Listing.JSON, Listing.YAML):
        show([in_full(family) for family in component_families], {}, {}, output)
    elif not component_families and output is not Listing.NAME:
        typer.echo("no machine has a component")
    else:
        show([row(family) for family in component_families], COLUMNS, WIDE, output, key="component")
        if name and output is not Listing.NAME:
            _print_problems(component_families[0])
    return Exit.FINDING if name and not _fine(component_families[0]) else Exit.FINE


async def machines(kube: Kube) -> list[Machine]:
    answer = await kube.get(custom(PLURAL))
    return [Machine.model_validate(item, extra="ignore") for item in answer["items"]]


def row(family: Family) -> dict[str, Any]:
    return {
        "component": family.name,
        "machines": family.assigned,
        "well": family.well,
        "lacking": len(family.lacking),
        "drifting": len(family.drifting),
        "bad": len(family.bad),
        "versions": _counts(family.versions),
        "wanted": _counts(family.wanted),
        "states": _counts(family.states),
        "runStates": _counts(family.run_states),
    }


def in_full(family: Family) -> dict[str, Any]:
    return {
        "component": family.name,
        "machines": family.assigned,
        "well": family.well,
        "consistent": family.consistent,
        "versions": dict(family.versions),
        "wanted": dict(family.wanted),
        "asAssigned": family.contents[True],
        "states": {state.value: count for state, count in family.states.items()},
        "runStates": {state.value: count for state, count in family.run_states.items()},
        "lacking": family.lacking,
        "drifting": family.drifting,
        "bad": family.bad,
    }


def _fine(family: Family) -> bool:
    return family.consistent and not (family.lacking or family.bad)


def _counts(counted: Counter[Any]) -> str:
    """Render the five most frequent values: `2.1.4: 40, 2.1.3: 2`."""
    return ", ".join(f"{what}: {count}" for what, count in counted.most_common(5))


def _print_problems(family: Family) -> None:
    for what, names in (
        ("lack it", family.lacking),
        ("drift", family.drifting),
        ("are ill with it", family.bad),
    ):
        if names:
            shown = list_first(names, SHOWN, " (-o json)")
            typer.echo(f"\n{len(names)} machines {what}: {shown}")
