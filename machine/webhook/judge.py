"""Admission decisions about Machines, classes, sets and components. Pure.

An object is refused if it could never work, or would give one thing two owners. A missing class or
component only causes a warning, because objects may be applied in any order.
"""

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from pydantic import ValidationError

from kubenode.api.base import Resource
from kubenode.api.names import list_first
from kubenode.api.problems import problems
from kubenode.api.v1alpha1 import (
    Machine,
    MachineClass,
    MachineComponent,
    MachineComponentSet,
    MachineSet,
    NodeClass,
)
from kubenode.runtime.admission.review import AdmissionVerdict
from kubenode.runtime.components.render import TemplateError, list_placeholders
from kubenode.runtime.components.wire import spec_of

YES = AdmissionVerdict(True)
NAMED = 3
"""Names that a message lists before the rest is counted."""
VALUES = "values"
"""Scope of template values that a set provides."""

Validate = Callable[[str, Mapping[str, Any]], Iterable[str]]
"""Returns the errors in the config of a provider, by (provider, config)."""


@dataclass(frozen=True, slots=True)
class AdmissionContext:
    """The existing objects, by name."""

    machines: Mapping[str, Machine]
    classes: Mapping[str, MachineClass]
    machine_sets: Mapping[str, MachineSet]
    components: Mapping[str, MachineComponent]
    component_sets: Mapping[str, MachineComponentSet]


KINDS: Mapping[str, type[Resource]] = {
    f"{kind.resource.plural}.kubenode.io": kind
    for kind in (
        Machine,
        MachineClass,
        MachineSet,
        NodeClass,
        MachineComponent,
        MachineComponentSet,
    )
}


def judged(
    resource: str,
    new: Mapping[str, Any] | None,
    name: str,
    known: AdmissionContext,
    validate: Validate,
) -> AdmissionVerdict:
    """Return the verdict.

    new: the object as it would be stored. None: `name` is deleted.
    """
    kind = KINDS[resource]
    if new is None:
        return _deleted(name, known) if kind is MachineComponent else YES
    try:
        model = kind.model_validate(new, extra="ignore")
    except ValidationError as error:
        return _no("; ".join(problems(error, kind)[:8]))
    match model:
        case Machine():
            return _machine(model, known)
        case MachineClass():
            return _config(validate(model.spec.provider, model.spec.config))
        case NodeClass():
            return _config(validate(model.spec.node_controller, model.spec.config))
        case MachineSet():
            return _machine_set(model, known)
        case MachineComponent():
            return _component(model, known)
        case MachineComponentSet():
            return _component_set(model, known)
        case _:
            return YES


def _no(message: str) -> AdmissionVerdict:
    return AdmissionVerdict(False, message)


def _config(errors: Iterable[str]) -> AdmissionVerdict:
    wrong = list(errors)
    return _no("; ".join(wrong[:8])) if wrong else YES


def _deleted(name: str, known: AdmissionContext) -> AdmissionVerdict:
    users = [
        machine.metadata.name
        for machine in known.machines.values()
        if any(component.component == name for component in machine.spec.components)
    ]
    if not users:
        return YES
    return _no(
        f"{name} is on {len(users)} machines ({_some(users)}): let its MachineComponentSet name"
        " another component, or delete the set with onUnselect Uninstall first"
    )


def _machine(machine: Machine, known: AdmissionContext) -> AdmissionVerdict:
    for other in known.machines.values():
        if other.metadata.name == machine.metadata.name:
            continue
        if other.node_name == machine.node_name and machine.expects_node:
            return _no(
                f"spec.nodeName: {machine.node_name!r} is the Node of Machine"
                f" {other.metadata.name}: a Node has one Machine"
            )
        if shared := set(machine.spec.addresses) & set(other.spec.addresses):
            return AdmissionVerdict(
                True,
                warnings=[
                    f"spec.addresses: {min(shared)} is an address of Machine"
                    f" {other.metadata.name} too: certificates are given for both"
                ],
            )
    return YES


def _machine_set(wanted: MachineSet, known: AdmissionContext) -> AdmissionVerdict:
    labels = wanted.spec.template.metadata.labels
    for other in known.machine_sets.values():
        if other.metadata.name == wanted.metadata.name:
            continue
        both = wanted.spec.selector.matches(other.spec.template.metadata.labels)
        if both or other.spec.selector.matches(labels):
            return _no(
                f"spec.selector: machines of this set and of MachineSet {other.metadata.name} match"
                " both selectors: give each set a label of its own"
            )
    ref = wanted.spec.template.spec.class_ref
    if ref not in known.classes:
        return AdmissionVerdict(
            True,
            warnings=[
                f"spec.template.spec.classRef: there is no MachineClass {ref}: none is made yet"
            ],
        )
    return YES


def _component(component: MachineComponent, known: AdmissionContext) -> AdmissionVerdict:
    spec = component.spec
    try:
        list_placeholders(spec_of(spec.to_dict()))
    except TemplateError as error:
        return _no(str(error))
    if any(need.component == spec.component for need in spec.depends_on):
        return _no(f"spec.dependsOn: {spec.component} depends on itself: leave it out")
    families = {other.spec.component for other in known.components.values()}
    missing = [n.component for n in spec.depends_on if n.component not in families]
    if missing:
        return AdmissionVerdict(
            True, warnings=[f"spec.dependsOn: there is no component {_some(missing)} yet"]
        )
    return YES


def _component_set(wanted: MachineComponentSet, known: AdmissionContext) -> AdmissionVerdict:
    spec = wanted.spec
    chosen = {
        name for name, m in known.machines.items() if spec.selector.matches(m.metadata.labels)
    }
    warnings = [f"selects {len(chosen)} of {len(known.machines)} machines"]
    component = known.components.get(spec.component)
    if component is None:
        warnings.append(f"spec.component: there is no MachineComponent {spec.component} yet")
        return AdmissionVerdict(True, warnings=warnings)
    if lacking := sorted(values_of(component) - spec.values.keys()):
        return _no(f"spec.values: {_some(lacking)} is used by {spec.component} and not given")
    warnings += _rivals(wanted, component.spec.component, chosen, known)
    return AdmissionVerdict(True, warnings=warnings)


def _rivals(
    wanted: MachineComponentSet, family: str, chosen: Collection[str], known: AdmissionContext
) -> Iterable[str]:
    for other in known.component_sets.values():
        theirs = known.components.get(other.spec.component)
        if other.metadata.name == wanted.metadata.name or theirs is None:
            continue
        if theirs.spec.component != family:
            continue
        selector, machines = other.spec.selector, known.machines
        shared = [name for name in chosen if selector.matches(machines[name].metadata.labels)]
        if shared:
            yield (
                f"spec.selector: {family} of {len(shared)} machines ({_some(shared)}) is wanted by"
                f" MachineComponentSet {other.metadata.name} too: the older set keeps them"
            )


def values_of(component: MachineComponent) -> set[str]:
    """Return the names of the values that the component's files and drop-ins use."""
    try:
        return {
            placeholder.name
            for placeholder in list_placeholders(spec_of(component.spec.to_dict()))
            if placeholder.scope == VALUES
        }
    except TemplateError:
        return set()  # the component itself is refused


def _some(names: Iterable[str]) -> str:
    return list_first(sorted(names), NAMED)
