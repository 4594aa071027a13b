"""DefenderPolicy: limits on the disruption of nodes."""

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
    """Set of nodes or clusters that share one limit."""

    CLUSTER = "Cluster"
    LABEL = "Label"
    CONTROL_PLANE = "ControlPlane"
    FLEET = "Fleet"


class Rate(Model):
    """Token bucket that grants `count` permits per `per`, and at most `burst` at once."""

    count: StrictInt = Field(ge=1, le=100_000)
    """Number of permits granted in each period `per`."""
    per: Duration
    """Length of the period."""
    burst: StrictInt = Field(default=1, ge=1, le=100_000)
    """Maximum number of permits granted at once."""


LABEL_OF_SCOPE = CelRule(
    "(self.scope == 'Label') == has(self.label)",
    "scope Label needs `label`, and no other scope takes it",
)


LIMIT_KINDS = {
    "max_concurrent": "maxConcurrent",
    "max_per_client": "maxPerClient",
    "min_healthy": "minHealthy",
    "rate": "rate",
}
"""Fields of a Limit that limit something, with their names in the CRD."""
*_FIRST_KINDS, _LAST_KIND = LIMIT_KINDS.values()
LIMITS_SOMETHING = CelRule(
    " || ".join(f"has(self.{name})" for name in LIMIT_KINDS.values()),
    f"limits nothing: write {', '.join(_FIRST_KINDS)} or {_LAST_KIND}",
)


class Limit(Model):
    """Limit on permits in a scope. All limits apply; the strictest one decides."""

    scope: LimitScope
    """Scope in which the limit counts."""
    label: str | None = Field(default=None, min_length=1, max_length=317)
    """Node label for scope Label. Nodes with the same value share the limit; nodes without the
    label are not limited."""
    group: str | None = Field(default=None, min_length=1, max_length=63)
    """Name of the group for scope Fleet. All clusters of the group share the limit."""
    classes: list[Disruption] | None = Field(default=None, min_length=1, max_length=4)
    """Disruption classes that the limit applies to. Defaults to Pods and Node."""
    max_concurrent: Share | None = None
    """Maximum number of permits held at once. Percentages round down to at least 1."""
    max_per_client: StrictInt | None = Field(default=None, ge=0, le=100_000)
    """Maximum number of permits held at once by one client, a user that is none of KubeNode's own
    programs. Not for scope Fleet."""
    min_healthy: Share | None = None
    """Minimum number of nodes that must stay healthy. Percentages round down."""
    rate: Rate | None = None
    """Maximum rate at which permits are granted."""
    others_healthy: StrictBool = False
    """For scope ControlPlane: whether every other control plane node must be healthy."""
    on_unreachable: Literal["LocalShare", "Closed"] | None = None
    """For scope Fleet: limit that applies while the shared store is unreachable."""

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
            "self.scope != 'Fleet' || !has(self.maxPerClient)",
            "scope Fleet does not take `maxPerClient`: leave it out",
            "maxPerClient",
        ),
        LIMITS_SOMETHING,
    )

    @model_validator(mode="after")
    def _limits_something(self) -> "Limit":
        label, group, unreachable, others, client, something = self.cel
        if (self.scope is LimitScope.LABEL) != (self.label is not None):
            raise label.broken()
        if (self.scope is LimitScope.FLEET) != (self.group is not None):
            raise group.broken()
        if self.scope is not LimitScope.FLEET and self.on_unreachable is not None:
            raise unreachable.broken()
        if self.scope is not LimitScope.CONTROL_PLANE and self.others_healthy:
            raise others.broken()
        if self.scope is LimitScope.FLEET and self.max_per_client is not None:
            raise client.broken()
        if all(getattr(self, name) is None for name in LIMIT_KINDS):
            raise something.broken()
        return self


class PerNode(Model):
    """Maximum number of disruptions of one node, across all rules."""

    max_acts: StrictInt = Field(default=3, ge=1, le=1000)
    """Maximum number of disruptions within the period. All permits of a job count once."""
    within: Duration = timedelta(hours=24)
    """Length of the sliding period."""


class SmallPool(Model):
    """Small pools, where ratios do not apply: one node at a time, while all others are healthy."""

    nodes: StrictInt = Field(default=5, ge=0, le=100)
    """Maximum number of nodes of a small pool."""


