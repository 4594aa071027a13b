"""Events of the stream: their types, data and envelope. docs/reference/stream.json is the schema.

An event is a CloudEvent 1.0 in the JSON format. Its ID names an object by UID and one transition of
it, so that the same transition has the same ID however often and by whichever process it is sent.
Events hold no messages, outputs or notes, because these can contain anything.
"""

from datetime import datetime
from typing import Annotated, Any

import msgspec
from msgspec import Meta

PREFIX = "io.kubenode.stream.v1."
"""Begins every type. A change that breaks readers takes another version."""
BATCH_TYPE = "application/cloudevents-batch+json"
SPECVERSION = "1.0"
JSON_TYPE = "application/json"


def text(description: str) -> Any:
    return Meta(description=description)


Count = Annotated[int, Meta(ge=0, le=2**31 - 1)]


class EventNode(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """Identity of a node, and its properties when the event was derived. "" is unknown."""

    name: str = ""
    uid: str = ""
    zone: Annotated[str, text("Label topology.kubernetes.io/zone.")] = ""
    rack: Annotated[str, text("Label kubenode.io/rack.")] = ""
    machine_type: Annotated[str, text("Label node.kubernetes.io/instance-type.")] = ""
    image: Annotated[str, text("OS image that the kubelet reports.")] = ""
    kernel: Annotated[str, text("Kernel version that the kubelet reports.")] = ""


class EventJob(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True):
    """The job that an event is about, with its fault and rule."""

    name: str
    uid: str
    fault_class: str = ""
    severity: str = ""
    rule: Annotated[str, text('Name of the NodeRemedier; "" for a manual job.')] = ""
    rule_generation: Annotated[int, Meta(ge=0)] = 0
    mode: str = ""


class JobTransition(msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True):
    job: EventJob
    node: EventNode


class JobOpened(JobTransition, frozen=True, kw_only=True):
    """A rule reported a fault, or a person requested a job, and a job began."""

    first_true: Annotated[datetime, text("Time since which the evidence was true.")]
    evidence: Annotated[list[str], text("Leaves of the evidence, without values.")] = []
    host_events: list[str] = []
    previous: Annotated[str, text("Job before the relapse.")] = ""
    supersedes: str = ""
    start_rung: Count = 0
    rungs: Annotated[list[str], text("Names of the rungs of the ladder.")] = []


class StepStarted(JobTransition, frozen=True, kw_only=True):
    rung: Count
    index: Annotated[Count, text("Position in the rung.")]
    step: Annotated[str, text("Kind of the step, such as reboot.")]
    by: Annotated[str, text("Operator, Agent or Provider.")]
    attempts: Count = 0


class StepEnded(StepStarted, frozen=True, kw_only=True):
    state: Annotated[str, text("Done, Failed, Skipped, Cancelled, or Waiting: it begins again.")]
    started_at: datetime | None = None


class HoldStarted(JobTransition, frozen=True, kw_only=True):
    """The job waits. Kube Defender did not refuse it."""

    reason: str
    scope: str = ""


class PermitRefused(HoldStarted, frozen=True, kw_only=True):
    """Kube Defender refused a permit."""


class JobDecided(JobTransition, frozen=True, kw_only=True):
    """A person decided about the job."""

    decision: Annotated[str, text("Approve, Deny, Next, Retry or Close.")]
    rung: Count | None = None
    by: Annotated[str, text('User name; "" if the sender leaves out user names.')] = ""


class JobClosed(JobTransition, frozen=True, kw_only=True):
    """The job ended."""

    phase: Annotated[str, text("Succeeded, Failed, Cancelled or Shadowed.")]
    reason: Annotated[str, text("Reason of the condition Closing.")] = ""
    start_rung: Count = 0
    rung: Annotated[Count, text("Index of the last rung that the job reached.")] = 0
    rung_name: str = ""
    first_true: datetime
    job_created: datetime | None = None
    permit_granted: datetime | None = None
    drained: datetime | None = None
    acted: Annotated[datetime | None, text("Time at which the steps of the last rung ended.")] = (
        None
    )
    verified: datetime | None = None
    hold_seconds: float = 0
    pods_unavailable_seconds: float = 0


class PermitTransition(
    msgspec.Struct, rename="camel", omit_defaults=True, frozen=True, kw_only=True
):
    permit: str
    permit_uid: Annotated[str, text("UID of the Permit.")] = msgspec.field(name="permitUID")
    node: EventNode
    operation: str
    holder_kind: str
    holder: str
    holder_uid: Annotated[str, text("UID of the job or other holder.")] = msgspec.field(
        name="holderUID"
    )


class PermitGranted(PermitTransition, frozen=True, kw_only=True):
    disruption_class: str


class PermitReleased(PermitTransition, frozen=True, kw_only=True):
    state: Annotated[str, text("Released or Revoked.")]
    granted_at: datetime | None = None


StreamData = (
    JobOpened
    | StepStarted
    | StepEnded
    | HoldStarted
    | PermitRefused
    | JobDecided
    | JobClosed
    | PermitGranted
    | PermitReleased
)
TYPES: dict[str, type[StreamData]] = {
    f"{PREFIX}job.opened": JobOpened,
    f"{PREFIX}job.hold": HoldStarted,
    f"{PREFIX}job.decided": JobDecided,
    f"{PREFIX}job.closed": JobClosed,
    f"{PREFIX}step.started": StepStarted,
    f"{PREFIX}step.ended": StepEnded,
    f"{PREFIX}permit.refused": PermitRefused,
    f"{PREFIX}permit.granted": PermitGranted,
    f"{PREFIX}permit.released": PermitReleased,
}
_TYPE_OF = {data: name for name, data in TYPES.items()}


class StreamEvent(msgspec.Struct, frozen=True):
    """A CloudEvent. `subject` is the name of the node, `source` names the cluster."""

    id: str
    source: str
    type: str
    time: datetime
    subject: str
    data: StreamData
    specversion: str = SPECVERSION
    datacontenttype: str = JSON_TYPE


def source_of(cluster: str) -> str:
    return f"urn:kubenode:cluster:{cluster}"


def event(id: str, cluster: str, at: datetime, node: str, data: StreamData) -> StreamEvent:
    return StreamEvent(id, source_of(cluster), _TYPE_OF[type(data)], at, node, data)


def encode_batch(events: list[StreamEvent]) -> bytes:
    """Return the events in the JSON batch format of CloudEvents, for which the library has no
    encoder.
    """
    return msgspec.json.encode(events)
