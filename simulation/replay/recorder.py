"""Turns changes of a cluster's caches into timeline entries. It keeps state and does no I/O.

At most one heartbeat entry is made for a node in a minute. Changes of our own are left out, since a
replay makes them itself: our cordons and their annotation.
"""

from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta

from kubenode.api.cordon import CORDONED_BY
from kubenode.api.v1alpha1 import HostEvent, HostProbe
from kubenode.api.v1alpha1.hostevent import HostEventPhase
from kubenode.runtime.hosttime import HostTime
from kubenode.runtime.kube import objects
from kubenode.runtime.kube.node_events import is_about_pod, node_of
from kubenode.runtime.kube.objects import Node, NodeCondition
from remedy.remedier.eventtimes import occurrences
from remedy.remedier.hostevents import ALERT_NAME, WATCHDOG
from simulation.replay import signals
from simulation.replay.timeline import Entry

THIN = timedelta(minutes=1)
OLDEST_EVENT = timedelta(hours=24)
CLIP = 1024
"""Characters that are kept of a text. Rules read no more."""
OURS = frozenset({CORDONED_BY})


class Recorder:
    """Makes timeline entries. Each method yields the entries of one change at `now`."""

    def __init__(self) -> None:
        self._beats: dict[str, datetime] = {}
        self._counts: dict[str, int] = {}
        self._watchdog: datetime | None = None

    def begin(self, now: datetime) -> Iterator[Entry]:
        """Yield the first entry: the source of alerts is silent except for heartbeats."""
        yield Entry(at=now, alert_source="silent")

    def end(self, now: datetime) -> Iterator[Entry]:
        """Yield the last entry, so that a replay lasts as long as the recording."""
        yield Entry(at=now, end=True)

    # -- nodes ------------------------------------------------------------------------------------

    def node(self, name: str, old: Node | None, new: Node | None, now: datetime) -> Iterator[Entry]:
        if new is None:
            self._beats.pop(name, None)
            yield Entry(at=now, node=name, lifecycle="deleted")
        elif old is None or old.metadata.uid != new.metadata.uid:
            self._beats[name] = now
            yield Entry(at=now, node=name, lifecycle="created", look=take_snapshot(new))
            yield Entry(at=now, node=name, silent=True)
        elif old is not new:
            yield from self._changed(name, old, new, now)

    def _changed(self, name: str, old: Node, new: Node, now: datetime) -> Iterator[Entry]:
        a, b = old.metadata, new.metadata
        if labels := _differ(a.labels, b.labels):
            yield Entry(at=now, node=name, label=labels)
        if annotations := _differ(_theirs(a.annotations), _theirs(b.annotations)):
            yield Entry(at=now, node=name, annotation=annotations)
        yield from _taints(name, old, new, now)
        cordoned = _cordoned(old), _cordoned(new)
        if cordoned[0] is not cordoned[1]:
            yield Entry(at=now, node=name, cordon=cordoned[1])
        yield from _host(name, old, new, now)
        yield from self._conditions(name, old, new, now)

    def _conditions(self, name: str, old: Node, new: Node, now: datetime) -> Iterator[Entry]:
        before = {c.type: c for c in old.status.conditions}
        beaten = []
        for condition in new.status.conditions:
            was = before.pop(condition.type, None)
            if was is None or _get_content(was) != _get_content(condition):
                yield Entry(at=now, node=name, condition=_condition(condition))
            elif _later(was, condition):
                beaten.append(condition.type)
        for type_ in before:
            gone = signals.SimulatedCondition(type=type_, gone=True)
            yield Entry(at=now, node=name, condition=gone)
        if beaten and now - self._beats.get(name, now - THIN) >= THIN:
            self._beats[name] = now
            beating = [c for c in new.status.conditions if c.last_heartbeat_time is not None]
            everybody = len(beaten) == len(beating)
            yield Entry(at=now, node=name, heard=True if everybody else beaten)

    # -- events -----------------------------------------------------------------------------------

    def event(self, new: objects.Event | None, now: datetime) -> Iterator[Entry]:
        """Yield the entry of an Event. A deleted Event yields nothing: it still happened."""
        name = node_of(new) if new is not None else ""
        if new is None or not name:
            return
        count = max(new.count, new.series.count if new.series else 0, 1)
        uid = new.metadata.uid
        first, last = occurrences(new, now, live=uid in self._counts)
        if count <= self._counts.get(uid, 0) or last < now - OLDEST_EVENT:
            return
        self._counts[uid] = count
        yield Entry(
            at=now,
            node=name,
            event=signals.SimulatedEvent(
                reason=new.reason[:316] or "Unknown",
                message=new.message[:CLIP],
                source=(new.source.component or new.reporting_component)[:CLIP],
                severity="Normal" if new.type == "Normal" else "Warning",
                count=count,
                first=first,
                last=last,
                uid=uid,
                about_pod=is_about_pod(new),
            ),
        )

    def host_event(
        self, old: HostEvent | None, new: HostEvent | None, now: datetime
    ) -> Iterator[Entry]:
        event = new or old
        assert event is not None
        if event.spec.attributes.get(ALERT_NAME) == WATCHDOG and not event.spec.node.name:
            yield from self._alive(new, now)
            return
        if not event.spec.node.name or event.status.phase is None:
            return
        phase = event.status.phase
        if new is None and phase.open:
            phase = HostEventPhase.COMPLETED
        elif new is None:
            return
        spec, status = event.spec, event.status
        yield Entry(
            at=now,
            node=spec.node.name,
            host_event=signals.SimulatedHostEvent(
                class_=spec.class_,
                source=spec.source,
                phase=phase,
                severity=spec.severity,
                external_id=spec.external_id,
                not_before=spec.not_before,
                not_after=spec.not_after,
                message=spec.message[:CLIP],
                attributes=spec.attributes,
                since=status.first_seen,
                last=status.last_seen,
                seen=max(status.seen, 1),
            ),
        )

    def _alive(self, new: HostEvent | None, now: datetime) -> Iterator[Entry]:
        open_ = new is not None and new.status.phase is not None and new.status.phase.open
        observed_at = new.status.last_seen if new is not None else None
        if not open_:
            self._watchdog = None
            yield Entry(at=now, alert_source="silent")
        elif observed_at is not None and observed_at != self._watchdog:
            self._watchdog = observed_at
            yield Entry(at=now, alert_source="heard")

    def probe(self, old: HostProbe | None, new: HostProbe | None, now: datetime) -> Iterator[Entry]:
        if new is None or new.status.answered_at is None or not new.spec.node_name:
            return
        if old is not None and old.status.answered_at is not None:
            return
        answer = None if new.status.error else dict(new.status.answer)
        kind = str(new.spec.name)
        fields = None if answer is None else signals.known(kind, answer)
        yield Entry(at=now, node=new.spec.node_name, probe={kind: fields})


