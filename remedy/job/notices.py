"""Notifies people about a node: one Kubernetes Event for each attempt of the step, however often it
is sent, and messages to the receivers that the step names.
"""

import hashlib
from collections.abc import Callable
from typing import Any

from kubenode.api.meta import format_time
from kubenode.runtime.clock import Clock
from kubenode.runtime.kube import paths
from kubenode.runtime.kube.client import Kube
from kubenode.runtime.kube.errors import AlreadyExists, KubeError
from remedy.job.model import Job, JobActResult, JobObservation, StepAct
from remedy.notify.notifications import Telling

COMPONENT = "kubenode-remedy"
NAMESPACE = "default"
"""Namespace of Events about cluster-scoped objects: core/v1 validation requires it."""
REASON = "NodeRepair"


def step_text(job: Job) -> str:
    """Return the message of the job's current step `notify`."""
    notify = job.step.notify if job.step is not None else None
    return (notify.message if notify else "") or f"fault {job.spec.fault_class}"


class Notices:
    """Sends the notifications of a step.

    telling: None: no receivers are configured
    group: describes the group that a job is for and its nodes that match now, "" for none
    """

    def __init__(
        self,
        kube: Kube,
        clock: Clock,
        telling: Telling | None = None,
        group: Callable[[Job], str] = lambda job: "",
    ) -> None:
        self._kube, self._clock, self._telling = kube, clock, telling
        self._group = group

    async def act(self, job: Job, what: StepAct, observation: JobObservation) -> JobActResult:
        """Send the notification. The name makes a repetition the same Event."""
        text = self._text(job)
        try:
            await self._kube.create(paths.events(NAMESPACE), self._event(job, text))
        except AlreadyExists:
            pass  # an earlier attempt created it
        except KubeError as error:
            return JobActResult(what, error=str(error))
        return JobActResult(
            what, error=self._telling.step(job, text) if self._telling is not None else ""
        )

    def _text(self, job: Job) -> str:
        text, group = step_text(job), self._group(job)
        return f"{text} ({group})" if group else text

    def _event(self, job: Job, text: str) -> dict[str, Any]:
        record = job.record
        rule = job.spec.remedier.name if job.spec.remedier is not None else "a person"
        attempt = (record.rung, record.index, record.attempts) if record is not None else ()
        digest = hashlib.sha256(repr((job.uid, attempt)).encode()).hexdigest()[:16]
        now = format_time(self._clock.now())
        node = job.spec.node_name
        return {
            "apiVersion": "v1",
            "kind": "Event",
            "metadata": {"name": f"{node[:230].rstrip('.-')}.{digest}", "namespace": NAMESPACE},
            "involvedObject": {
                "kind": "Node",
                "apiVersion": "v1",
                "name": node,
                "uid": job.spec.node_uid,
            },
            "type": "Warning",
            "reason": REASON,
            "message": f"{text} (rule {rule}, job {job.name})"[:1024],
            "source": {"component": COMPONENT},
            "reportingComponent": COMPONENT,
            "reportingInstance": COMPONENT,
            "firstTimestamp": now,
            "lastTimestamp": now,
            "count": 1,
        }
