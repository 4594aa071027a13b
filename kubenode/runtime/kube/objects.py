"""The Kubernetes objects that we watch in bulk, as msgspec Structs of the fields that we read.

10,000 Nodes of 14 KB are decoded at start, and thousands of Events per second in a storm. So
decoding skips fields without a name here, and `gc=False` hides the cache from the garbage collector
(these Structs have no cycles).

JSON null means the same as a missing field. The decoder handles it only after an error (`Structs`):
no API server that we know writes null here, so the fast path does not pay for it.

Equal strings of thousands of nodes are stored once (`sys.intern`, which drops unused ones). So are
equal times of one report, and parts of a Node that its new version repeats (`share`): otherwise
whoever remembers a part of an older version would hold it a second time, for each node.

Times that any client may write are bounded (kubenode.instants), so that arithmetic on them never
overflows.

Source of all fields: the OpenAPI v3 document of Kubernetes 1.36.
"""

from collections.abc import Callable
from datetime import datetime
from sys import intern
from typing import Any, Generic, Protocol, TypeVar

import msgspec

from kubenode.instants import bounded
from kubenode.runtime.hosttime import HostTime, bounded_stamp


class Meta(Protocol):
    """The metadata that the runtime reads of any object, Struct or pydantic model."""

    @property
    def name(self) -> str: ...
    @property
    def namespace(self) -> str | None: ...
    @property
    def resource_version(self) -> str | None: ...


class Object(Protocol):
    @property
    def metadata(self) -> Meta: ...


class KubeOwnerReference(msgspec.Struct, rename="camel", gc=False, frozen=True):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    uid: str = ""
    controller: bool = False


class KubeObjectMeta(msgspec.Struct, rename="camel", gc=False):
    """`namespace` is "" for cluster-scoped objects."""

    name: str = ""
    namespace: str = ""
    uid: str = ""
    resource_version: str = ""
    generation: int = 0
    labels: dict[str, str] = {}
    annotations: dict[str, str] = {}
    creation_timestamp: datetime | None = None
    deletion_timestamp: datetime | None = None
    finalizers: list[str] = []
    owner_references: list[KubeOwnerReference] = []

    @property
    def key(self) -> str:
        return f"{self.namespace}/{self.name}" if self.namespace else self.name


class Taint(msgspec.Struct, rename="camel", gc=False):
    key: str = ""
    value: str = ""
    effect: str = ""
    time_added: datetime | None = None

    def __post_init__(self) -> None:
        self.key, self.effect = intern(self.key), intern(self.effect)
        self.value = intern(self.value)
        self.time_added = bounded(self.time_added)


class NodeSpec(msgspec.Struct, rename="camel", gc=False):
    unschedulable: bool = False
    taints: list[Taint] = []
    provider_id: str = msgspec.field(default="", name="providerID")


class NodeCondition(msgspec.Struct, rename="camel", gc=False):
    """A condition of a Node. `status` is "True", "False" or "Unknown".

    Times are by the clock of the writer. That is the host, except for the transition that the node
    controller writes when a kubelet's heartbeats stop.
    """

    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_heartbeat_time: HostTime | None = None
    last_transition_time: HostTime | None = None

    def __post_init__(self) -> None:
        self.type, self.status = intern(self.type), intern(self.status)
        self.reason, self.message = intern(self.reason), intern(self.message)
        self.last_heartbeat_time = bounded_stamp(self.last_heartbeat_time)
        self.last_transition_time = bounded_stamp(self.last_transition_time)


class NodeInfo(msgspec.Struct, rename="camel", gc=False):
    """Properties of a node's system. `boot_id` changes with each boot; "" is unknown."""

    boot_id: str = msgspec.field(default="", name="bootID")
    kernel_version: str = ""
    os_image: str = ""
    container_runtime_version: str = ""
    kubelet_version: str = ""
    architecture: str = ""
    operating_system: str = ""

    def __post_init__(self) -> None:
        self.kernel_version, self.os_image = intern(self.kernel_version), intern(self.os_image)
        self.container_runtime_version = intern(self.container_runtime_version)
        self.kubelet_version = intern(self.kubelet_version)
        self.architecture = intern(self.architecture)
        self.operating_system = intern(self.operating_system)