class BreakerScope(Model):
    """Nodes that one circuit breaker counts together."""

    scope: Literal["Cluster", "Label"]
    """Whether the breaker covers the cluster or the nodes with the same value of a label."""
    label: str | None = Field(default=None, min_length=1, max_length=317)
    """Node label for scope Label. Each value has its own breaker."""

    cel: ClassVar[tuple[CelRule, ...]] = (LABEL_OF_SCOPE,)

    @model_validator(mode="after")
    def _label_fits(self) -> "BreakerScope":
        if (self.scope == "Label") != (self.label is not None):
            raise LABEL_OF_SCOPE.broken()
        return self


class Escalations(Model):
    """Jobs of one rule that escalate to the same rung."""

    count: StrictInt = Field(default=3, ge=1, le=1000)
    """Number of escalations that opens the breaker."""
    per: Duration = timedelta(hours=1)
    """Length of the sliding period."""


class Trip(Model):
    """Thresholds at which the breaker opens. One of them is sufficient."""

    unhealthy_ratio: Share = "30%"
    """Number or percentage of unhealthy nodes that opens the breaker."""
    min_nodes: StrictInt = Field(default=3, ge=1)
    """Minimum for all thresholds. Lower counts never open the breaker."""
    new_faults_per10m: Share = Field(default="10%", alias="newFaultsPer10m")
    """Number or percentage of nodes with a new fault within 10 minutes."""
    escalations: Escalations = Field(default_factory=Escalations)
    """Number of escalations within a period."""


Cause = Literal["componentRevision", "kernel", "image"]


class CommonCause(Model):
    """Common cause of faults, which no reboot fixes. Holds acts, pauses the component set and
    notifies people."""

    group_by: list[Cause] = Field(
        default_factory=lambda: list[Cause](("componentRevision", "kernel", "image")),
        min_length=1,
        max_length=3,
    )
    """Node properties that are compared."""
    min_faults: StrictInt = Field(default=5, ge=2)
    """Minimum number of faults that share the cause."""
    lift: StrictFloat = Field(default=5, gt=1)
    """Minimum ratio of the fault rate of nodes with the property to that of nodes without it."""
    within: Duration = timedelta(hours=1)
    """Length of the period in which faults count."""


class Resume(Model):
    """Number of permits while the breaker is half-open. The number grows in steps."""

    start: StrictInt = Field(default=1, ge=1)
    """Initial number of permits."""
    factor: StrictInt = Field(default=2, ge=2, le=10)
    """Factor by which the number grows in each step."""
    every: Duration = timedelta(minutes=5)
    """Length of one step."""


class Breaker(Model):
    """Circuit breaker that stops acts in a scope while too many nodes have faults."""

    scopes: list[BreakerScope] = Field(
        default_factory=lambda: [
            BreakerScope(scope="Cluster"),
            BreakerScope(scope="Label", label="topology.kubernetes.io/zone"),
        ],
        min_length=1,
        max_length=8,
    )
    """Scopes that have a breaker, from wide to narrow: the cluster, or each value of a label.

    A narrower scope that is open takes its nodes out of the counts of the scopes before it.
    """
    trip: Trip = Field(default_factory=Trip)
    """Thresholds at which the breaker opens."""
    common_cause: CommonCause = Field(default_factory=CommonCause)
    """Detection of a common cause of faults."""
    open: Duration = timedelta(minutes=10)
    """Minimum time for which the breaker stays open. It becomes half-open when the ratio has been
    below half of `trip` for 5 minutes."""
    resume: Resume = Field(default_factory=Resume)
    """Number of permits while the breaker is half-open."""
    reserved: StrictInt = Field(default=1, ge=0, le=100)
    """Number of permits that an open breaker reserves for faults of another faultClass that a
    provider, BMC or probe confirms."""


class Workload(Model):
    """Limits that protect the workload."""

    max_displaced_pending: StrictInt = Field(default=50, ge=0)
    """Maximum number of displaced pods that are pending. Above it, no act starts."""
    respect_pdb: StrictBool = Field(default=True, alias="respectPDB")
    """Whether evictions respect PodDisruptionBudgets."""


class Window(TimeWindow):
    """Time window in which acts may start. Several windows of an operation form a union.

    A granted act continues after the window closes. A higher disruption class counts as a new start
    and waits for the window.
    """

    for_: list[Operation] | None = Field(default=None, alias="for", min_length=1, max_length=6)
    """Operations that wait for the window. Defaults to all operations."""


