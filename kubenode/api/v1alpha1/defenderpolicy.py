"""DefenderPolicy: the limits under which nodes may be disrupted."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import (
    Field,
    StrictBool,
    StrictFloat,
    StrictInt,
    StringConstraints,
    model_validator,
)

from kubenode.api.base import API_VERSION, CelRule, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.duration import Duration
from kubenode.api.meta import (
    NOT_EXCLUDING_EVERY_NODE,
    Condition,
    LabelSelector,
    NodeSelection,
    ObjectMeta,
    Time,
)
from kubenode.api.share import Share
from kubenode.api.v1alpha1.ladder import Disruption
from kubenode.api.v1alpha1.permit import Operation
from kubenode.api.v1alpha1.window import TimeWindow


class LimitScope(StrEnum):
    CLUSTER = "Cluster"
    LABEL = "Label"
    CONTROL_PLANE = "ControlPlane"
    FLEET = "Fleet"


class Rate(Model):
    """A token bucket: `count` permits per `per`, at most `burst` at once."""

    count: StrictInt = Field(ge=1, le=100_000)
    per: Duration
    burst: StrictInt = Field(default=1, ge=1, le=100_000)


LABEL_OF_SCOPE = CelRule(
    "(self.scope == 'Label') == has(self.label)",
    "scope Label needs `label`, and no other scope takes it",
)


class Limit(Model):
    """One limit. Each applies; the tightest decides."""

    scope: LimitScope
    label: str | None = Field(default=None, min_length=1, max_length=317)
    """For scope Label: nodes of one value share the limit; nodes without the label have none."""
    group: str | None = Field(default=None, min_length=1, max_length=63)
    """For scope Fleet: clusters of the same group share the limit."""
    classes: list[Disruption] | None = Field(default=None, min_length=1, max_length=4)
    """Only permits of these classes; default: Pods and Node."""
    max_concurrent: Share | None = None
    """Permits at once; a percentage rounds down, but to no less than 1."""
    min_healthy: Share | None = None
    """Nodes that must stay healthy; a percentage rounds down."""
    rate: Rate | None = None
    others_healthy: StrictBool = False
    """For scope ControlPlane: every other control plane node must be healthy."""
    on_unreachable: Literal["LocalShare", "Closed"] | None = None
    """For scope Fleet: what holds while the shared store is away."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        LABEL_OF_SCOPE,
        CelRule(
            "(self.scope == 'Fleet') == has(self.group)",
            "scope Fleet needs `group`, and no other scope takes it",
        ),
        CelRule(
            "self.scope == 'Fleet' || !has(self.onUnreachable)",
            "only scope Fleet takes `onUnreachable`: leave it out",
            "onUnreachable",
        ),
        CelRule(
            "self.scope == 'ControlPlane' || !self.othersHealthy",
            "only scope ControlPlane takes `othersHealthy`: leave it out",
            "othersHealthy",
        ),
        CelRule(
            "has(self.maxConcurrent) || has(self.minHealthy) || has(self.rate)",
            "limits nothing: write maxConcurrent, minHealthy or rate",
        ),
    )

    @model_validator(mode="after")
    def _limits_something(self) -> "Limit":
        label, group, unreachable, others, something = self.cel
        if (self.scope is LimitScope.LABEL) != (self.label is not None):
            raise label.broken()
        if (self.scope is LimitScope.FLEET) != (self.group is not None):
            raise group.broken()
        if self.scope is not LimitScope.FLEET and self.on_unreachable is not None:
            raise unreachable.broken()
        if self.scope is not LimitScope.CONTROL_PLANE and self.others_healthy:
            raise others.broken()
        if self.max_concurrent is None and self.min_healthy is None and self.rate is None:
            raise something.broken()
        return self


class PerNode(Model):
    """How often one node may be disrupted, over all rules."""

    max_acts: StrictInt = Field(default=3, ge=1, le=1000)
    within: Duration = timedelta(hours=24)


class SmallPool(Model):
    """Up to this size ratios do not apply: one at a time, all others healthy."""

    nodes: StrictInt = Field(default=5, ge=0, le=100)


class BreakerScope(Model):
    scope: Literal["Cluster", "Label"]
    label: str | None = Field(default=None, min_length=1, max_length=317)

    cel: ClassVar[tuple[CelRule, ...]] = (LABEL_OF_SCOPE,)

    @model_validator(mode="after")
    def _label_fits(self) -> "BreakerScope":
        if (self.scope == "Label") != (self.label is not None):
            raise LABEL_OF_SCOPE.broken()
        return self


