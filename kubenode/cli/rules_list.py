"""`kubenode rules list`: lists the rules of the library, or those of a cluster."""

from collections.abc import Sequence
from typing import Any

import typer

from kubenode.api.v1alpha1 import Mode, NodeRemedier
from kubenode.cli.cluster import connected
from kubenode.cli.exits import Exit
from kubenode.cli.fleet_rules import fleet_rules
from kubenode.cli.library import packs
from kubenode.cli.options import Listing
from kubenode.cli.rules_packs import PACK, changed, chosen
from kubenode.cli.tables import show

COLUMNS = {
    "NAME": "name",
    "PACK": "pack",
    "MODE": "mode",
    "PRIORITY": "priority",
    "PHASE": "phase",
    "MATCHING": "matching",
}
WIDE = {
    "FAULT": "faultClass",
    "SEVERITY": "severity",
    "CLASS": "class",
    "LADDER": "ladder",
    "CHANGED": "changed",
}
Item = dict[str, Any]


def of_library(pack: str | None, output: Listing) -> Exit:
    """List the library.

    pack: None for every pack.

    Raises Refusal for an unknown pack.
    """
    if pack is not None:
        chosen([pack])
    items = [
        _item(rule, name)
        for name, rules in packs().items()
        if pack in (None, name)
        for rule in rules
    ]
    columns = {k: v for k, v in COLUMNS.items() if k not in ("PHASE", "MATCHING")}
    wide = {k: v for k, v in WIDE.items() if k != "CHANGED"}
    _show(items, columns, wide, output)
    return Exit.FINE


async def of_cluster(
    kubeconfig: str | None, context: str | None, pack: str | None, output: Listing
) -> Exit:
    """List the installed rules with the status that the operator reports.

    pack: None for every pack.
    """
    async with connected(kubeconfig, context) as kube:
        fleet = await fleet_rules(kube)
    items = [_of_cluster(rule) for rule in fleet.rules]
    selected = [item for item in items if pack in (None, item["pack"])]
    selected.sort(key=lambda item: (item["pack"] or "~", -item["priority"], item["name"]))
    _show(selected, COLUMNS, WIDE, output)
    for name, why in fleet.unreadable:
        line = " ".join(why.split())[:120]
        typer.echo(f"kubenode: rule {name} cannot be read by this version: {line}", err=True)
    return Exit.FINE


def _item(rule: NodeRemedier, pack: str) -> Item:
    spec = rule.spec
    rungs = [rung.name for rung in spec.ladder or ()]
    infers = f"infers {spec.infer.fact}" if spec.infer is not None else ""
    return {
        "name": rule.metadata.name,
        "pack": pack,
        "mode": spec.mode.value,
        "priority": spec.priority,
        "faultClass": spec.fault_class,
        "severity": spec.severity.value,
        "class": spec.disruption_class.value,
        "ladder": infers or " > ".join(rungs),
    }


def _of_cluster(rule: NodeRemedier) -> Item:
    status = rule.status
    phase = status.phase.value if status.phase is not None else ""
    by_person = {True: "by a person", False: "no", None: "not of the library"}
    return _item(rule, rule.metadata.annotations.get(PACK, "")) | {
        "phase": "Off" if rule.spec.mode is Mode.OFF else phase,
        "matching": status.matching,
        "changed": by_person[changed(rule)],
    }


def _show(
    items: Sequence[Item], columns: dict[str, str], wide: dict[str, str], output: Listing
) -> None:
    if not items and output not in (Listing.JSON, Listing.YAML):
        typer.echo("no rules; `kubenode rules install PACK` installs some", err=True)
        return
    show(items, columns, wide, output, NodeRemedier.resource.kind)
