"""NodeRemedier: a repair rule, or a rule that infers a fact."""

from collections.abc import Iterator
from datetime import timedelta
from enum import StrEnum
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints, field_validator, model_validator

from kubenode.api.base import API_VERSION, CelRule, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.duration import Duration
from kubenode.api.meta import Condition, NodeSelection, ObjectMeta, Time
from kubenode.api.v1alpha1.ladder import Disruption, Rung
from kubenode.api.v1alpha1.leaves import Expression, Leaf, Scalar, shallow
from kubenode.api.v1alpha1.window import TimeWindow


class Mode(StrEnum):
    ENFORCE = "Enforce"
    APPROVE = "Approve"
    DRY_RUN = "DryRun"
    OFF = "Off"


class Severity(StrEnum):
    CRITICAL = "Critical"
    WARNING = "Warning"
    INFO = "Info"


class OnGiveUp(StrEnum):
    HOLD = "Hold"
    RELEASE = "Release"


class Scope(StrEnum):
    NODE = "Node"
    RACK = "Rack"
    ZONE = "Zone"
    POOL = "Pool"
    VM_HOST = "VMHost"
    CLUSTER = "Cluster"
    KERNEL = "Kernel"
    IMAGE = "Image"
    COMPONENT_REVISION = "ComponentRevision"


GroupScope = Literal[
    Scope.RACK, Scope.ZONE, Scope.POOL, Scope.VM_HOST, Scope.CLUSTER, Scope.KERNEL, Scope.IMAGE,
    Scope.COMPONENT_REVISION,
]  # fmt: skip
"""Scopes that hold several nodes."""


class Relapse(Model):
    """Recurrence of a fault on a node. The next job starts one rung above the last one that ran."""

    within: Duration = timedelta(hours=24)
    """Maximum time since the last job closed."""


class Attempts(Model):
    """Maximum number of jobs of the rule per node before a person must decide."""

    max: StrictInt = Field(default=3, ge=1, le=100)
    """Maximum number of jobs."""
    within: Duration = timedelta(hours=24)
    """Length of the sliding period."""


class OncePerGroup(Model):
    """One job at a time for each group of nodes. A node without the group has its own jobs."""

    per: GroupScope
    """Kind of group."""
    within: Duration = timedelta(hours=4)
    """Time since the creation of a closed job for which no other node of the group gets one, while
    the fault lasts on the node of that job."""


class Infer(Model):
    """Fact that holds while the rule matches and for a time afterwards."""

    fact: str = Field(
        min_length=3, max_length=128, pattern=r"^[a-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)+$"
    )
    """Name of the fact."""
    scope: Scope = Scope.NODE
    """Scope for which the fact holds."""
    value: Scalar = True
    """Value of the fact."""
    for_: Duration = Field(default=timedelta(0), alias="for")
    """Time for which the fact holds after its evidence ends."""