class Escalations(Model):
    count: StrictInt = Field(default=3, ge=1, le=1000)
    per: Duration = timedelta(hours=1)


class Trip(Model):
    unhealthy_ratio: Share = "30%"
    min_nodes: StrictInt = Field(default=3, ge=1)
    """Fewer unhealthy nodes than this never open the breaker."""
    new_faults_per10m: Share = Field(default="10%", alias="newFaultsPer10m")
    escalations: Escalations = Field(default_factory=Escalations)


Cause = Literal["componentRevision", "kernel", "image"]


class CommonCause(Model):
    """Faults that share a cause no reboot cures: hold, pause the set, tell people."""

    group_by: list[Cause] = Field(
        default_factory=lambda: list[Cause](("componentRevision", "kernel", "image")),
        min_length=1,
        max_length=3,
    )
    min_faults: StrictInt = Field(default=5, ge=2)
    lift: StrictFloat = Field(default=5, gt=1)
    """How many times more often nodes with the cause fail than nodes without it."""
    within: Duration = timedelta(hours=1)


class Resume(Model):
    start: StrictInt = Field(default=1, ge=1)
    factor: StrictInt = Field(default=2, ge=2, le=10)
    every: Duration = timedelta(minutes=5)


class Breaker(Model):
    """Stops acts in a scope when too much is wrong at once."""

    scopes: list[BreakerScope] = Field(
        default_factory=lambda: [
            BreakerScope(scope="Cluster"),
            BreakerScope(scope="Label", label="topology.kubernetes.io/zone"),
        ],
        min_length=1,
        max_length=8,
    )
    """Where the breaker is kept: for the cluster, and for each value of a label.

    From wide to narrow: nodes of an open scope leave those that stand before it."""
    trip: Trip = Field(default_factory=Trip)
    common_cause: CommonCause = Field(default_factory=CommonCause)
    open: Duration = timedelta(minutes=10)
    """At least this long; half-open only when the ratio was below half of `trip` for 5m."""
    resume: Resume = Field(default_factory=Resume)
    reserved: StrictInt = Field(default=1, ge=0, le=100)
    """Slots for another faultClass with proof from a provider, BMC or probe."""


class Workload(Model):
    max_displaced_pending: StrictInt = Field(default=50, ge=0)
    """Pending pods that we displaced; more stop new acts."""
    respect_pdb: StrictBool = Field(default=True, alias="respectPDB")


class Window(TimeWindow):
    """When acts of these operations may start. Several windows of an operation are their union.

    What was granted goes on after it closes; a stronger class for it is a new start and waits.
    """

    for_: list[Operation] | None = Field(default=None, alias="for", min_length=1, max_length=6)
    """The operations that wait for the window. Default: all."""


class Pause(Model):
    """A person's stop."""

    scope: Literal["Cluster", "Label", "Node"] = "Cluster"
    label: str | None = Field(default=None, min_length=1, max_length=317)
    value: str | None = Field(default=None, max_length=253)
    until: Time | None = None
    """Absent: until resumed."""
    by: str = Field(default="", max_length=256)
    why: str = Field(default="", max_length=1024)
    now: StrictBool = False
    """Also revoke the permits there whose jobs have done nothing irreversible yet."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "self.scope != 'Label' || has(self.label)",
            "scope Label needs `label`, the key whose value is paused",
        ),
        CelRule(
            "self.scope == 'Cluster' || (has(self.value) && size(self.value) > 0)",
            "would pause nothing: write the label's value or the node's name",
            "value",
        ),
    )

    @model_validator(mode="after")
    def _names_what_is_paused(self) -> "Pause":
        label, value = self.cel
        if self.scope == "Label" and self.label is None:
            raise label.broken()
        if self.scope != "Cluster" and not self.value:
            raise value.broken()
        return self


class GuardMode(StrEnum):
    OFF = "Off"
    AUDIT = "Audit"
    ENFORCE = "Enforce"


Group = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class Guard(Model):
    """What the admission webhook does about acts of others."""

    deletions: GuardMode = GuardMode.AUDIT
    cordons: GuardMode = GuardMode.OFF
    evictions: GuardMode = GuardMode.OFF
    override_groups: list[Group] = Field(default_factory=lambda: ["system:masters"], max_length=16)


class DefenderPolicySpec(Model):
    """Which operations on which nodes, and the limits on them."""

    operations: list[Operation] = Field(
        default_factory=lambda: list(Operation), min_length=1, max_length=6
    )
    nodes: NodeSelection
    limits: list[Limit] = Field(default_factory=list, max_length=32)
    per_node: PerNode = Field(default_factory=PerNode)
    small_pool: SmallPool = Field(default_factory=SmallPool)
    breaker: Breaker = Field(default_factory=Breaker)
    workload: Workload = Field(default_factory=Workload)
    windows: list[Window] = Field(default_factory=list, max_length=32)
    pauses: list[Pause] = Field(default_factory=list, max_length=32)
    guard: Guard = Field(default_factory=Guard)
    exclude: LabelSelector | None = None
    """Nodes that nobody may disrupt through Kube Defender."""
    acknowledge_unlimited: StrictBool = False
    """Set by a person who wants a policy without limits."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "size(self.limits) > 0 || self.acknowledgeUnlimited",
            "empty and would allow everything: write limits or `acknowledgeUnlimited: true`",
            "limits",
        ),
        NOT_EXCLUDING_EVERY_NODE,
    )

    @model_validator(mode="after")
    def _not_unlimited_by_accident(self) -> "DefenderPolicySpec":
        if not self.limits and not self.acknowledge_unlimited:
            raise self.cel[0].broken()
        if self.exclude is not None and self.exclude.empty:
            raise NOT_EXCLUDING_EVERY_NODE.broken()
        return self


