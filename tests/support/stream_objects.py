"""Jobs and permits with a history, and a receiver of the stream that fails on demand."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from support.clock import T0
from support.remedy_builders import JOB, NODE, UID, an_object

from kubenode.api.v1alpha1 import Permit, RemedyOperationJob
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeInfo, NodeStatus
from kubenode.runtime.stream.delivery import NotAccepted
from kubenode.runtime.stream.model import StreamEvent


def at(seconds: float) -> str:
    return (T0 + timedelta(seconds=seconds)).isoformat()


def step_record(index: int, name: str, start: float, end: float | None = None) -> dict[str, Any]:
    ended = {} if end is None else {"finishedAt": at(end), "state": "Done"}
    record = {"rung": 0, "index": index, "name": name, "attempts": 1, "startedAt": at(start)}
    return {"state": "Running", **record, **ended, "message": "pod secret-pod left"}


def a_job_object(
    status: dict[str, Any] | None = None, name: str = JOB, version: int = 1, **spec: Any
) -> dict[str, Any]:
    job = an_object(name=name, **spec).to_dict()
    job["metadata"]["resourceVersion"] = str(version)
    return {**job, "status": status or {}}


CLOSED: dict[str, Any] = {
    "phase": "Succeeded",
    "message": "the node is healthy",
    "rung": 0,
    "steps": [step_record(0, "cordon", 11, 12), step_record(1, "migrate", 12, 40)],
    "timeline": {
        "faultSeen": at(-5),
        "jobCreated": at(0),
        "permitGranted": at(10),
        "drained": at(40),
        "acted": at(50),
        "verified": at(110),
        "closed": at(111),
        "held": "8s",
        "podsUnavailable": "3s",
    },
    "conditions": [
        {
            "type": "Closing",
            "status": "True",
            "reason": "Verified",
            "message": "",
            "lastTransitionTime": at(110),
        }
    ],
}


def closed_job(**spec: Any) -> RemedyOperationJob:
    return RemedyOperationJob.model_validate(a_job_object(CLOSED, **spec))


def a_permit(released: bool = True) -> Permit:
    state = {"state": "Released", "releasedAt": at(111)} if released else {"state": "Granted"}
    holder = {"kind": "RemedyOperationJob", "name": JOB, "uid": f"uid-of-{JOB}", "user": "bot"}
    grant = {"class": "Node", "at": at(10)}
    spec = {"operation": "Repair", "class": "Node", "nodeName": NODE, "holder": holder}
    return Permit.model_validate(
        {
            "metadata": {"name": "p1", "uid": "permit-uid", "resourceVersion": "1"},
            "spec": {**spec, "grants": [grant]},
            "status": {**state, "grantedAt": at(10)},
        }
    )


def a_node(uid: str = UID, kernel: str = "6.1") -> Node:
    labels = {
        "topology.kubernetes.io/zone": "z1",
        "kubenode.io/rack": "r1",
        "node.kubernetes.io/instance-type": "m1",
    }
    info = NodeInfo(kernel_version=kernel, os_image="Debian 12")
    return Node(
        KubeObjectMeta(name=NODE, uid=uid, labels=labels), status=NodeStatus(node_info=info)
    )


class RecordingReceiver:
    """A BatchSender. `failures`: the next answers; None accepts."""

    def __init__(self) -> None:
        self.accepted: list[StreamEvent] = []
        self.failures: list[NotAccepted] = []
        self.down = False

    @property
    def ids(self) -> list[str]:
        return [event.id for event in self.accepted]

    async def send(self, events: Sequence[StreamEvent]) -> None:
        if self.down:
            raise NotAccepted("is down")
        if self.failures:
            raise self.failures.pop(0)
        self.accepted += events

    async def close(self) -> None: ...
