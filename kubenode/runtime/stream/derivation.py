"""Derives the events of an object from its present state. Pure.

The object holds its own history: each call returns the events of all its transitions so far, with
the same IDs. A hold is an exception: an object holds the present one alone.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import datetime, timedelta

from msgspec import structs

from kubenode.api.meta import format_time
from kubenode.api.v1alpha1 import Permit, Reason, RemedyOperationJob
from kubenode.api.v1alpha1.remedyoperationjob import StepStatus
from kubenode.runtime.kube.objects import Node
from kubenode.runtime.stream.model import (
    EventJob,
    EventNode,
    HoldStarted,
    JobClosed,
    JobDecided,
    JobOpened,
    PermitGranted,
    PermitRefused,
    PermitReleased,
    StepEnded,
    StepStarted,
    StreamData,
    StreamEvent,
    event,
)

ZONE = "topology.kubernetes.io/zone"
RACK = "kubenode.io/rack"
MACHINE_TYPE = "node.kubernetes.io/instance-type"
CLOSING = "Closing"
REFUSALS = frozenset(str(reason) for reason in Reason)


@dataclass(frozen=True, slots=True)
class StreamIdentity:
    """What events name besides their object.

    cluster: name of the cluster
    user_names: whether decisions name the user
    """

    cluster: str
    user_names: bool = True


class _Events:
    """Builds the events of one object. IDs begin with its UID."""

    def __init__(self, uid: str, node: str, identity: StreamIdentity) -> None:
        self._uid, self._node, self._cluster = uid, node, identity.cluster

    def at(self, time: datetime, transition: str, data: StreamData) -> StreamEvent:
        return event(f"{self._uid}/{transition}", self._cluster, time, self._node, data)


def job_events(
    job: RemedyOperationJob, node: Node | None, identity: StreamIdentity
) -> Iterator[StreamEvent]:
    """Yield the events of a job. `node`: the present Node of that name, None for none."""
    events = _Events(job.metadata.uid or "", job.spec.node_name, identity)
    about, where = _job(job), _node(job.spec.node_name, job.spec.node_uid, node)
    yield from _opened(job, events, about, where)
    for record in job.status.steps:
        yield from _step(record, events, about, where)
    yield from _hold(job, events, about, where)
    for number, decision in enumerate(job.spec.approvals):
        if decision.at is not None:
            by = decision.by if identity.user_names else ""
            data = JobDecided(
                job=about, node=where, decision=decision.decision, rung=decision.rung, by=by
            )
            yield events.at(decision.at, f"decided/{number}", data)
    yield from _closed(job, events, about, where)


def permit_events(
    permit: Permit, node: Node | None, identity: StreamIdentity
) -> Iterator[StreamEvent]:
    """Yield the events of a permit. `node`: the present Node of that name, None for none."""
    events = _Events(permit.metadata.uid or "", permit.spec.node_name, identity)
    status, holder = permit.status, permit.spec.holder
    about = {
        "permit": permit.metadata.name,
        "permit_uid": permit.metadata.uid or "",
        "operation": str(permit.spec.operation),
        "holder_kind": holder.kind,
        "holder": holder.name,
        "holder_uid": holder.uid,
    }
    where = _node(permit.spec.node_name, "", node)
    grants = [(str(grant.class_), grant.at) for grant in permit.spec.grants]
    if not grants and status.granted_at is not None:
        grants = [(str(permit.spec.class_), status.granted_at)]
    for class_, at in grants:
        granted = PermitGranted(**about, node=where, disruption_class=class_)
        yield events.at(at, f"granted/{class_}/{format_time(at)}", granted)
    if status.released_at is not None:
        state = str(status.state or "")
        released = PermitReleased(**about, node=where, state=state, granted_at=status.granted_at)
        yield events.at(status.released_at, "released", released)


def _node(name: str, uid: str, node: Node | None) -> EventNode:
    """Return the node of the event. A Node with another UID only has the same name.

    uid: "" if the object does not name one
    """
    if node is None or uid not in ("", node.metadata.uid):
        return EventNode(name=name, uid=uid)
    labels, info = node.metadata.labels, node.status.node_info
    return EventNode(
        name=name,
        uid=node.metadata.uid,
        zone=labels.get(ZONE, ""),
        rack=labels.get(RACK, ""),
        machine_type=labels.get(MACHINE_TYPE, ""),
        image=info.os_image,
        kernel=info.kernel_version,
    )


def _job(job: RemedyOperationJob) -> EventJob:
    spec = job.spec
    rule = spec.remedier
    return EventJob(
        name=job.metadata.name,
        uid=job.metadata.uid or "",
        fault_class=spec.fault_class,
        severity=str(spec.severity),
        rule=rule.name if rule is not None else "",
        rule_generation=rule.generation if rule is not None else 0,
        mode=str(spec.mode),
    )


def _opened(
    job: RemedyOperationJob, events: _Events, about: EventJob, where: EventNode
) -> Iterator[StreamEvent]:
    at = job.metadata.creation_timestamp
    if at is None:
        return
    spec = job.spec
    data = JobOpened(
        job=about,
        node=where,
        first_true=spec.trigger.first_true,
        evidence=[fact.atom for fact in spec.trigger.facts],
        host_events=list(spec.host_events),
        previous=spec.previous,
        supersedes=spec.supersedes,
        start_rung=spec.start_rung,
        rungs=[rung.name for rung in spec.ladder],
    )
    yield events.at(at, "opened", data)


def _step(
    record: StepStatus, events: _Events, about: EventJob, where: EventNode
) -> Iterator[StreamEvent]:
    started = record.started_at
    if started is None:
        return
    transition = f"step/{record.rung}.{record.index}.{record.name}/{format_time(started)}"
    begun = StepStarted(
        job=about,
        node=where,
        rung=record.rung,
        index=record.index,
        step=record.name,
        by=str(record.by),
        attempts=record.attempts,
    )
    yield events.at(started, f"{transition}/started", begun)
    if record.finished_at is not None:
        ended = StepEnded(**structs.asdict(begun), state=str(record.state), started_at=started)
        yield events.at(record.finished_at, f"{transition}/ended", ended)


def _hold(
    job: RemedyOperationJob, events: _Events, about: EventJob, where: EventNode
) -> Iterator[StreamEvent]:
    hold = job.status.hold
    if hold is None or hold.since is None or job.status.phase.closed:
        return
    kind = PermitRefused if hold.reason in REFUSALS else HoldStarted
    data = kind(job=about, node=where, reason=hold.reason, scope=hold.scope)
    transition = f"hold/{format_time(hold.since)}/{hold.reason}/{hold.scope}"
    yield events.at(hold.since, transition, data)


def _closed(
    job: RemedyOperationJob, events: _Events, about: EventJob, where: EventNode
) -> Iterator[StreamEvent]:
    line, spec, status = job.status.timeline, job.spec, job.status
    if line.closed is None or not status.phase.closed:
        return
    reasons = (each.reason for each in status.conditions if each.type == CLOSING)
    data = JobClosed(
        job=about,
        node=where,
        phase=str(status.phase),
        reason=next(reasons, ""),
        start_rung=spec.start_rung,
        rung=status.rung,
        rung_name=spec.ladder[status.rung].name if status.rung < len(spec.ladder) else "",
        first_true=line.fault_seen or spec.trigger.first_true,
        job_created=line.job_created or job.metadata.creation_timestamp,
        permit_granted=line.permit_granted,
        drained=line.drained,
        acted=line.acted,
        verified=line.verified,
        hold_seconds=_seconds(line.held),
        pods_unavailable_seconds=_seconds(line.pods_unavailable),
    )
    yield events.at(line.closed, "closed", data)


def _seconds(duration: timedelta | None) -> float:
    return duration.total_seconds() if duration is not None else 0.0