class BreakerState(StrEnum):
    CLOSED = "Closed"
    OPEN = "Open"
    HALF_OPEN = "HalfOpen"


class BreakerStatus(Model):
    scope: str = Field(max_length=640)
    state: BreakerState
    since: Time
    why: str = Field(default="", max_length=1024)


class BreakerChange(BreakerStatus):
    """A breaker came to this state; the same scope has one for each time."""


class Decisions(Model):
    granted: StrictInt = Field(default=0, ge=0)
    refused: StrictInt = Field(default=0, ge=0)


class DefenderPolicyStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    healthy: StrictInt = Field(default=0, ge=0)
    unhealthy: StrictInt = Field(default=0, ge=0)
    permits: StrictInt = Field(default=0, ge=0)
    breaker: list[BreakerStatus] = Field(default_factory=list, max_length=64)
    """Breakers that are not closed, the latest change first."""
    breaker_history: list[BreakerChange] = Field(default_factory=list, max_length=64)
    """What the breakers did, oldest first."""
    decisions: Decisions = Field(default_factory=Decisions)
    missed_deadline: StrictInt = Field(default=0, ge=0)
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class DefenderPolicy(Resource):
    """Limits on disrupting nodes. Several may apply to a node; the tightest decides."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["DefenderPolicy"] = "DefenderPolicy"
    metadata: ObjectMeta
    spec: DefenderPolicySpec
    status: DefenderPolicyStatus = Field(default_factory=DefenderPolicyStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="DefenderPolicy",
        plural="defenderpolicies",
        short_name="kndp",
        columns=(
            PrinterColumn("Healthy", ".status.healthy", "integer"),
            PrinterColumn("Unhealthy", ".status.unhealthy", "integer"),
            PrinterColumn("Permits", ".status.permits", "integer"),
            PrinterColumn("Refused", ".status.decisions.refused", "integer", 1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )


def default_policy() -> DefenderPolicy:
    """What holds where nobody wrote a policy."""
    zone, rack, pool = "topology.kubernetes.io/zone", "kubenode.io/rack", "kubenode.io/pool"
    hour = timedelta(hours=1)
    return DefenderPolicy(
        metadata=ObjectMeta(name="default"),
        spec=DefenderPolicySpec(
            nodes=NodeSelection(all=True),
            limits=[
                Limit(
                    scope=LimitScope.CLUSTER,
                    max_concurrent="2%",
                    min_healthy="80%",
                    rate=Rate(count=60, per=hour, burst=5),
                ),
                Limit(scope=LimitScope.LABEL, label=zone, max_concurrent="2%", min_healthy="60%"),
                Limit(scope=LimitScope.LABEL, label=rack, max_concurrent=1),
                Limit(scope=LimitScope.LABEL, label=pool, max_concurrent="10%", min_healthy=2),
                Limit(scope=LimitScope.CONTROL_PLANE, max_concurrent=1, others_healthy=True),
                Limit(
                    scope=LimitScope.CLUSTER,
                    classes=[Disruption.HOST],
                    max_concurrent="5%",
                    rate=Rate(count=300, per=hour, burst=20),
                ),
            ],
            exclude=LabelSelector(match_labels={"kubenode.io/hands-off": "true"}),
        ),
    )
