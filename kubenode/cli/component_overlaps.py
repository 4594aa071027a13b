"""Files and keys that a planned component shares with another component of a machine. Pure."""

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
    """Return the paths of a component's files and drop-ins.

    Components without a common path share nothing.
    """
    drop_ins = {
        f"{FOLDER}/{unit.name}.d/{drop_in.name}" for unit in spec.units for drop_in in unit.drop_ins
    }
    return {file.path for file in spec.files} | drop_ins


def shared_on(
    machine: Machine, target: AssignableRevision, rivals: Collection[str], made_of: MadeOf
) -> str:
    """Return why the agent would refuse `target` because of another component; "" if it would not.

    rivals: other components of the machine that may share a file or key with it.
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
