"""Hands work over to other systems: calls a receiver, or creates, reads and deletes an object."""

from collections.abc import Mapping
from typing import Any

from kubenode.runtime.clock import Clock
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, Forbidden, KubeError, NotFound
from remedy.handover.observation import Handed, HandoverObservation
from remedy.handover.render import UID, RenderedObject, render, values
from remedy.handover.settings import ObjectTemplate, Says
from remedy.job.created_objects import PATH, HandoverAct, handed
from remedy.job.model import Job, JobActResult, JobObservation, NodeObservation, StepAct
from remedy.notify.direct import DirectNotifier
from remedy.notify.message import NotDelivered
from remedy.notify.notice import of_step
from remedy.notify.texts import BadTemplate
from remedy.power.observation import RequestOutcome


class Handovers:
    """Hands work over. `templates` and the receivers of `direct` come from the settings."""

    def __init__(
        self,
        kube: Kube,
        templates: Mapping[str, ObjectTemplate],
        direct: DirectNotifier,
        clock: Clock,
    ) -> None:
        self._kube, self._templates = kube, templates
        self._direct, self._clock = direct, clock

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        if what is HandoverAct.TAKE_BACK:
            return await self._take_back(job)
        step = job.step.webhook if job.step is not None else None
        if step is None:
            return await self._make(job, observation.node)
        notice = of_step(job, f"fault {job.spec.fault_class} is handed over", self._clock.now())
        try:
            await self._direct.tell(step.receiver, notice)
        except NotDelivered as error:
            outcome = RequestOutcome.REFUSED if error.final else RequestOutcome.LATER
            return JobActResult(
                HandoverAct.START_HANDOVER, outcome=outcome, error=f"{step.receiver}: {error}"
            )
        return JobActResult(HandoverAct.START_HANDOVER, outcome=RequestOutcome.TAKEN)

    async def observe(self, job: Job, node: NodeObservation | None) -> HandoverObservation:
        """Return the observation of the current step's object."""
        made = self._rendered(job, node)
        if isinstance(made, str):
            return HandoverObservation(Handed.UNKNOWN, why=made, final=True)
        template = self._template(job)
        assert template is not None  # without it rendering fails above
        path = job.record.output.get(PATH, "") if job.record is not None else ""
        path = path or made.path  # as recorded: labels may have changed since
        try:
            obj = await self._kube.get(path)
        except NotFound:
            return HandoverObservation(Handed.ABSENT, path, keep=template.keep)
        except KubeError as error:
            return HandoverObservation(Handed.UNKNOWN, path, str(error), template.keep)
        state = state_of(obj, job.uid, template)
        return HandoverObservation(state, path, failure_message(obj, template), template.keep)

    async def _make(self, job: Job, node: NodeObservation | None) -> JobActResult:
        made = self._rendered(job, node)
        if isinstance(made, str):
            return _refuse(made)
        try:
            await self._owned(made)
            await self._kube.create(made.collection, made.body)
        except AlreadyExists:
            return JobActResult(
                HandoverAct.START_HANDOVER, outcome=RequestOutcome.TAKEN
            )  # the next observation shows its owner
        except NotFound as error:
            why = f"{error}: is the kind installed, are the namespace and the owner there?"
            return _refuse(why)
        except Forbidden as error:
            why = f"{error}: give kubenode-remedy get, create and delete of it"
            return _refuse(why)
        except KubeError as error:
            final = error.status in (400, 422)
            outcome = RequestOutcome.REFUSED if final else RequestOutcome.UNCLEAR
            return JobActResult(HandoverAct.START_HANDOVER, outcome=outcome, error=str(error))
        return JobActResult(HandoverAct.START_HANDOVER, outcome=RequestOutcome.TAKEN)

    async def _take_back(self, job: Job) -> JobActResult:
        """Delete what this job created, and no object of the same name that somebody
        else created.
        """
        for path in handed(job):
            try:
                obj = await self._kube.get(path)
                if ours(obj, job.uid):
                    await self._kube.delete(path, uid=obj["metadata"]["uid"])
            except NotFound:
                continue
            except KubeError as error:
                return JobActResult(HandoverAct.TAKE_BACK, error=str(error))
        return JobActResult(HandoverAct.TAKE_BACK)

    async def _owned(self, made: RenderedObject) -> None:
        """Add the current uid of the owner. Raises KubeError."""
        if made.owner:
            owner = await self._kube.get(made.owner)
            made.body["metadata"]["ownerReferences"][0]["uid"] = owner["metadata"]["uid"]

    def _template(self, job: Job) -> ObjectTemplate | None:
        step = job.step.create_object if job.step is not None else None
        return self._templates.get(step.template) if step is not None else None

    def _rendered(self, job: Job, node: NodeObservation | None) -> RenderedObject | str:
        """Render the step's object, or return why that is not possible."""
        template = self._template(job)
        if template is None:
            step = job.step.create_object if job.step is not None else None
            name = step.template if step is not None else ""
            return f"template {name} is not in the receivers file: add it there, or name another"
        try:
            return render(template, values(job, node))
        except BadTemplate as error:
            return f"its template {error}"


def _refuse(why: str) -> JobActResult:
    return JobActResult(HandoverAct.START_HANDOVER, outcome=RequestOutcome.REFUSED, error=why)


def ours(obj: Mapping[str, Any], uid: str) -> bool:
    return bool(obj["metadata"].get("annotations", {}).get(UID) == uid)


def state_of(obj: Mapping[str, Any], uid: str, template: ObjectTemplate) -> Handed:
    """Return the state of an object. Pure."""
    if not ours(obj, uid):
        return Handed.FOREIGN
    if template.failed_when is not None and says(obj, template.failed_when):
        return Handed.FAILED
    if template.done_when is not None and says(obj, template.done_when):
        return Handed.DONE
    return Handed.GOING


def says(obj: Mapping[str, Any], sign: Says) -> bool:
    """Report whether the object's status shows this sign; a status of another form than Kubernetes'
    own does not.
    """
    wanted, status = sign.condition, obj.get("status")
    if wanted is None:
        return isinstance(status, Mapping) and status.get("phase") == sign.phase
    return any(
        c.get("type") == wanted.type
        and c.get("status") == wanted.status
        and wanted.reason in (None, c.get("reason"))
        for c in _conditions(obj)
    )


def failure_message(obj: Mapping[str, Any], template: ObjectTemplate) -> str:
    """Return the object's message about its failure, "" if there is none."""
    failed = template.failed_when.condition if template.failed_when is not None else None
    matching = (c for c in _conditions(obj) if failed is not None and c.get("type") == failed.type)
    return next((str(c.get("message") or c.get("reason") or "") for c in matching), "")


def _conditions(obj: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    status = obj.get("status")
    conditions = status.get("conditions") if isinstance(status, Mapping) else None
    return [c for c in conditions if isinstance(c, Mapping)] if isinstance(conditions, list) else []
