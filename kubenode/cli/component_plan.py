"""`kubenode component plan`."""

from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import ValidationError

from kubenode.api.names import list_first
from kubenode.api.v1alpha1 import Machine, MachineComponent, MachineComponentSet
from kubenode.cli.cluster import connected, require_crds
from kubenode.cli.component_edit import parse_pairs
from kubenode.cli.component_preview import PlannedSet, edit_set, leaving_how, planned, snapshot
from kubenode.cli.component_sets import why
from kubenode.cli.exits import Exit, Refusal
from kubenode.cli.options import ReportFormat
from kubenode.cli.tables import show_report, table
from kubenode.runtime.clock import SystemClock
from kubenode.runtime.components.wire import WireChangeClass
from kubenode.runtime.kube.errors import Forbidden
from machine.componentset.access import ReferencedTexts, ServerVersion
from machine.componentset.disturbance import Disturbance
from machine.componentset.forecast import ForecastStage
from machine.componentset.member import RolloutMember

COLUMNS = ("BATCH", "MACHINE", "ZONE", "FROM", "TO", "CLASS", "NEEDS", "NOTE")
SHOWN = 20
"""Machine names in a line of text; JSON has all."""
NEEDS = {
    WireChangeClass.NONE: "",
    WireChangeClass.RELOAD: "",
    WireChangeClass.RESTART: "permit",
    WireChangeClass.DRAIN: "permit, drain",
    WireChangeClass.REBOOT: "permit, drain, reboot",
}


async def plan_command(
    name: str,
    component: str,
    values: Sequence[str],
    output: ReportFormat,
    kubeconfig: str | None,
    context: str | None,
) -> Exit:
    wanted = parse_pairs(values, "--set-value")
    clock = SystemClock()
    async with connected(kubeconfig, context) as kube:
        kinds = (Machine, MachineComponent, MachineComponentSet)
        await require_crds(kube, {"remedyoperationjobs", *(k.resource.plural for k in kinds)})
        try:
            fleet = await snapshot(kube)
            set_ = fleet.component_sets.get(name)
            if set_ is None:
                known = "`kubenode component sets` lists those that are"
                raise Refusal(f"there is no MachineComponentSet {name}; {known}")
            plan = await planned(
                fleet,
                _validate_edit(set_, component, wanted),
                ReferencedTexts(kube, clock),
                ServerVersion(kube, clock),
                clock,
            )
        except Forbidden as error:
            raise Refusal(
                f"a right is missing: {error.message}; a plan reads what the set reads: Machines,"
                " Nodes, jobs, and the ConfigMaps and Secrets of namespace kubenode-components that"
                " its components refer to"
            ) from error
    data = in_full(plan)
    show_report(data, output, lambda: lines(data))
    return Exit.FINDING if data["warnings"] else Exit.FINE


def _validate_edit(
    set_: MachineComponentSet, component: str, values: Mapping[str, str]
) -> MachineComponentSet:
    try:
        return edit_set(set_, component, values)
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"]))
        raise Refusal(f"the set cannot be so: {where}: {first['msg']}", Exit.USAGE) from error


def in_full(plan: PlannedSet) -> dict[str, Any]:
    set_, now = plan.set_, plan.forecast.now
    members = {m.name: m for m in plan.membership.members}
    target = plan.aim.target
    return {
        "set": set_.metadata.name,
        "component": set_.spec.component,
        "values": set_.spec.values,
        "currentRevision": set_.status.current_revision,
        "targetRevision": target.name if target is not None else "",
        "phase": set_.status.phase.value if set_.status.phase is not None else "",
        "says": why(set_),
        "members": len(members),
        "warnings": _warnings(plan),
        "now": {
            "starts": [m.machine for m in now.moves if not m.ahead],
            "downloads": [m.machine for m in now.moves if m.ahead],
            "why": now.progressing[1].message,
        },
        "stages": [_stage(plan, stage, members) for stage in plan.forecast.stages],
        "whole": plan.forecast.whole,
        "end": {
            "phase": plan.forecast.phase.value if plan.forecast.phase is not None else "",
            "why": plan.forecast.end,
        },
        "stay": [{"machine": n, "why": _why_stays(members[n])} for n in plan.forecast.stay],
        "held": {m.name: m.open_job for m in members.values() if m.open_job},
        "leftOut": dict(plan.excluded),
        "leaving": list(plan.leaving),
        "leavingHow": leaving_how(set_) if plan.leaving else "",
    }