class Pause(Model):
    """Manual stop of all acts in a scope."""

    scope: Literal["Cluster", "Label", "Node"] = "Cluster"
    """Scope of the pause."""
    label: str | None = Field(default=None, min_length=1, max_length=317)
    """Node label for scope Label."""
    value: str | None = Field(default=None, max_length=253)
    """Value of the label for scope Label, or name of the node for scope Node."""
    until: Time | None = None
    """Time at which the pause ends. If absent, the pause lasts until a person removes it."""
    by: str = Field(default="", max_length=256)
    """User who paused the scope."""
    why: str = Field(default="", max_length=1024)
    """Reason for the pause."""
    now: StrictBool = False
    """Whether to revoke permits in the scope if no irreversible step has started."""

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
    """Whether the admission webhook ignores, reports or denies an act."""

    OFF = "Off"
    AUDIT = "Audit"
    ENFORCE = "Enforce"


Group = Annotated[str, StringConstraints(min_length=1, max_length=256)]


class Guard(Model):
    """Admission webhook for acts of other clients on nodes."""

    deletions: GuardMode = GuardMode.AUDIT
    """Mode for deletions of nodes."""
    cordons: GuardMode = GuardMode.OFF
    """Mode for cordons of nodes."""
    evictions: GuardMode = GuardMode.OFF
    """Mode for evictions of pods."""
    override_groups: list[Group] = Field(default_factory=lambda: ["system:masters"], max_length=16)
    """User groups that may override a denial."""


class DefenderPolicySpec(Model):
    """Limits, and the operations and nodes that they apply to."""

    operations: list[Operation] = Field(
        default_factory=lambda: list(Operation), min_length=1, max_length=6
    )
    """Operations that the policy applies to. Defaults to all."""
    nodes: NodeSelection
    """Nodes that the policy applies to."""
    limits: list[Limit] = Field(default_factory=list, max_length=32)
    """Limits on permits."""
    per_node: PerNode = Field(default_factory=PerNode)
    """Maximum number of disruptions of one node."""
    small_pool: SmallPool = Field(default_factory=SmallPool)
    """Size up to which a pool counts as small."""
    breaker: Breaker = Field(default_factory=Breaker)
    """Circuit breaker."""
    workload: Workload = Field(default_factory=Workload)
    """Limits that protect the workload."""
    windows: list[Window] = Field(default_factory=list, max_length=32)
    """Time windows in which acts may start. If empty, acts may start at any time."""
    pauses: list[Pause] = Field(default_factory=list, max_length=32)
    """Manual stops."""
    guard: Guard = Field(default_factory=Guard)
    """Admission webhook for acts of other clients."""
    exclude: LabelSelector | None = None
    """Nodes that Kube Defender grants no permit for."""
    acknowledge_unlimited: StrictBool = False
    """Confirms that the policy intentionally has no limits."""

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
    """State of a circuit breaker."""

    scope: str = Field(max_length=640)
    """Scope of the breaker, such as `cluster`."""
    state: BreakerState
    """State of the breaker."""
    since: Time
    """Time of the last change of state."""
    why: str = Field(default="", max_length=1024)
    """Human-readable reason of the last change."""


class BreakerChange(BreakerStatus):
    """State change of a circuit breaker."""


class Decisions(Model):
    """Number of verdicts."""

    granted: StrictInt = Field(default=0, ge=0)
    """Number of granted requests."""
    refused: StrictInt = Field(default=0, ge=0)
    """Number of denied requests."""


class DefenderPolicyStatus(Model):
    """Observed state of the policy."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    healthy: StrictInt = Field(default=0, ge=0)
    """Number of healthy nodes."""
    unhealthy: StrictInt = Field(default=0, ge=0)
    """Number of unhealthy nodes."""
    permits: StrictInt = Field(default=0, ge=0)
    """Number of permits that are held."""
    breaker: list[BreakerStatus] = Field(default_factory=list, max_length=64)
    """Breakers that are not closed, the most recent change first."""
    breaker_history: list[BreakerChange] = Field(default_factory=list, max_length=64)
    """State changes of the breakers, oldest first."""
    decisions: Decisions = Field(default_factory=Decisions)
    """Number of verdicts."""
    missed_deadline: StrictInt = Field(default=0, ge=0)
    """Number of planned events that started before a permit was granted."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the policy."""


class DefenderPolicy(Resource):
    """Limits on the disruption of nodes. Several policies may apply to a node; the strictest
    decides."""

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
    """Return the policy that applies if the cluster has none."""
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