Receiver = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class NodeRemedierSpec(Model):
    """Rule: nodes, evidence and repair."""

    mode: Mode
    """Mode of the rule. Enforce: repair. Approve: repair after approval of each job. DryRun:
    evaluate and count only. Off: disable."""
    priority: StrictInt = Field(default=500, ge=0, le=1000)
    """Priority. Of several matching rules, the highest applies."""
    severity: Severity = Severity.WARNING
    """Severity. Decides the place in the queue of Kube Defender and in notifications."""
    fault_class: str = Field(
        default="unknown", min_length=1, max_length=63, pattern=r"^[a-z][a-z0-9_]*$"
    )
    """Class of the fault, for analysis, relapses and comparison of faults."""
    nodes: NodeSelection
    """Nodes that the rule applies to."""
    when: Expression
    """Evidence of the fault. Its end proves the repair."""
    unless: Expression | None = None
    """Guards, evaluated before the job, the permit and each disruptive step. Not part of the proof.
    """
    window: TimeWindow | None = None
    """Window in which jobs and their rungs may begin. What has begun continues after it closes."""
    group_wait: Duration = timedelta(seconds=10)
    """Time for which a new job waits for a rule with a higher priority to match."""
    startup_grace: Duration = timedelta(minutes=5)
    """Minimum time since the creation and the last boot of the node before the job starts."""
    cooldown: Duration = timedelta(minutes=30)
    """Minimum time between jobs of the rule on a node, after a step of class Host or higher ran."""
    relapse: Relapse = Field(default_factory=Relapse)
    """Start on a higher rung if the fault recurs."""
    attempts: Attempts = Field(default_factory=Attempts)
    """Maximum number of jobs per node."""
    once: OncePerGroup | None = None
    """At most one job per group of nodes instead of one per node."""
    on_give_up: OnGiveUp = OnGiveUp.HOLD
    """Action when all rungs or attempts are used.

    Hold: keep the cordon, release the permit and notify people. Release: also remove the cordon.
    """
    ladder: list[Rung] | None = Field(default=None, min_length=1, max_length=8)
    """Rungs, tried in order until the fault is proven gone."""
    infer: Infer | None = None
    """Fact to infer, instead of a ladder."""
    notify: list[Receiver] = Field(default_factory=list, max_length=16)
    """Names of receivers in the settings of the operator."""

    defaulted_in_python: ClassVar[tuple[str, ...]] = ("mode",)
    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "has(self.mode) || has(self.infer)",
            "required: write Enforce, Approve, DryRun or Off",
            "mode",
        ),
        CelRule(
            "has(self.ladder) != has(self.infer)",
            "says not what to do, or says it twice: write either a ladder or infer",
        ),
        CelRule(
            "!has(self.ladder) || self.ladder.all(r, self.ladder.exists_one(o, o.name == r.name))",
            "two rungs have one name: give each its own",
            "ladder",
        ),
    )
    _shallow = field_validator("when", "unless")(shallow())

    @model_validator(mode="before")
    @classmethod
    def _infer_needs_no_mode(cls, data: Any) -> Any:
        """Set the mode of a rule that infers to Enforce if absent, because such a rule does not
        act."""
        if isinstance(data, dict) and data.get("infer") is not None and data.get("mode") is None:
            return {**data, "mode": Mode.ENFORCE}
        return data

    @model_validator(mode="after")
    def _ladder_or_infer(self) -> "NodeRemedierSpec":
        _, either, names_differ = self.cel
        if (self.ladder is None) == (self.infer is None):
            raise either.broken()
        names = [rung.name for rung in self.ladder or ()]
        if len(set(names)) < len(names):
            raise names_differ.broken()
        return self

    def unwrap_leaves(self) -> Iterator[Leaf]:
        """Yield the leaves of evidence and guards. For an absence, yield the leaf that must be
        absent."""
        yield from self.when.unwrap_leaves()
        if self.unless is not None:
            yield from self.unless.unwrap_leaves()

    @property
    def disruption_class(self) -> Disruption:
        """Return the highest disruption class of the rule. None for a rule that infers."""
        classes = (r.disruption_class for r in self.ladder or ())
        return max(classes, key=lambda d: d.weight, default=Disruption.NONE)


class RemedierPhase(StrEnum):
    ACTIVE = "Active"
    REJECTED = "Rejected"
    QUARANTINED = "Quarantined"
    OFF = "Off"


class WouldReach(Model):
    """Number of nodes that the rule selects and that can be replaced, as of its admission."""

    nodes: StrictInt = Field(default=0, ge=0)
    """Number of selected nodes."""
    with_replace_path: StrictInt = Field(default=0, ge=0)
    """Number of selected nodes that can be replaced."""


class JobCounts(Model):
    """Number of jobs by state."""

    running: StrictInt = Field(default=0, ge=0)
    """Number of open jobs."""
    succeeded: StrictInt = Field(default=0, ge=0)
    """Number of jobs in phase Succeeded."""
    failed: StrictInt = Field(default=0, ge=0)
    """Number of jobs in phase Failed."""
    cancelled: StrictInt = Field(default=0, ge=0)
    """Number of jobs in phase Cancelled."""
    needs_human: StrictInt = Field(default=0, ge=0)
    """Number of jobs in phase NeedsHuman."""
    relapsed: StrictInt = Field(default=0, ge=0)
    """Number of jobs for a relapse."""