def _warnings(plan: PlannedSet) -> list[str]:
    now, warnings = plan.forecast.now, []
    for condition in (now.degraded, now.paused):
        if condition is not None:
            warnings.append(f"{condition.reason}: {condition.message}")
    if plan.membership.conflicts and not any(text.startswith("Conflict") for text in warnings):
        warnings.append(
            f"Conflict: another set has this component on {_some(plan.membership.conflicts)}"
        )
    by_text: dict[str, list[str]] = {}
    for name, text in plan.shared.items():
        by_text.setdefault(text, []).append(name)
    warnings += [f"FileConflict on {_some(names)}: {text}" for text, names in by_text.items()]
    return warnings


def _stage(
    plan: PlannedSet, stage: ForecastStage, members: Mapping[str, RolloutMember]
) -> dict[str, Any]:
    made = {m.name: m.component for m in (plan.aim.current, plan.aim.target) if m is not None}
    return {
        "batch": stage.index,
        "revision": stage.revision,
        "component": made.get(stage.revision, ""),
        "machines": [
            _machine(
                members[name],
                plan.changes.get(name, Disturbance()),
                shares=name in plan.shared,
            )
            for name in stage.machines
        ],
    }


def _machine(member: RolloutMember, change: Disturbance, *, shares: bool) -> dict[str, Any]:
    class_ = change.class_
    return {
        "machine": member.name,
        "zone": member.zone,
        "version": member.version,
        "from": change.before,
        "class": class_.value if class_ is not None else "unknown",
        "atMost": change.at_most,
        "nothing": change.nothing,
        "needs": "unknown" if class_ is None else NEEDS[class_],
        "heldBy": member.open_job,
        "blocked": "FileConflict" if shares else "",
    }


def _why_stays(member: RolloutMember) -> str:
    if not member.answers:
        return "its agent does not answer"
    if member.open_job:
        return f"job {member.open_job} repairs its node"
    return member.why or "no batch takes it"


def lines(data: Mapping[str, Any]) -> list[str]:
    """Render the plan as text for people."""
    output = [
        f"{data['set']}: {data['component']}, {data['members']} machines",
        f"revision {data['currentRevision'] or '(none yet)'} -> {data['targetRevision'] or '?'}",
    ]
    if data["says"]:
        output.append(f"the set says: {data['says']}")
    output += [f"warning: {text}" for text in data["warnings"]]
    now = data["now"]
    at_once = f"starts {_some(now['starts'])}" if now["starts"] else "starts nothing"
    output.append(f"now: {at_once}{': ' if now['why'] else ''}{now['why']}")
    rows = [_row(stage, each) for stage in data["stages"] for each in stage["machines"]]
    if rows:
        output += ["", *table(COLUMNS, rows), ""]
    if not data["whole"]:
        output.append("and more batches of the same kind")
    if rows and (end := data["end"])["phase"]:
        output.append(f"then: {end['phase']}{': ' if end['why'] else ''}{end['why']}")
    output += [f"{each['machine']} stays: {each['why']}" for each in data["stay"][:SHOWN]]
    if (more := len(data["stay"]) - SHOWN) > 0:
        output.append(f"{more} more stay (-o json)")
    output += [f"{name} is left out: {text}" for name, text in data["leftOut"].items()]
    if data["leaving"]:
        output.append(f"not selected any more, {data['leavingHow']}: {_some(data['leaving'])}")
    return output


def _row(stage: Mapping[str, Any], each: Mapping[str, Any]) -> list[object]:
    most = "at most " if each["atMost"] else ""
    notes = [
        "nothing to do" if each["nothing"] else "",
        each["blocked"],
        f"held by job {each['heldBy']}" if each["heldBy"] else "",
    ]
    return [
        stage["batch"] or "",
        each["machine"],
        each["zone"],
        each["from"] or each["version"],
        stage["component"],
        f"{most}{each['class']}",
        each["needs"],
        ", ".join(note for note in notes if note),
    ]


def _some(names: Sequence[str]) -> str:
    return list_first(names, SHOWN, " (-o json)")
