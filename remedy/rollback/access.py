"""Requests the rollback of a component of a node's machine, by an annotation of the Machine that
its MachineComponentSet reads.
"""

from typing import Any

from kubenode.api.v1alpha1 import Disruption, Machine, MachineComponentSet
from kubenode.api.v1alpha1.machine import MachineMode
from kubenode.api.v1alpha1.machinecomponentset import MachineComponentSetStatus
from kubenode.api.v1alpha1.machinestatus import ComponentState, ComponentStatus
from kubenode.api.v1alpha1.machinework import AssignedComponent, ChangeClass, DesiredState
from kubenode.runtime.components.rollback import PREFIX, Rollback, rollback_in
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import Conflict, KubeError, NotFound
from kubenode.runtime.kube.paths import custom
from remedy.job.model import Job, JobActResult, JobObservation, NodeObservation, StepAct
from remedy.machines import MACHINES, machines_named
from remedy.power.methods import outcome_of
from remedy.power.observation import RequestOutcome
from remedy.rollback.observation import Back, RollbackObservation

SETS = custom(MachineComponentSet.resource.plural)
UP_TO = {
    Disruption.HOST: ChangeClass.RESTART,
    Disruption.PODS: ChangeClass.DRAIN,
    Disruption.NODE: ChangeClass.REBOOT,
}
"""Change class that a permit of this disruption class allows on a host."""
FROM, TO = "from", "to"
"""Keys of the step's output: the revisions."""
_UNDONE = (ComponentState.FAILED, ComponentState.ROLLED_BACK, ComponentState.UNHEALTHY)


class Rollbacks:
    def __init__(self, kube: Kube) -> None:
        self._kube = kube

    async def observe(self, job: Job, node: NodeObservation | None) -> RollbackObservation:
        try:
            machine = await self._machine(job)
            if machine is None:
                why = f"no Machine of kubenode.io stands for node {job.spec.node_name}"
                return RollbackObservation(Back.FAILED, why=why)
            entry = _entry(machine, _family(job))
            set_ = await self._set(entry.set) if entry is not None and entry.set else None
        except KubeError as error:
            return RollbackObservation(Back.UNKNOWN, why=str(error))
        return far(job, machine, set_)

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        """Write the annotation, with the resourceVersion of the Machine that was evaluated."""
        record, permit = job.record, job.status.permit
        if record is None or permit is None:
            return JobActResult(what, outcome=RequestOutcome.LATER, error="the job holds no permit")
        try:
            machine = await self._machine(job)
            if machine is None:
                why = "its Machine is gone"
                return JobActResult(what, outcome=RequestOutcome.REFUSED, error=why)
            wish = Rollback(
                job=job.name,
                permit=permit.name,
                up_to=UP_TO[job.disruption].value,
                from_=record.output[FROM],
                to=record.output[TO],
            )
            await self._kube.patch(
                f"{MACHINES}/{machine.metadata.name}", _wanted(machine, job, wish)
            )
        except KubeError as error:
            outcome, after = outcome_of(error)
            outcome = RequestOutcome.LATER if isinstance(error, Conflict) else outcome
            return JobActResult(what, outcome=outcome, error=str(error), after=after)
        return JobActResult(what, outcome=RequestOutcome.TAKEN)

    async def _machine(self, job: Job) -> Machine | None:
        """Return the Machine of this node; None for none."""
        machines = await machines_named(self._kube, job.spec.node_name)
        return next((machine for machine in machines if _is_of(machine, job)), None)

    async def _set(self, name: str) -> MachineComponentSet | None:
        try:
            return await self._kube.get(f"{SETS}/{name}", MachineComponentSet.from_server)
        except NotFound:
            return None