class NodeAddress(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    address: str = ""

    def __post_init__(self) -> None:
        self.type = intern(self.type)


class Devices(msgspec.Struct, gc=False):
    """Allocatable GPUs of a node, by the resource names of their vendors' device plugins.

    Quantities are texts as written in the object, "" for none.
    """

    nvidia: str = msgspec.field(default="", name="nvidia.com/gpu")
    amd: str = msgspec.field(default="", name="amd.com/gpu")
    intel: str = msgspec.field(default="", name="gpu.intel.com/i915")
    intel_xe: str = msgspec.field(default="", name="gpu.intel.com/xe")


class Endpoint(msgspec.Struct, gc=False):
    """An endpoint of a node. `port` 0 is unknown."""

    port: int = msgspec.field(default=0, name="Port")


class Endpoints(msgspec.Struct, rename="camel", gc=False):
    kubelet_endpoint: Endpoint = msgspec.field(default_factory=Endpoint)


class NodeStatus(msgspec.Struct, rename="camel", gc=False):
    conditions: list[NodeCondition] = []
    node_info: NodeInfo = msgspec.field(default_factory=NodeInfo)
    addresses: list[NodeAddress] = []
    allocatable: Devices | None = None
    daemon_endpoints: Endpoints | None = None


class Node(msgspec.Struct, rename="camel", gc=False):
    metadata: KubeObjectMeta
    spec: NodeSpec = msgspec.field(default_factory=NodeSpec)
    status: NodeStatus = msgspec.field(default_factory=NodeStatus)

    def __post_init__(self) -> None:
        labels = self.metadata.labels
        for key, value in labels.items():
            labels[key] = intern(value)
        heartbeat = turned = None
        for condition in self.status.conditions:
            if condition.last_heartbeat_time == heartbeat:
                condition.last_heartbeat_time = heartbeat
            if condition.last_transition_time == turned:
                condition.last_transition_time = turned
            heartbeat, turned = condition.last_heartbeat_time, condition.last_transition_time

    def share(self, old: "Node") -> None:
        """Reuse the equal parts of the old version. Call it before anybody reads the new one."""
        _share(self.metadata, old.metadata, _SHARED_META)
        if self.spec == old.spec:
            self.spec = old.spec
        _share(self.status, old.status, _SHARED_STATUS)
        for new, before in zip(self.status.conditions, old.status.conditions, strict=False):
            if new.last_transition_time == before.last_transition_time:
                new.last_transition_time = before.last_transition_time

    @property
    def ready_condition(self) -> NodeCondition | None:
        """Return the condition Ready, None if the node never reported one."""
        return next((c for c in self.status.conditions if c.type == "Ready"), None)

    @property
    def is_ready(self) -> bool:
        """Return whether Ready is True. Unknown and a missing condition are not ready."""
        ready = self.ready_condition
        return ready is not None and ready.status == "True"


_SHARED_META = (
    "uid", "labels", "annotations", "creation_timestamp", "finalizers", "owner_references",
)  # fmt: skip
_SHARED_STATUS = ("node_info", "addresses", "allocatable", "daemon_endpoints")


def _share(new: msgspec.Struct, old: msgspec.Struct, fields: tuple[str, ...]) -> None:
    for field in fields:
        before = getattr(old, field)
        if getattr(new, field) == before:
            setattr(new, field, before)


class Toleration(msgspec.Struct, rename="camel", gc=False):
    key: str = ""
    operator: str = "Equal"
    value: str = ""
    effect: str = ""
    toleration_seconds: int | None = None


class Volume(msgspec.Struct, rename="camel", gc=False):
    """A volume of a pod. The fields tell its kind: None for another kind, else a dict, maybe empty.

    empty_dir: deleted with the pod
    host_path: a folder of the node
    claim: refers to a PersistentVolumeClaim
    """

    name: str = ""
    empty_dir: dict[str, Any] | None = None
    host_path: dict[str, Any] | None = None
    claim: dict[str, Any] | None = msgspec.field(default=None, name="persistentVolumeClaim")


class PodSpec(msgspec.Struct, rename="camel", gc=False):
    node_name: str = ""
    priority: int | None = None
    priority_class_name: str = ""
    termination_grace_period_seconds: int | None = None
    tolerations: list[Toleration] = []
    volumes: list[Volume] = []


class PodCondition(msgspec.Struct, rename="camel", gc=False):
    type: str = ""
    status: str = "Unknown"
    reason: str = ""
    message: str = ""
    last_transition_time: datetime | None = None

    def __post_init__(self) -> None:
        self.last_transition_time = bounded(self.last_transition_time)


class PodStatus(msgspec.Struct, rename="camel", gc=False):
    phase: str = ""
    reason: str = ""
    message: str = ""
    start_time: datetime | None = None
    conditions: list[PodCondition] = []

    def __post_init__(self) -> None:
        self.start_time = bounded(self.start_time)


class Pod(msgspec.Struct, rename="camel", gc=False):
    metadata: KubeObjectMeta
    spec: PodSpec = msgspec.field(default_factory=PodSpec)
    status: PodStatus = msgspec.field(default_factory=PodStatus)


class LeaseSpec(msgspec.Struct, rename="camel", gc=False):
    holder_identity: str = ""
    lease_duration_seconds: int = 0
    lease_transitions: int = 0
    acquire_time: datetime | None = None
    renew_time: datetime | None = None

    def __post_init__(self) -> None:
        self.acquire_time = bounded(self.acquire_time)
        self.renew_time = bounded(self.renew_time)


class Lease(msgspec.Struct, rename="camel", gc=False):
    metadata: KubeObjectMeta
    spec: LeaseSpec = msgspec.field(default_factory=LeaseSpec)


class ObjectReference(msgspec.Struct, rename="camel", gc=False):
    api_version: str = ""
    kind: str = ""
    name: str = ""
    namespace: str = ""
    uid: str = ""
    field_path: str = ""


class EventSource(msgspec.Struct, rename="camel", gc=False):
    component: str = ""
    host: str = ""


class EventSeries(msgspec.Struct, rename="camel", gc=False):
    count: int = 0
    last_observed_time: HostTime | None = None

    def __post_init__(self) -> None:
        self.last_observed_time = bounded_stamp(self.last_observed_time)


class Event(msgspec.Struct, rename="camel", gc=False):
    """A core/v1 Event. Times are by the clock of its reporter.

    Writers of events.k8s.io fill `event_time` and `series`, others `count` and the two timestamps:
    read both.
    """

    metadata: KubeObjectMeta
    involved_object: ObjectReference = msgspec.field(default_factory=ObjectReference)
    type: str = ""
    reason: str = ""
    message: str = ""
    source: EventSource = msgspec.field(default_factory=EventSource)
    count: int = 0
    first_timestamp: HostTime | None = None
    last_timestamp: HostTime | None = None
    event_time: HostTime | None = None
    series: EventSeries | None = None
    reporting_component: str = ""
    reporting_instance: str = ""

    def __post_init__(self) -> None:
        self.first_timestamp = bounded_stamp(self.first_timestamp)
        self.last_timestamp = bounded_stamp(self.last_timestamp)
        self.event_time = bounded_stamp(self.event_time)


class KubeSelectorExpression(msgspec.Struct, rename="camel", gc=False):
    key: str = ""
    operator: str = ""
    values: list[str] = []


class KubeLabelSelector(msgspec.Struct, rename="camel", gc=False):
    match_labels: dict[str, str] = {}
    match_expressions: list[KubeSelectorExpression] = []


class PodDisruptionBudgetSpec(msgspec.Struct, rename="camel", gc=False):
    """Spec of a PodDisruptionBudget. Without a selector (None) it selects nothing; an empty one
    selects every pod of the namespace.
    """

    min_available: int | str | None = None
    max_unavailable: int | str | None = None
    selector: KubeLabelSelector | None = None


class PodDisruptionBudgetStatus(msgspec.Struct, rename="camel", gc=False):
    disruptions_allowed: int = 0
    current_healthy: int = 0
    desired_healthy: int = 0
    expected_pods: int = 0
    observed_generation: int = 0


class PodDisruptionBudget(msgspec.Struct, rename="camel", gc=False):
    metadata: KubeObjectMeta
    spec: PodDisruptionBudgetSpec = msgspec.field(default_factory=PodDisruptionBudgetSpec)
    status: PodDisruptionBudgetStatus = msgspec.field(default_factory=PodDisruptionBudgetStatus)


S = TypeVar("S")


class Structs(Generic[S]):
    """Decoder of one object's JSON into `kind`. Null means a missing field.

    Raises msgspec.ValidationError (a ValueError) for what does not fit.
    """

    def __init__(self, kind: type[S]) -> None:
        self.kind = kind
        self._decode = msgspec.json.Decoder(kind).decode

    def __call__(self, raw: bytes) -> S:
        try:
            return self._decode_with_nulls(raw)
        except RecursionError:
            raise msgspec.ValidationError("the object is nested too deeply") from None

    def _decode_with_nulls(self, raw: bytes) -> S:
        try:
            return self._decode(raw)
        except msgspec.ValidationError:
            return msgspec.convert(_without_nulls(msgspec.json.decode(raw)), self.kind)


def structs(kind: type[S]) -> Callable[[bytes], S]:
    """Return the decoder of an Informer or a `Kube.get` for one of the Structs above."""
    return Structs(kind)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {k: _without_nulls(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_without_nulls(v) for v in value if v is not None]
    return value