class InferredFact(Model):
    """Fact of a group wider than a node, inferred by a rule with `infer` and `for`."""

    group: str = Field(default="", max_length=253)
    """Value of the group, such as the name of a rack. Empty for the cluster."""
    value: Scalar = True
    """Value of the fact."""
    until: Time | None = None
    """Time until which the fact holds after its evidence ended. Absent while the evidence is true.
    """
    nodes: list[Annotated[str, StringConstraints(max_length=253)]] = Field(
        default_factory=list, max_length=8
    )
    """Names of the first nodes with the evidence, at most eight."""


MOST_EVIDENCE_NODES = 20
"""Maximum number of node names in the evidence of a rule."""
MOST_FIRINGS = 1_000_000_000
"""Bound on the numbers of the evidence, so that the API server can store their sums."""


class DryRunStatus(Model):
    """Evidence of a version of the rule in DryRun. Its numbers never fall.

    An interruption of up to an hour counts as observed; a longer one begins the time anew.
    """

    generation: StrictInt = Field(ge=0)
    """Generation of the rule that the evidence is about."""
    since: Time
    """Time since which this version has been evaluated in DryRun."""
    until: Time
    """Time until which it has been evaluated. Written rarely."""
    firings: StrictInt = Field(default=0, ge=0, le=MOST_FIRINGS)
    """Number of repairs that it would have started."""
    nodes: StrictInt = Field(default=0, ge=0, le=MOST_FIRINGS)
    """Number of nodes on which it would have started one."""
    recovered_alone: StrictInt = Field(default=0, ge=0, le=MOST_FIRINGS)
    """Number of these nodes that recovered although nobody acted on them."""
    conflicts: StrictInt = Field(default=0, ge=0, le=MOST_FIRINGS)
    """Number of these nodes that another rule would have disturbed too."""
    node_names: list[Annotated[str, StringConstraints(max_length=253)]] = Field(
        default_factory=list, max_length=MOST_EVIDENCE_NODES
    )
    """Names of nodes that recovered alone, then of those with conflicts."""


class NodeRemedierStatus(Model):
    """Observed state of the rule."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    phase: RemedierPhase | None = None
    """Phase of the rule."""
    matching: StrictInt | None = Field(default=None, ge=0)
    """Number of nodes that match now, before guards and limits."""
    would_reach: WouldReach | None = None
    """Number of nodes that the rule selects."""
    jobs: JobCounts | None = None
    """Number of jobs by state."""
    last_match_time: Time | None = None
    """Time of the last match."""
    dry_run: DryRunStatus | None = None
    """Evidence of the version that is in DryRun. Absent in other modes."""
    compiled_hash: str | None = Field(default=None, max_length=128)
    """Hash of the last valid version of the rule, which is loaded."""
    inferred: list[InferredFact] = Field(default_factory=list, max_length=64)
    """Inferred facts that must survive a restart of the operator. Written when they change."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the rule."""


class NodeRemedier(Resource):
    """Repair rule: nodes, evidence and a ladder of repairs."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["NodeRemedier"] = "NodeRemedier"
    metadata: ObjectMeta
    spec: NodeRemedierSpec
    status: NodeRemedierStatus = Field(default_factory=NodeRemedierStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="NodeRemedier",
        plural="noderemediers",
        short_name="knrm",
        columns=(
            PrinterColumn("Mode", ".spec.mode"),
            PrinterColumn("Priority", ".spec.priority", "integer"),
            PrinterColumn("Phase", ".status.phase"),
            PrinterColumn("Matching", ".status.matching", "integer"),
            PrinterColumn("Running", ".status.jobs.running", "integer"),
            PrinterColumn("Succeeded", ".status.jobs.succeeded", "integer", 1),
            PrinterColumn("Failed", ".status.jobs.failed", "integer", 1),
            PrinterColumn("Fault", ".spec.faultClass", priority=1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
