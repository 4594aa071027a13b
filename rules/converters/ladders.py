"""Converts remediation templates of other systems to rungs of a ladder. Pure."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from kubenode.api.duration import format_duration
from rules.converters.fields import as_map, duration

Rung = dict[str, Any]
LONGEST_NAME = 63

EMPTY: tuple[dict[str, Any], ...] = ({"cordon": {}}, {"migrate": {"timeout": "15m"}})
KNOWN: Mapping[str, tuple[str, Sequence[dict[str, Any]]]] = {
    "SelfNodeRemediationTemplate": ("reboot", (*EMPTY, {"reboot": {}})),
    "PoisonPillRemediationTemplate": ("reboot", (*EMPTY, {"reboot": {}})),
    "FenceAgentsRemediationTemplate": ("power-cycle", ({"cordon": {}}, {"powerCycle": {}})),
    "Metal3RemediationTemplate": ("power-cycle", ({"cordon": {}}, {"powerCycle": {}})),
    "MachineDeletionRemediationTemplate": (
        "replace",
        ({"cordon": {}}, {"replace": {"via": ["ClusterAPI"]}}),
    ),
}
"""Kind of template to the equivalent rung. Other kinds stay with their own operator."""


@dataclass(frozen=True, slots=True)
class ImportNote:
    """A note to people about a field of the imported object."""

    path: str
    text: str


def map_template(template: Mapping[str, Any], number: int, notes: list[ImportNote]) -> Rung:
    """Return the rung for a template. For an unknown kind the rung creates the template's
    object.
    """
    kind, name = str(template.get("kind", "")), str(template.get("name", ""))
    path = "remediationTemplate" if not number else f"escalatingRemediations[{number - 1}]"
    if kind in KNOWN:
        rung, steps = KNOWN[kind]
        text = (
            f"{kind} {name}: done by KubeNode itself ({_steps(steps)}); its settings are not read"
        )
        notes.append(ImportNote(f"spec.{path}", text))
        return {"name": rung, "steps": [dict(step) for step in steps]}
    notes.append(
        ImportNote(
            f"spec.{path}",
            f"{kind} {name}: its own operator goes on repairing; list the template in the settings"
            " of the remedy operator (createObject)",
        )
    )
    return {"name": _rung_name(kind), "steps": [{"createObject": {"template": name or "template"}}]}


def escalating(given: Sequence[Any], notes: list[ImportNote]) -> list[Rung]:
    """Return a rung for each remediation, by `order`; its timeout becomes verify.timeout."""
    path = "spec.escalatingRemediations"
    each = [as_map(entry, f"{path}[{number}]") for number, entry in enumerate(given)]
    ordered = sorted(enumerate(each), key=lambda entry: (_order(entry[1]), entry[0]))
    ladder: list[Rung] = []
    for number, entry in ordered:
        template = as_map(entry.get("remediationTemplate"), f"{path}[{number}].remediationTemplate")
        rung = map_template(template, number + 1, notes)
        taken = {other["name"] for other in ladder}
        if rung["name"] in taken:
            rung["name"] = f"{rung['name'][: LONGEST_NAME - 3]}-{len(ladder) + 1}"
        if entry.get("timeout"):
            proof = duration(entry["timeout"], f"escalatingRemediations[{number}].timeout")
            rung["verify"] = {"timeout": format_duration(proof)}
        ladder.append(rung)
    return ladder


def _order(entry: Mapping[str, Any]) -> int:
    order = entry.get("order", 0)
    return order if isinstance(order, int) else 0


def owner_remediated(strategy: str, group: str, notes: list[ImportNote]) -> Rung:
    """Return the rung for an object without a template: replace the Machine, or power-cycle it."""
    if strategy == "external-baremetal":
        notes.append(ImportNote("metadata.annotations", "external-baremetal: a power-cycle"))
        return {"name": "power-cycle", "steps": [{"cordon": {}}, {"powerCycle": {}}]}
    if group == "machine.openshift.io":
        text = "OpenShift's Machine API is no way of replacing that KubeNode has: see `via`"
        notes.append(ImportNote("spec.remediationTemplate", text))
    return {
        "name": "replace",
        "steps": [*map(dict, EMPTY), {"replace": {"via": ["ClusterAPI"]}}],
    }


def _steps(steps: Sequence[Mapping[str, Any]]) -> str:
    return ", ".join(next(iter(step)) for step in steps)


def _rung_name(kind: str) -> str:
    """Return the name of a rung: `my-own` for `MyOwnRemediationTemplate`."""
    stem = kind.removesuffix("Template").removesuffix("Remediation") or "remediate"
    text = "".join(f"-{char.lower()}" if char.isupper() else char for char in stem).strip("-")
    cleaned = "".join(char if char.isascii() and char.isalnum() else "-" for char in text)
    return cleaned[:LONGEST_NAME].strip("-") or "remediate"
