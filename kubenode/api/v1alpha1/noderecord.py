"""NodeRecord: what later decisions about one node need to know of what was decided before."""

from datetime import timedelta
from typing import ClassVar, Literal

from pydantic import Field, StrictBool, StrictInt

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.duration import Duration
from kubenode.api.meta import ObjectMeta, Time
from kubenode.api.v1alpha1.ladder import Disruption
from kubenode.api.v1alpha1.remedyoperationjob import JobPhase

REMEMBERED = timedelta(days=30)
"""For so long attempts, cooldowns, relapses and Events of windows of over a day are remembered."""
MOST_JOBS = 256
"""Closed jobs of one node that are remembered at most."""
MOST_RULES = 512
"""Rules in DryRun whose results are remembered of one node."""
MOST_PAST_EVENTS = 128
"""Events of one node that are remembered for windows of over a day; older ones are merged."""
MOST_RECENT = 16
"""Results of one rule in DryRun that are remembered one by one; all are counted."""


class ClosedJob(Model):
    """A job that is over, as far as it counts for later decisions."""

    name: str = Field(max_length=253)
    remedier: str = Field(default="", max_length=253)
    generation: StrictInt = Field(default=0, ge=0)
    fault_class: str = Field(default="unknown", max_length=63)
    phase: JobPhase
    reason: str = Field(default="", max_length=64)
    """Why it closed: the reason of its condition Closing."""
    created: Time
    closed: Time
    acted: StrictBool = False
    """Whether a step of class Host or more ran."""
    acted_at: Time | None = None
    rung: StrictInt = Field(default=0, ge=0)
    """The last rung that it reached."""
    probation: Duration = timedelta(0)
    events_until: Time | None = None
    """Stamp of the youngest Event that its evidence was made of."""
    false_since: Time | None = None
    """Since when its evidence has been known false."""
    evidence: str = Field(default="", max_length=65536)
    """The rule's `when` as JSON, kept while no other job may follow; "" otherwise."""


class WouldHave(Model):
    """One repair that a rule in DryRun would have begun."""

    at: Time
    first_true: Time
    class_: Disruption = Field(default=Disruption.NONE, alias="class")
    rung: str = Field(default="", max_length=63)
    steps: str = Field(default="", max_length=256)
    """The steps of this rung, in order."""
    said: str = Field(default="", max_length=256)
    """What Kube Defender would have answered."""


class DryRunResults(Model):
    """What a rule in DryRun would have done: all counted, the last ones in full."""

    remedier: str = Field(max_length=253)
    fault_class: str = Field(default="unknown", max_length=63)
    count: StrictInt = Field(default=0, ge=0)
    first: Time
    false_since: Time | None = None
    """Since when its evidence has been known false; absent while the last incident lasts."""
    recent: list[WouldHave] = Field(default_factory=list, max_length=MOST_RECENT)


class PastEvents(Model):
    """Occurrences of an Event that a rule counts in a window of over a day."""

    reason: str = Field(default="", max_length=1024)
    message: str = Field(default="", max_length=1024)
    source: str = Field(default="", max_length=253)
    severity: str = Field(default="", max_length=63)
    count: StrictInt = Field(ge=1)
    at: Time
    """The last of them."""
    first: Time | None = None
    """None of them was before it; absent: all were at `at`."""
    forgotten: StrictBool = False
    """There was no room to remember which Events these were."""


class CountedEvent(Model):
    """An Event, whose later occurrences are told from those that are counted."""

    uid: str = Field(max_length=128)
    count: StrictInt = Field(ge=0)
    at: Time


class EventMemory(Model):
    """Events of the node that outlive their objects, which the API server deletes after an hour."""

    events: list[PastEvents] = Field(default_factory=list, max_length=MOST_PAST_EVENTS + 1)
    counted: list[CountedEvent] = Field(default_factory=list, max_length=MOST_PAST_EVENTS)
    dropped: Time | None = None
    """The latest time of an Event that is no longer in `counted`."""


class NodeRecordSpec(Model):
    """Written by the Remedy operator alone. Deleting it makes KubeNode forget the node's past."""

    node_uid: str = Field(default="", alias="nodeUID", max_length=128)
    """Of the machine that it is about; another one under the same name starts anew."""
    jobs: list[ClosedJob] = Field(default_factory=list, max_length=MOST_JOBS)
    dry_runs: list[DryRunResults] = Field(default_factory=list, max_length=MOST_RULES)
    past_events: EventMemory | None = None


class NodeRecord(Resource):
    """The bounded memory of one node; it has the node's name and goes with it."""

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
