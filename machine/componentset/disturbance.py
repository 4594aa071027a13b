"""How much a revision disturbs one machine, compared with what is assigned there now. Pure."""

from collections.abc import Callable
from dataclasses import dataclass

from msgspec.structs import replace

from kubenode.api.v1alpha1 import Machine
from kubenode.api.v1alpha1.machinework import AssignedComponent, DesiredState
from kubenode.runtime.components.change import ComponentForm, change_class, same
from kubenode.runtime.components.render import (
    RenderedDropIn,
    RenderedFile,
    RenderedUnit,
    TemplateError,
)
from kubenode.runtime.components.wire import ChangeClass
from machine.componentset.revisions import AssignableRevision

MadeOf = Callable[[AssignedComponent], AssignableRevision | None]
"""What is assigned, ready to be rendered; None: its MachineComponent or its texts are gone."""
_EDITED = "\0"
"""Content that no file has."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """before   MachineComponent that is in force, "" for none
    class_   None: cannot be told
    at_most  the content that is there now is not known any more: all of it is taken as different
    nothing  the host has this already
    """

    before: str = ""
    class_: ChangeClass | None = None
    at_most: bool = False
    nothing: bool = False


def disturbance(
    machine: Machine,
    target: AssignableRevision,
    current: AssignableRevision | None,
    made_of: MadeOf,
) -> Disturbance:
    """current  the set's, which a machine still has that only downloads ahead"""
    entry = next((c for c in machine.spec.components if c.name == target.spec.component), None)
    if entry is None:
        return _between("", None, _form(target, machine))
    staged = entry.desired_state is DesiredState.STAGED
    ahead = staged and target.desired is not DesiredState.STAGED
    made = current if ahead else made_of(entry)
    if made is None:
        return Disturbance("" if ahead else entry.component)
    try:
        form = made.form_on(machine)
    except TemplateError:
        return Disturbance(made.component)
    after = _form(target, machine)
    if form is not None and not ahead and made.stale(entry, machine):
        found = _between(made.component, _unlike(form), after)
        return Disturbance(found.before, found.class_, at_most=True)
    return _between(made.component, form, after)


def _form(made: AssignableRevision, machine: Machine) -> ComponentForm | TemplateError | None:
    try:
        return made.form_on(machine)
    except TemplateError as error:
        return error


def _between(
    name: str, before: ComponentForm | None, after: ComponentForm | TemplateError | None
) -> Disturbance:
    if isinstance(after, TemplateError):
        return Disturbance(name)
    return Disturbance(name, change_class(before, after), nothing=same(before, after))


def _unlike(form: ComponentForm) -> ComponentForm:
    files = tuple(_file(file) for file in form.files)
    return replace(form, files=files, units=tuple(_unit(unit) for unit in form.units))


def _file(file: RenderedFile) -> RenderedFile:
    return replace(file, content=_EDITED)


def _unit(unit: RenderedUnit) -> RenderedUnit:
    return replace(unit, drop_ins=tuple(RenderedDropIn(d.name, _EDITED) for d in unit.drop_ins))
