"""Estimate how much a revision disturbs a machine, compared with what is assigned there now.
Pure.
"""

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
from kubenode.runtime.components.wire import WireChangeClass
from machine.componentset.revisions import AssignableRevision

MadeOf = Callable[[AssignedComponent], AssignableRevision | None]
"""Returns the assigned revision, ready to be rendered; None if its MachineComponent or texts are
gone.
"""
_EDITED = "\0"
"""Content that differs from that of every file."""


@dataclass(frozen=True, slots=True)
class Disturbance:
    """How much a change disturbs one machine.

    before: the MachineComponent in force, "" for none.
    class_: the change class. None if it cannot be determined.
    at_most: an upper bound: the present content is no longer known, so all of it counts as
        different.
    nothing: the host has this content already.
    """

    before: str = ""
    class_: WireChangeClass | None = None
    at_most: bool = False
    nothing: bool = False


def disturbance(
    machine: Machine,
    target: AssignableRevision,
    current: AssignableRevision | None,
    made_of: MadeOf,
) -> Disturbance:
    """Return how much the target revision disturbs the machine.

    current: the current revision of the set. It is in force on a machine that only downloads the
        next one.
    """
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
        bound = _between(made.component, _unlike(form), after)
        return Disturbance(bound.before, bound.class_, at_most=True)
    return _between(made.component, form, after)


def _form(made: AssignableRevision, machine: Machine) -> ComponentForm | TemplateError | None:
    """Return what of the revision is in force on the machine, None for nothing, or the template
    error.
    """
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
    """Return the form with the content of all files and drop-ins replaced, so that it counts as
    changed.
    """
    files = tuple(_file(file) for file in form.files)
    return replace(form, files=files, units=tuple(_unit(unit) for unit in form.units))


def _file(file: RenderedFile) -> RenderedFile:
    return replace(file, content=_EDITED)


def _unit(unit: RenderedUnit) -> RenderedUnit:
    return replace(unit, drop_ins=tuple(RenderedDropIn(d.name, _EDITED) for d in unit.drop_ins))
