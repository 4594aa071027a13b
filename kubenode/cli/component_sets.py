"""`kubenode component sets`."""

from typing import Any

import typer

from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import ComponentSetConditionType
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.options import Listing
from kubenode.cli.tables import show
from kubenode.runtime.kube.paths import custom

PLURAL = MachineComponentSet.resource.plural
COLUMNS = {
    "SET": "set",
    "COMPONENT": "component",
    "PHASE": "phase",
    "BATCH": "batch",
    "MACHINES": "machines",
    "UPDATED": "updated",
    "HEALTHY": "healthy",
    "UNAVAILABLE": "unavailable",
    "WHY": "why",
}
WIDE = {"CURRENT": "current", "UPDATE": "update", "HELD": "held", "EXCLUDED": "excluded"}
_TELLING = (
    ComponentSetConditionType.PAUSED,
    ComponentSetConditionType.DEGRADED,
    ComponentSetConditionType.PROGRESSING,
)
"""The column WHY shows the first of these conditions with a message. Progressing counts even when
it is False.
"""


async def sets_command(output: Listing, kubeconfig: str | None, context: str | None) -> None:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        answer = await kube.get(custom(PLURAL))
    component_sets = [
        MachineComponentSet.model_validate(item, extra="ignore") for item in answer["items"]
    ]
    if not component_sets and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no MachineComponentSets")
        return
    show(
        [row(each) for each in component_sets],
        COLUMNS,
        WIDE,
        output,
        MachineComponentSet.resource.kind,
    )


def row(wanted: MachineComponentSet) -> dict[str, Any]:
    status, batch = wanted.status, wanted.status.batch
    counts = status.counts
    return {
        "set": wanted.metadata.name,
        "component": wanted.spec.component,
        "phase": "" if status.phase is None else status.phase.value,
        "batch": "" if batch is None or not batch.index else f"{batch.index} ({batch.size})",
        "machines": counts.machines,
        "updated": counts.updated,
        "healthy": counts.healthy,
        "unavailable": counts.unavailable,
        "held": counts.held,
        "excluded": counts.excluded,
        "current": status.current_revision,
        "update": status.update_revision,
        "why": why(wanted),
    }


def why(wanted: MachineComponentSet) -> str:
    """Return `REASON: MESSAGE` of the condition that explains the state of the set, or ""."""
    by_type = {condition.type: condition for condition in wanted.status.conditions}
    for type_ in _TELLING:
        reported = by_type.get(type_)
        tells = type_ is ComponentSetConditionType.PROGRESSING
        if reported is not None and reported.message and (tells or reported.status == "True"):
            return f"{reported.reason}: {reported.message}"
    return ""
