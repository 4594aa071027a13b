"""Order of changes: one component of a host at a time, dependencies first. Pure."""

from collections.abc import Collection, Mapping

from agent.components.claims import still_had
from agent.components.model import (
    MOVING,
    ComponentApplyState,
    ComponentMove,
    ComponentRecord,
    StoredComponent,
)
from kubenode.runtime.components.order import DependencyCycle, depends_on, ordered
from kubenode.runtime.components.versions import satisfies
from kubenode.runtime.components.wire import Assigned, WireChangeClass, WireDesiredState


def in_order(wanted: Mapping[str, StoredComponent]) -> tuple[tuple[str, ...], Mapping[str, str]]:
    """Return the names, dependencies first, and the description of the cycle by name in it."""
    depends = {name: depends_on(component.spec) for name, component in wanted.items()}
    stuck: dict[str, str] = {}
    while True:
        try:
            return (*ordered(depends), *stuck), stuck
        except DependencyCycle as cycle:
            stuck |= dict.fromkeys(cycle.names, str(cycle))
            depends = {name: needs for name, needs in depends.items() if name not in stuck}


def missing(wanted: StoredComponent, assigned: Collection[str]) -> str:
    """Describe the dependencies that are not assigned to this machine; "" if there are none."""
    lost = [need for need in depends_on(wanted.spec) if need not in assigned]
    return f"depends on {', '.join(lost)}, which this machine is not assigned" if lost else ""


def waits(
    name: str,
    how: WireChangeClass,
    wanted: Mapping[str, StoredComponent],
    assigned: Mapping[str, Assigned],
    records: Mapping[str, ComponentRecord],
) -> str:
    """Describe why `name` has to wait for another component; "" if it need not. Raises ValueError.

    Changes that reboot the host share one reboot: a change that is ready for it waits for others of
    that class.
    """
    sharing = how is WireChangeClass.REBOOT
    for other, record in records.items():
        if other != name and _in_the_middle(record) and not (sharing and _about_to_boot(record)):
            return f"waits for {other}, which is {record.state}"
    if wanted[name].desired_state == WireDesiredState.ABSENT:
        return _needed(name, wanted, records)
    for need in wanted[name].spec.depends_on:
        record = records.get(need.component, ComponentRecord(name=need.component))
        if sharing and _about_to_boot(record):
            continue
        if not _ready(record, assigned.get(need.component)):
            return f"waits for {need.component}, which is {record.state}"
        version = record.applied.spec.version if record.applied is not None else ""
        if not satisfies(version, need.version):
            return f"needs {need.component} {need.version}, this machine has {version}"
    return _given_up(name, wanted[name], records)


def _given_up(name: str, target: StoredComponent, records: Mapping[str, ComponentRecord]) -> str:
    """Describe which component still owns a file that `target` takes over; "" if none does."""
    if (form := target.form) is None:
        return ""
    applied = {other: record.applied for other, record in records.items() if other != name}
    forms = {
        other: its for other, component in applied.items() if component and (its := component.form)
    }
    return still_had(name, form, forms)


def _in_the_middle(record: ComponentRecord) -> bool:
    """Return whether the component is changing. Verification counts only after a change."""
    changed = record.state is ComponentApplyState.VERIFYING and record.target is not record.applied
    return record.state in MOVING or changed


def _about_to_boot(record: ComponentRecord) -> bool:
    return record.state is ComponentApplyState.APPLYING and record.at is ComponentMove.REBOOT


def _ready(record: ComponentRecord, assigned: Assigned | None) -> bool:
    if record.state is not ComponentApplyState.HEALTHY or assigned is None:
        return False
    return (record.revision, record.attempt) == (assigned.revision, assigned.attempt)


def _needed(
    name: str, wanted: Mapping[str, StoredComponent], records: Mapping[str, ComponentRecord]
) -> str:
    for other, record in records.items():
        there = record.applied or record.target
        if other != name and there is not None and name in depends_on(there.spec):
            return f"{other} still needs it"
    return ""