def take_snapshot(node: Node) -> signals.NodeSnapshot:
    """Return the parts of a Node that a timeline can express."""
    info, meta = node.status.node_info, node.metadata
    return signals.NodeSnapshot(
        uid=meta.uid,
        labels=meta.labels,
        annotations=_theirs(meta.annotations),
        taints=[_taint(taint) for taint in node.spec.taints],
        created=meta.creation_timestamp,
        conditions=[_condition(c) for c in node.status.conditions],
        cordoned=_cordoned(node),
        kernel=info.kernel_version,
        os_image=info.os_image,
        runtime=info.container_runtime_version,
        boot_id=info.boot_id,
        gpus=gpus(node),
        provider_id=node.spec.provider_id,
    )


def gpus(node: Node) -> int:
    devices = node.status.allocatable
    if devices is None:
        return 0
    numbers = (devices.nvidia, devices.amd, devices.intel, devices.intel_xe)
    return sum(int(n) for n in numbers if n.isdecimal())


def _condition(condition: NodeCondition) -> signals.SimulatedCondition:
    return signals.SimulatedCondition.model_validate(
        {
            "type": condition.type,
            "status": condition.status,
            "reason": condition.reason[:CLIP],
            "message": condition.message[:CLIP],
            "since": condition.last_transition_time,
            "heard": condition.last_heartbeat_time,
        }
    )


def _get_content(condition: NodeCondition) -> tuple[str, str, str, HostTime | None]:
    when = condition.last_transition_time
    return condition.status, condition.reason, condition.message, when


def _later(old: NodeCondition, new: NodeCondition) -> bool:
    a, b = old.last_heartbeat_time, new.last_heartbeat_time
    return b is not None and (a is None or b > a)


def _differ(old: Mapping[str, str], new: Mapping[str, str]) -> dict[str, str | None]:
    changed: dict[str, str | None] = {k: v for k, v in new.items() if old.get(k) != v}
    return changed | {k: None for k in old if k not in new}


def _theirs(annotations: Mapping[str, str]) -> dict[str, str]:
    return {k: v[:CLIP] for k, v in annotations.items() if k not in OURS}


def _cordoned(node: Node) -> bool:
    """Return whether somebody else than us has cordoned the node."""
    return node.spec.unschedulable and CORDONED_BY not in node.metadata.annotations


def _taints(name: str, old: Node, new: Node, now: datetime) -> Iterator[Entry]:
    before = {t.key: t for t in old.spec.taints}
    for taint in new.spec.taints:
        was = before.pop(taint.key, None)
        if was is None or (was.value, was.effect) != (taint.value, taint.effect):
            yield Entry(at=now, node=name, taint=_taint(taint))
    for key in before:
        yield Entry(at=now, node=name, taint=signals.SimulatedTaint(key=key, remove=True))


def _taint(taint: objects.Taint) -> signals.SimulatedTaint:
    fields = {"key": taint.key, "value": taint.value, "effect": taint.effect}
    return signals.SimulatedTaint.model_validate({k: v for k, v in fields.items() if v})


def _host(name: str, old: Node, new: Node, now: datetime) -> Iterator[Entry]:
    a, b = old.status.node_info, new.status.node_info
    if b.boot_id and a.boot_id != b.boot_id:
        yield Entry(at=now, node=name, boot=signals.Boot(id=b.boot_id))
    states = (
        (a.kernel_version, a.os_image, a.container_runtime_version, gpus(old)),
        (b.kernel_version, b.os_image, b.container_runtime_version, gpus(new)),
    )
    if states[0] != states[1]:
        kernel, image, runtime, devices = states[1]
        system = signals.System(kernel=kernel, os_image=image, runtime=runtime, gpus=devices)
        yield Entry(at=now, node=name, system=system)
