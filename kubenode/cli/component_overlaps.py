"""Files and keys that a planned component would share with another one of a machine. Pure."""

from collections.abc import Collection

from agent.components.claims import conflicts
from agent.components.units import FOLDER
from kubenode.api.v1alpha1 import Machine
from kubenode.runtime.components.change import ComponentForm
from kubenode.runtime.components.render import TemplateError
from kubenode.runtime.components.wire import ComponentSpec
from machine.componentset.disturbance import MadeOf
from machine.componentset.revisions import AssignableRevision


def claimed(spec: ComponentSpec) -> set[str]:
    """Paths of its files and drop-ins: components that have none in common share nothing."""
    drop_ins = {
        f"{FOLDER}/{unit.name}.d/{drop_in.name}" for unit in spec.units for drop_in in unit.drop_ins
    }
    return {file.path for file in spec.files} | drop_ins


def shared_on(
    machine: Machine, target: AssignableRevision, rivals: Collection[str], made_of: MadeOf
) -> str:
    """What the agent would refuse `target` for, in its words; "" for nothing.

    rivals  other components of the machine that may share something with it
    """
    made = {e.name: made_of(e) for e in machine.spec.components if e.name in rivals}
    all_ = {**made, target.spec.component: target}
    forms = {n: form for n, m in all_.items() if m is not None and (form := _form(m, machine))}
    return conflicts(forms).get(target.spec.component, "")


def _form(made: AssignableRevision, machine: Machine) -> ComponentForm | None:
    try:
        return made.form_on(machine)
    except TemplateError:
        return None