def far(job: Job, machine: Machine, set_: MachineComponentSet | None) -> RollbackObservation:
    """Return the progress of the rollback. `set_`: the set that assigned the component, None for
    none. Pure.
    """
    name, family = machine.metadata.name, _family(job)

    def no(why: str) -> RollbackObservation:
        return RollbackObservation(Back.FAILED, name, why=why)

    entry = _entry(machine, family)
    if machine.spec.mode is not MachineMode.MANAGE:
        return no(f"Machine {name} is in mode {machine.spec.mode}")
    if entry is None or set_ is None:
        return no(f"no MachineComponentSet gives component {family} to Machine {name}")
    if entry.desired_state not in (DesiredState.RUNNING, DesiredState.INSTALLED):
        return no(f"component {family} of Machine {name} is wanted as {entry.desired_state}")
    status = next((c for c in machine.status.components if c.name == family), None)
    request = rollback_in(machine.metadata.annotations, family)
    if request is not None and request.job == job.name and request.to == entry.revision:
        return _observe_progress(name, entry, status, request)
    update = set_.status.update_revision
    if request is not None and (request.from_, request.to) == (update, entry.revision):
        return no(f"component {family} of Machine {name} was taken back from {update} already")
    to = before(set_.status, entry.revision)
    if not to:
        what = f"set {entry.set} has no revision before {entry.revision}"
        return no(f"component {family} has nothing to go back to: {what}")
    if request is not None and request.job == job.name and request.from_ == entry.revision:
        why = f"set {entry.set} has not taken Machine {name} back yet"
        return RollbackObservation(Back.GOING, name, request.from_, request.to, why)
    return RollbackObservation(Back.READY, name, entry.revision, to)


def before(status: MachineComponentSetStatus, revision: str) -> str:
    """Return the revision before this one, "" for none: during its rollout the set's current
    revision, else the newest earlier one that was not rejected.
    """
    known = {r.name: r.number for r in status.revisions}
    current = status.current_revision
    if current and current != revision == status.update_revision:
        return current if current in known else ""
    made = known.get(revision, 0)
    older = [n for n in known if known[n] < made and n != status.rejected_revision]
    return max(older, key=lambda name: known[name], default="")


def _observe_progress(
    name: str, entry: AssignedComponent, status: ComponentStatus | None, request: Rollback
) -> RollbackObservation:
    def so(state: Back, why: str) -> RollbackObservation:
        return RollbackObservation(state, name, request.from_, request.to, why)

    if status is None or (status.revision, status.attempt) != (entry.revision, entry.attempt):
        return so(Back.GOING, f"the agent of Machine {name} has not spoken of {request.to} yet")
    if status.state is ComponentState.HEALTHY and status.config_hash == entry.config_hash:
        return so(Back.DONE, f"{entry.name} {status.version} of {entry.component}".rstrip())
    if status.state in _UNDONE:
        why = ": ".join(part for part in (status.state, status.reason, status.message) if part)
        return so(Back.FAILED, f"Machine {name} did not take revision {request.to}: {why}")
    needs, most = status.needs or ChangeClass.NONE, ChangeClass(request.up_to)
    if needs.weight > most.weight:
        more = "put migrate before it" if needs is ChangeClass.DRAIN else "add a reboot to its rung"
        why = f"the way back needs {needs}, the permit of the rung is for {most}: {more}"
        return so(Back.FAILED, why)
    return so(Back.GOING, f"{entry.name} of Machine {name} is {status.state}")


def _family(job: Job) -> str:
    step = job.step.rollback_component if job.step is not None else None
    return step.component if step is not None else ""


def _entry(machine: Machine, family: str) -> AssignedComponent | None:
    return next((c for c in machine.spec.components if c.name == family), None)


def _is_of(machine: Machine, job: Job) -> bool:
    node_ref = machine.status.node_ref
    return node_ref is not None and job.spec.node_uid in ("", node_ref.uid)


def _wanted(machine: Machine, job: Job, wish: Rollback) -> dict[str, Any]:
    meta = machine.metadata
    annotations = {PREFIX + _family(job): wish.text}
    read = {"uid": meta.uid, "resourceVersion": meta.resource_version}
    return {"metadata": {**read, "annotations": annotations}}
