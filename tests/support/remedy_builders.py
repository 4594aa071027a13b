"""Builders of jobs and of what is seen of them."""

from datetime import timedelta
from typing import Any

from support.clock import T0

from kubenode.api.v1alpha1 import JobPhase, Reason, RemedyOperationJob, Verdict
from kubenode.api.v1alpha1.ladder import Disruption
from kubenode.runtime.kube.objects import Node
from remedy.job.marks import MARKS
from remedy.job.model import FaultAssessment, Job, JobObservation, NodeObservation
from rules.truth import Truth

NODE, UID = "n1", "node-uid-1"
JOB = "n1-0123456789"

DRAIN: dict[str, Any] = {
    "name": "drain-and-restart",
    "steps": [
        {"cordon": {}},
        {"migrate": {"timeout": "10m"}},
        {"agent": {"action": "RestartUnit", "unit": "containerd.service", "timeout": "2m"}},
    ],
    "verify": {"for": "1m", "timeout": "5m"},
}
RESTART: dict[str, Any] = {
    "name": "restart",
    "steps": [{"agent": {"action": "RestartUnit", "unit": "containerd.service"}}],
    "verify": {"for": "1m", "timeout": "3m"},
}
TELL: dict[str, Any] = {
    "name": "tell",
    "steps": [{"notify": {"message": "look at this node"}}],
    "verify": {"for": "1m", "timeout": "3m"},
}

WHEN = {"condition": {"type": "ContainerRuntimeUnhealthy", "status": "True", "for": "30s"}}


def a_spec(*rungs: dict[str, Any], **changes: Any) -> dict[str, Any]:
    return {
        "nodeName": NODE,
        "agent": NODE,
        "nodeUID": UID,
        "remedier": {"name": "runtime-unhealthy", "uid": "rule-uid", "generation": 1},
        "trigger": {"firstTrue": T0.isoformat()},
        "ladder": list(rungs or (DRAIN,)),
        "when": WHEN,
        **changes,
    }


def an_object(*rungs: dict[str, Any], name: str = JOB, **changes: Any) -> RemedyOperationJob:
    """As the API server keeps it, never written a status."""
    return RemedyOperationJob.model_validate(
        {
            "metadata": {
                "name": name,
                "uid": f"uid-of-{name}",
                "resourceVersion": "1",
                "generation": 1,
                "creationTimestamp": T0.isoformat(),
            },
            "spec": a_spec(*rungs, **changes),
        }
    )


def a_job(*rungs: dict[str, Any], status: dict[str, Any] | None = None, **changes: Any) -> Job:
    """`status` in the form of the API."""
    obj = an_object(*rungs, **changes)
    if status is not None:
        obj = obj.model_copy(update={"status": type(obj.status).model_validate(status)})
    return Job.of(obj)


def by_kubelet(node: Node, agent: str) -> str:
    """The boot of a host whose agent says nothing."""
    return node.status.node_info.boot_id


def granted(life: timedelta = timedelta(hours=1), class_: str = "Node") -> Verdict:
    return Verdict(
        allowed=True,
        reason=Reason.GRANTED,
        permit="permit-1",
        class_=Disruption(class_),
        granted_at=T0,
        expires_at=T0 + life,
    )


def refused(reason: Reason = Reason.CONCURRENCY_LIMIT) -> Verdict:
    return Verdict(
        allowed=False,
        reason=reason,
        message="zone b: 5 of 5 repairs are running",
        scope="zone=b",
        look_again_at=T0 + timedelta(seconds=20),
    )


FAULTY = FaultAssessment(Truth.TRUE, Truth.FALSE, agreed=True, gone=Truth.FALSE)
HEALED = FaultAssessment(Truth.FALSE, Truth.FALSE, agreed=True, gone=Truth.TRUE)
SCHEDULABLE = NodeObservation(boot_id="boot-1", annotations=MARKS)
"""Somebody keeps the autoscalers off these nodes already, so that no job has to."""
OURS = NodeObservation(unschedulable=True, cordoned_by=JOB, boot_id="boot-1", annotations=MARKS)
THEIRS = NodeObservation(unschedulable=True, boot_id="boot-1", annotations=MARKS)


STEP_READS = ("handed", "replacing", "rollback")
"""Names by which tests give what the step under way reads."""


def seen(**changes: Any) -> JobObservation:
    """A faulty node, all caches fresh, a permit that stands."""
    given = {"now": T0, "node": SCHEDULABLE, "fault": FAULTY, "permit": granted()}
    read = next((of for kind in STEP_READS if (of := changes.pop(kind, None)) is not None), None)
    return JobObservation(**{**given, "step": read, **changes})


PERMIT = {
    "name": "permit-1",
    "class": "Pods",
    "grantedAt": T0.isoformat(),
    "expiresAt": (T0 + timedelta(hours=1)).isoformat(),
}


def a_record(index: int, name: str, state: str = "Running", **changes: Any) -> dict[str, Any]:
    return {
        "rung": 0,
        "index": index,
        "name": name,
        "state": state,
        "attempts": 1,
        "startedAt": T0.isoformat(),
        "expiresAt": (T0 + timedelta(minutes=10)).isoformat(),
        **({"finishedAt": T0.isoformat()} if state in ("Done", "Failed") else {}),
        **changes,
    }


def asked(index: int, state: str = "Running") -> dict[str, Any]:
    return a_record(
        index,
        "agent",
        state,
        by="Agent",
        requestID=f"r0s{index}a1",
        askedAt=T0.isoformat(),
        bootID="boot-1",
        expiresAt=(T0 + timedelta(minutes=2)).isoformat(),
    )


CORDONED = a_record(0, "cordon", "Done")
DRAINED = a_record(1, "migrate", "Done")


def running(index: int, *steps: dict[str, Any], **changes: Any) -> dict[str, Any]:
    """A status in phase Running at step `index` of rung 0, with its permit."""
    return {
        "phase": JobPhase.RUNNING,
        "rung": 0,
        "step": index,
        "steps": list(steps),
        "permit": PERMIT,
        "owned": {"cordon": bool(steps) and index > 0},
        **changes,
    }
