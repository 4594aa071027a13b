"""NodeRecord: history of one node that later decisions depend on."""

from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.duration import Duration
from kubenode.api.meta import ObjectMeta, Time
from kubenode.api.v1alpha1.ladder import Disruption
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase

REMEMBERED = timedelta(days=30)
"""Retention of attempts, cooldowns, relapses, and Events of windows longer than a day."""
MOST_JOBS = 256
"""Maximum number of closed jobs kept per node."""
MOST_RULES = 512
"""Maximum number of rules in DryRun with results kept per node."""
MOST_PAST_EVENTS = 128
"""Maximum number of Events kept per node for windows longer than a day. Older ones are merged."""
MOST_RECENT = 16
"""Maximum number of individual results kept per rule in DryRun. `count` includes all results."""


class ClosedJob(Model):
    """Closed job, with the data that later decisions depend on."""

    name: str = Field(max_length=253)
    """Name of the job."""
    remedier: str = Field(default="", max_length=253)
    """Name of the NodeRemedier."""
    generation: StrictInt = Field(default=0, ge=0)
    """Generation of the NodeRemedier."""
    fault_class: str = Field(default="unknown", max_length=63)
    """Class of the fault."""
    phase: JobPhase
    """Final phase of the job."""
    reason: str = Field(default="", max_length=64)
    """Reason of the condition Closing of the job."""
    created: Time
    """Creation time of the job."""
    closed: Time
    """Time at which the job closed."""
    acted: StrictBool = False
    """Whether a step of class Host or higher ran."""
    acted_at: Time | None = None
    """Time at which the last such step ended, or started."""
    rung: StrictInt = Field(default=0, ge=0)
    """Index of the last rung that the job reached."""
    probation: Duration = timedelta(0)
    """Time after the success in which the same fault is a relapse."""
    events_until: Time | None = None
    """Timestamp of the newest Event in its evidence."""
    false_since: Time | None = None
    """Time since which its evidence is known to be false."""
    evidence: str = Field(default="", max_length=65536)
    """`when` of the rule as JSON, kept while no other job may follow. Otherwise empty."""


class WouldHave(Model):
    """Repair that a rule in DryRun would have started."""

    at: Time
    """Time at which the repair would have started."""
    first_true: Time
    """Time at which the evidence became true."""
    class_: Disruption = Field(default=Disruption.NONE, alias="class")
    """Disruption class of the repair."""
    rung: str = Field(default="", max_length=63)
    """Name of the rung that would have run."""
    steps: str = Field(default="", max_length=256)
    """Steps of this rung, in order."""
    said: str = Field(default="", max_length=256)
    """Verdict that Kube Defender would have given."""


class DryRunEvidence(Model):
    """What a version of a rule in DryRun would have done on the node, as evidence for Enforce."""

    generation: StrictInt = Field(ge=0)
    """Generation of the NodeRemedier."""
    firings: StrictInt = Field(default=0, ge=0)
    """Number of repairs that this version would have started."""
    recovered_alone: StrictInt = Field(default=0, ge=0)
    """Number of its incidents that ended although nobody acted on the node."""
    conflict: str = Field(default="", max_length=253)
    """Name of another rule that matched during one of its incidents and would disturb the node."""


class DryRunResults(Model):
    """Results of a rule in DryRun: the number of all, and details of the most recent ones."""

    remedier: str = Field(max_length=253)
    """Name of the NodeRemedier."""
    fault_class: str = Field(default="unknown", max_length=63)
    """Class of the fault."""
    count: StrictInt = Field(default=0, ge=0)
    """Number of repairs that the rule would have started."""
    first: Time
    """Time of the first one."""
    false_since: Time | None = None
    """Time since which its evidence is known to be false. Absent while the last incident lasts."""
    recent: list[WouldHave] = Field(default_factory=list, max_length=MOST_RECENT)
    """Most recent results."""
    evidence: DryRunEvidence | None = None
    """Results of the version that is in DryRun, as evidence for Enforce."""


class PastEvents(Model):
    """Occurrences of an Event that a rule counts in a window longer than a day."""

    reason: str = Field(default="", max_length=1024)
    """Reason of the Event."""
    message: str = Field(default="", max_length=1024)
    """Message of the Event."""
    source: str = Field(default="", max_length=253)
    """Component that reported the Event."""
    severity: str = Field(default="", max_length=63)
    """Type of the Event."""
    count: StrictInt = Field(ge=1)
    """Number of occurrences."""
    at: Time
    """Time of the last occurrence."""
    first: Time | None = None
    """Lower bound on the time of the first occurrence. If absent, all occurred at `at`."""
    forgotten: StrictBool = False
    """Whether reason, message and source were dropped for lack of space."""


class CountedEvent(Model):
    """Event object whose occurrences were counted. Identifies the occurrences that are new."""

    uid: str = Field(max_length=128)
    """UID of the Event."""
    count: StrictInt = Field(ge=0)
    """Number of occurrences that were counted."""
    at: Time
    """Time of the last occurrence."""


class EventMemory(Model):
    """Events of the node, kept longer than their objects, which the API server deletes after an
    hour."""

    events: list[PastEvents] = Field(default_factory=list, max_length=MOST_PAST_EVENTS + 1)
    """Occurrences by Event."""
    counted: list[CountedEvent] = Field(default_factory=list, max_length=MOST_PAST_EVENTS)
    """Event objects whose occurrences were counted."""
    dropped: Time | None = None
    """Time of the newest Event that is no longer in `counted`."""


class NodeRecordSpec(Model):
    """History of the node, written only by the Remedy operator. Deleting it resets the history."""

    node_uid: str = Field(default="", alias="nodeUID", max_length=128)
    """UID of the Node. A Node with another UID starts a new history."""
    jobs: list[ClosedJob] = Field(default_factory=list, max_length=MOST_JOBS)
    """Closed jobs."""
    dry_runs: list[DryRunResults] = Field(default_factory=list, max_length=MOST_RULES)
    """Results of rules in DryRun."""
    past_events: EventMemory | None = None
    """Events for windows longer than a day."""


class NodeRecord(Resource):
    """Bounded history of one node. It has the name of the node and is deleted with it."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["NodeRecord"] = "NodeRecord"
    metadata: ObjectMeta
    spec: NodeRecordSpec = Field(default_factory=NodeRecordSpec)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="NodeRecord",
        plural="noderecords",
        short_name="knr",
        columns=(
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
            PrinterColumn("Node UID", ".spec.nodeUID", priority=1),
        ),
    )
