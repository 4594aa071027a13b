"""`kubenode component sets`, `pause`, `resume` and `freeze`."""

from collections.abc import Mapping
from typing import Any

import typer

from kubenode.api.v1alpha1 import MachineComponentSet
from kubenode.api.v1alpha1.machinecomponentset import ComponentSetConditionType
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.exits import Refusal, say
from kubenode.cli.options import Listing
from kubenode.cli.tables import show
from kubenode.runtime.kube.errors import Forbidden, NotFound
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
"""The first of these that is True and has something to say is the why."""


async def sets_command(output: Listing, kubeconfig: str | None, context: str | None) -> None:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        answer = await kube.get(custom(PLURAL))
    found = [MachineComponentSet.model_validate(item, extra="ignore") for item in answer["items"]]
    if not found and output in (Listing.TABLE, Listing.WIDE):
        typer.echo("no MachineComponentSets")
        return
    show([row(each) for each in found], COLUMNS, WIDE, output)


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
    """`AutoPaused: ...`, "" where nothing is to be said."""
    said = {condition.type: condition for condition in wanted.status.conditions}
    for type_ in _TELLING:
        found = said.get(type_)
        if found is not None and found.status == "True" and found.message:
            return f"{found.reason}: {found.message}"
    return ""


async def hold_command(
    name: str, spec: Mapping[str, bool], kubeconfig: str | None, context: str | None
) -> None:
    async with connected(kubeconfig, context) as kube:
        await require_crds(kube, {PLURAL})
        try:
            await kube.patch(custom(PLURAL, name), {"spec": dict(spec)})
        except NotFound as error:
            known = "`kubenode component sets` lists those that are"
            raise Refusal(f"there is no MachineComponentSet {name}; {known}") from error
        except Forbidden as error:
            raise Refusal(
                f"a right is missing: {error.message}; charts/kubenode/people.yaml has the roles"
            ) from error
    said = ", ".join(f"{key} {str(value).lower()}" for key, value in spec.items())
    say(f"MachineComponentSet {name}: {said}")
