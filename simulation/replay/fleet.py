"""The simulated Nodes, as an informer's cache would hold them, and which heartbeats are written.

Heartbeats are not simulated one by one, since that would be most of the work. A node is brought up
to date when it is read: every reporter that is not silent then has a heartbeat at the last full
interval (BEAT).
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from ipaddress import ip_address

import msgspec

from kubenode.runtime.hosttime import as_written, host_time
from kubenode.runtime.kube import objects
from kubenode.runtime.kube.objects import KubeObjectMeta, Node, NodeCondition, NodeInfo, NodeSpec
from simulation.replay.moments import Moment, instant
from simulation.replay.signals import (
    Evictions,
    NodeSnapshot,
    SimulatedCondition,
    SimulatedTaint,
    System,
)

replace = msgspec.structs.replace
BEAT = timedelta(minutes=1)
LONG_AGO = timedelta(days=30)
PODS = 10
NODE_CONTROLLER_WROTE = "NodeStatusUnknown"
"""Reason of conditions that the node controller wrote for a silent kubelet: no heartbeats."""

Changed = Callable[[str, Node | None, Node | None], None]


@dataclass(slots=True)
class Reporters:
    """Which reporters of one node are silent, and other inputs of a timeline about the node.

    beat: the time up to which heartbeats are written.
    all: whether all reporters are silent.
    types: conditions whose reporters are silent.
    pods: how many pods can be moved.
    boots: how often the host has booted.
    evictions: what the API server answers to evictions of its pods; None if it grants them.
    """

    beat: datetime
    all: bool = False
    types: set[str] = field(default_factory=set)
    pods: int = PODS
    boots: int = 1
    evictions: Evictions | None = None

    def alive(self, type_: str) -> bool:
        return not self.all and type_ not in self.types


class Fleet:
    """Nodes by name.

    changed: called with (name, old, new) for every change, like a handler of an informer.
    """

    def __init__(self, start: datetime, changed: Changed) -> None:
        self._start, self._changed = start, changed
        self.nodes: dict[str, Node] = {}
        self.reporters: dict[str, Reporters] = {}
        self._born = 0

    # -- what a FactStore reads -------------------------------------------------------------------

    def get(self, name: str) -> Node | None:
        return self.nodes.get(name)

    def readable(self, name: str) -> bool:
        return True

    def fresh(self) -> bool:
        return True

    def unheard(self) -> Sequence[tuple[float, float]]:
        return ()

    def __iter__(self) -> Iterator[str]:
        return iter(self.nodes)

    # -- what happens to a node -------------------------------------------------------------------

    def create(self, name: str, snapshot: NodeSnapshot, now: datetime, *, pods: int = PODS) -> None:
        """Create a Node; an existing Node of that name is deleted first.

        pods: how many pods can be moved.
        """
        self._born += 1
        if name in self.nodes:
            self.delete(name)
        uid = snapshot.uid or f"{name}-uid-{self._born}"
        created = self._at(snapshot.created) or now
        meta = KubeObjectMeta(
            name=name,
            uid=uid,
            labels=dict(snapshot.labels),
            annotations=dict(snapshot.annotations),
            creation_timestamp=created,
        )
        info = NodeInfo(
            boot_id=snapshot.boot_id or f"{uid}-boot-1",
            kernel_version=snapshot.kernel,
            os_image=snapshot.os_image,
            container_runtime_version=snapshot.runtime,
            architecture="amd64",
            operating_system="linux",
        )
        taints = [_taint(t) for t in snapshot.taints]
        spec = NodeSpec(
            unschedulable=snapshot.cordoned, taints=taints, provider_id=snapshot.provider_id
        )
        conditions = [self._condition(None, c, now, created) for c in snapshot.conditions]
        status = objects.NodeStatus(
            addresses=[_address(text) for text in snapshot.addresses],
            allocatable=_devices(snapshot.gpus),
            conditions=conditions,
            node_info=info,
        )
        self.reporters[name] = Reporters(now, pods=pods)
        self._put(name, Node(meta, spec, status))

    def renew(self, name: str, now: datetime) -> None:
        """Replace the node by a new healthy machine of the same name, with the labels of the old
        one.
        """
        node = self.nodes.get(name)
        if node is None:
            return
        info, pods = node.status.node_info, self.reporters[name].pods
        known = {"Ready", "MemoryPressure", "DiskPressure", "PIDPressure"}
        others = [c.type for c in node.status.conditions if c.type not in known]
        snapshot = NodeSnapshot(
            labels=node.metadata.labels,
            created=now,
            conditions=healthy(now, timedelta(0), others),
            kernel=info.kernel_version,
            os_image=info.os_image,
            runtime=info.container_runtime_version,
        )
        self.create(name, snapshot, now, pods=pods)

    def delete(self, name: str) -> None:
        old = self.nodes.pop(name)
        del self.reporters[name]
        self._changed(name, old, None)

    def condition(self, name: str, signal: SimulatedCondition, now: datetime) -> None:
        node = self.nodes[name]
        conditions = node.status.conditions
        old = next((c for c in conditions if c.type == signal.type), None)
        if signal.gone:
            changed = [c for c in conditions if c.type != signal.type]
        else:
            new = self._condition(old, signal, now, now)
            changed = [new if c is old else c for c in conditions] if old else [*conditions, new]
        self._put(name, replace(node, status=replace(node.status, conditions=changed)))

    def label(self, name: str, labels: dict[str, str | None]) -> None:
        meta = self.nodes[name].metadata
        self._meta(name, replace(meta, labels=_merged(meta.labels, labels)))

    def annotate(self, name: str, annotations: dict[str, str | None]) -> None:
        meta = self.nodes[name].metadata
        self._meta(name, replace(meta, annotations=_merged(meta.annotations, annotations)))

    def taint(self, name: str, signal: SimulatedTaint) -> None:
        node = self.nodes[name]
        others = [t for t in node.spec.taints if t.key != signal.key]
        taints = others if signal.remove else [*others, _taint(signal)]
        self._put(name, replace(node, spec=replace(node.spec, taints=taints)))

    def cordon(self, name: str, on: bool) -> None:
        node = self.nodes[name]
        self._put(name, replace(node, spec=replace(node.spec, unschedulable=on)))

    def boot(self, name: str, boot_id: str = "") -> None:
        node, reporters = self.nodes[name], self.reporters[name]
        reporters.boots += 1
        boot_id = boot_id or f"{node.metadata.uid}-boot-{reporters.boots}"
        info = replace(node.status.node_info, boot_id=boot_id)
        self._put(name, replace(node, status=replace(node.status, node_info=info)))

    def system(self, name: str, signal: System) -> None:
        node = self.nodes[name]
        old = node.status.node_info
        info = replace(
            old,
            kernel_version=signal.kernel or old.kernel_version,
            os_image=signal.os_image or old.os_image,
            container_runtime_version=signal.runtime or old.container_runtime_version,
        )
        devices = node.status.allocatable if signal.gpus is None else _devices(signal.gpus)
        status = replace(node.status, node_info=info, allocatable=devices)
        self._put(name, replace(node, status=status))

    def silence(self, name: str, who: bool | list[str], now: datetime) -> None:
        """Stop the heartbeats of reporters from now on; those until now are written.

        who: True for all reporters, False to let all go on, or types of conditions.
        """
        self.beat(name, now, to=now)
        reporters = self.reporters[name]
        if isinstance(who, bool):
            reporters.all = who
            reporters.types = reporters.types if who else set()
        else:
            reporters.types |= set(who)
        if who is False:
            self.beat(name, now, to=now)

    def hear(self, name: str, who: bool | list[str], now: datetime) -> None:
        """Write one heartbeat now.

        who: True for all conditions, or types of conditions; silent reporters are included.
        """
        if who is False:
            return
        node = self.nodes[name]
        wanted = None if who is True else set(who)
        conditions = [
            _beaten(c, now) if wanted is None or c.type in wanted else c
            for c in node.status.conditions
        ]
        self._put(name, replace(node, status=replace(node.status, conditions=conditions)))

    def beat(self, name: str, now: datetime, *, to: datetime | None = None) -> None:
        """Bring the heartbeats of a node up to date: to the last full interval, or to `to`."""
        reporters = self.reporters[name]
        if to is None:
            to = now - (now - self._start) % BEAT
        if to <= reporters.beat:
            return
        reporters.beat = to
        node = self.nodes[name]
        conditions = [
            _beaten(c, to) if reporters.alive(c.type) or c.last_heartbeat_time is None else c
            for c in node.status.conditions
        ]
        self._put(name, replace(node, status=replace(node.status, conditions=conditions)))

    # -- inside -----------------------------------------------------------------------------------

    def _put(self, name: str, new: Node) -> None:
        old = self.nodes.get(name)
        self.nodes[name] = new
        self._changed(name, old, new)

    def _meta(self, name: str, meta: KubeObjectMeta) -> None:
        self._put(name, replace(self.nodes[name], metadata=meta))

    def _at(self, moment: Moment | None) -> datetime | None:
        return None if moment is None else instant(moment, self._start)

    def _condition(
        self, old: NodeCondition | None, signal: SimulatedCondition, now: datetime, first: datetime
    ) -> NodeCondition:
        """Build a condition from a signal.

        first: the transition time of a condition that the node did not have before.
        """
        since = self._at(signal.since)
        if since is None:
            same = old is not None and old.status == signal.status
            turned = old.last_transition_time if old is not None and same else None
            since = None if turned is None else as_written(turned)
        reason = signal.reason
        if not reason and signal.type == "Ready" and signal.status == "Unknown":
            reason = NODE_CONTROLLER_WROTE
        heartbeat_at = None if reason == NODE_CONTROLLER_WROTE else self._at(signal.heard) or now
        return NodeCondition(
            signal.type,
            signal.status.value,
            reason,
            signal.message,
            None if heartbeat_at is None else host_time(heartbeat_at),
            host_time(since or (now if old is not None else first)),
        )


def _beaten(condition: NodeCondition, at: datetime) -> NodeCondition:
    """Set the heartbeat, unless the condition has none because the node controller wrote it."""
    heartbeat_at = condition.last_heartbeat_time
    if heartbeat_at is None or heartbeat_at >= host_time(at):
        return condition
    return replace(condition, last_heartbeat_time=host_time(at))


def _address(text: str) -> objects.NodeAddress:
    try:
        ip_address(text)
    except ValueError:
        return objects.NodeAddress("Hostname", text)
    return objects.NodeAddress("InternalIP", text)


def _devices(gpus: int) -> objects.Devices | None:
    return objects.Devices(nvidia=str(gpus)) if gpus else None


def _taint(signal: SimulatedTaint) -> objects.Taint:
    return objects.Taint(signal.key, signal.value, signal.effect)


def _merged(old: dict[str, str], changes: dict[str, str | None]) -> dict[str, str]:
    merged = {k: v for k, v in old.items() if k not in changes}
    return merged | {k: v for k, v in changes.items() if v is not None}


def healthy(now: datetime, age: timedelta, types: Iterable[str] = ()) -> list[SimulatedCondition]:
    """Return the conditions of a healthy node: the kubelet's, and `types` of detectors as False.

    age: how long the node has been healthy.
    """
    since = now - age
    falses = ("MemoryPressure", "DiskPressure", "PIDPressure", *types)
    return [
        SimulatedCondition.model_validate({"type": "Ready", "status": "True", "since": since}),
        *(
            SimulatedCondition.model_validate({"type": t, "status": "False", "since": since})
            for t in falses
        ),
    ]
