"""NodeRemedier: one repair rule, or one rule that infers a fact."""

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


class Relapse(Model):
    """The same fault on the same node again so soon: start one rung above the last one that ran."""

    within: Duration = timedelta(hours=24)


class Attempts(Model):
    """How many jobs of this rule a node may have before a person is asked."""

    max: StrictInt = Field(default=3, ge=1, le=100)
    within: Duration = timedelta(hours=24)


class Infer(Model):
    """A fact that holds while the rule matches and for a time after."""

    fact: str = Field(
        min_length=3, max_length=128, pattern=r"^[a-z][A-Za-z0-9]*(\.[A-Za-z][A-Za-z0-9]*)+$"
    )
    scope: Scope = Scope.NODE
    value: Scalar = True
    for_: Duration = Field(default=timedelta(0), alias="for")
    """Kept this long after its last evidence."""


Receiver = Annotated[str, StringConstraints(min_length=1, max_length=128)]


class NodeRemedierSpec(Model):
    """The rule: which nodes, what evidence, what to do."""

    mode: Mode
    """Enforce acts; Approve asks a person for each job; DryRun plans, never acts; Off sleeps."""
    priority: StrictInt = Field(default=500, ge=0, le=1000)
    """The highest matching rule of a node wins."""
    severity: Severity = Severity.WARNING
    """Place in Defender's queue and in notifications."""
    fault_class: str = Field(
        default="unknown", min_length=1, max_length=63, pattern=r"^[a-z][a-z0-9_]*$"
    )
    """What is wrong, one word: for analysis, relapse, and telling faults apart."""
    nodes: NodeSelection
    when: Expression
    """Evidence of the fault. Its end is the proof of the repair."""
    unless: Expression | None = None
    """Guards: read before the job, the permit and each disruptive step; never part of the proof."""
    group_wait: Duration = timedelta(seconds=10)
    """The job waits this long after the first match for a stronger rule to match too."""
    startup_grace: Duration = timedelta(minutes=5)
    """The job waits until the node's creation and its last boot are this long ago."""
    cooldown: Duration = timedelta(minutes=30)
    """After a job of this rule in which a step of class Host or more ran."""
    relapse: Relapse = Field(default_factory=Relapse)
    attempts: Attempts = Field(default_factory=Attempts)
    on_give_up: OnGiveUp = OnGiveUp.HOLD
    """When rungs or attempts are spent.

    Hold keeps our cordon, frees the permit and tells people; Release takes the cordon off."""
    ladder: list[Rung] | None = Field(default=None, min_length=1, max_length=8)
    """Rungs tried in order until the fault is proven gone."""
    infer: Infer | None = None
    """Instead of a ladder: derive a fact."""
    notify: list[Receiver] = Field(default_factory=list, max_length=16)
    """Names of receivers in the operator's settings."""

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
        """A rule that only infers acts on nothing: its mode is Enforce unless it says Off."""
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
        """What evidence and guards ask, in this order; of an absence what is to be absent."""
        yield from self.when.unwrap_leaves()
        if self.unless is not None:
            yield from self.unless.unwrap_leaves()

    @property
    def disruption_class(self) -> Disruption:
        """The strongest class that this rule can reach; None of a rule that infers."""
        classes = (r.disruption_class for r in self.ladder or ())
        return max(classes, key=lambda d: d.weight, default=Disruption.NONE)


class RemedierPhase(StrEnum):
    ACTIVE = "Active"
    REJECTED = "Rejected"
    QUARANTINED = "Quarantined"
    OFF = "Off"


class WouldReach(Model):
    """How many nodes the rule selects, and how many of them could be replaced; at admission."""

    nodes: StrictInt = Field(default=0, ge=0)
    with_replace_path: StrictInt = Field(default=0, ge=0)


class JobCounts(Model):
    running: StrictInt = Field(default=0, ge=0)
    succeeded: StrictInt = Field(default=0, ge=0)
    failed: StrictInt = Field(default=0, ge=0)
    cancelled: StrictInt = Field(default=0, ge=0)
    needs_human: StrictInt = Field(default=0, ge=0)
    relapsed: StrictInt = Field(default=0, ge=0)


class InferredFact(Model):
    """A fact that a rule with `infer` and `for` has found for a group wider than a node."""

    group: str = Field(default="", max_length=253)
    """Value of the group, such as the name of a rack; empty for the cluster."""
    value: Scalar = True
    until: Time | None = None
    """How long it is kept, now that its evidence is gone; absent while the evidence is there."""
    nodes: list[Annotated[str, StringConstraints(max_length=253)]] = Field(
        default_factory=list, max_length=8
    )
    """Where the evidence was seen first; of more nodes than eight, these."""


class NodeRemedierStatus(Model):
    observed_generation: StrictInt = Field(default=0, ge=0)
    phase: RemedierPhase | None = None
    matching: StrictInt | None = Field(default=None, ge=0)
    """Nodes matching now, before guards and limits."""
    would_reach: WouldReach | None = None
    jobs: JobCounts | None = None
    last_match_time: Time | None = None
    compiled_hash: str | None = Field(default=None, max_length=128)
    """Hash of the version of the rule that is loaded, the last good one."""
    inferred: list[InferredFact] = Field(default_factory=list, max_length=64)
    """What has to outlive a restart of the operator; written when it changes."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class NodeRemedier(Resource):
    """One repair rule: which nodes, what evidence, which ladder of repairs."""

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
