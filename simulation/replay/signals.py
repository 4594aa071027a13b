"""Signals of a timeline: one model for each thing that can happen to a node."""

from collections.abc import Mapping
from typing import Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    Field,
    StrictBool,
    StrictInt,
    StringConstraints,
    field_validator,
    model_validator,
)

from kubenode.api.base import Model, refusal
from kubenode.api.meta import ConditionStatus
from kubenode.api.v1alpha1 import Severity
from kubenode.api.v1alpha1.hostevent import HostEventClass, HostEventPhase, HostEventSource
from kubenode.api.v1alpha1.hostprobe import ProbeName
from kubenode.api.v1alpha1.leaves import Scalar
from remedy.hostdoctor.parsers import PARSERS
from rules.probes import PROBES
from simulation.replay.moments import At

Name = Annotated[str, StringConstraints(min_length=1, max_length=316)]
Text = Annotated[str, StringConstraints(max_length=1 << 20)]
Effect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class SimulatedCondition(Model):
    """A condition of the Node as its reporter writes it from now on.

    `since` is the reporter's lastTransitionTime, `heard` its lastHeartbeatTime; without them both
    are now, and `since` moves only when the status changes.
    """

    type: Name
    status: ConditionStatus = ConditionStatus.TRUE
    reason: Text = ""
    message: Text = ""
    since: At | None = None
    heard: At | None = None
    gone: StrictBool = False
    """The Node has no such condition any more."""


class SimulatedEvent(Model):
    """A Kubernetes Event of the Node, or the kubelet's about one of its pods with `aboutPod`.

    `first` is when the first of `count` occurrences was, the last is now. An Event of the same
    `uid` is the same one again, and its `count` is the whole count; without one each is its own.
    """

    reason: Name
    message: Text = ""
    source: Text = ""
    severity: Literal["Normal", "Warning"] = "Warning"
    count: StrictInt = Field(default=1, ge=1)
    first: At | None = None
    last: At | None = None
    uid: str = ""
    about_pod: StrictBool = False


class SimulatedHostEvent(Model):
    """What Host Doctor knows; the same source and id again bring the event up to date."""

    class_: HostEventClass = Field(alias="class")
    source: HostEventSource = HostEventSource.WEBHOOK
    phase: HostEventPhase = HostEventPhase.ACTIVE
    severity: Severity = Severity.WARNING
    external_id: str = Field(default="", alias="externalID", max_length=512)
    not_before: At | None = None
    not_after: At | None = None
    message: Text = ""
    attributes: dict[str, str] = Field(default_factory=dict, max_length=32)
    since: At | None = None
    """When it was first seen; without it now, or when this timeline first told of it."""
    last: At | None = None
    """When its source last told of it; without it now."""
    seen: StrictInt | None = Field(default=None, ge=1)
    """How often its source told of it; without it once more than before."""


class Alert(Model):
    name: Name
    status: Literal["firing", "resolved"] = "firing"
    labels: dict[str, str] = Field(default_factory=dict, max_length=31)
    since: At | None = None
    """Since when it fires; without it since now."""


class SimulatedTaint(Model):
    key: Name
    value: str = ""
    effect: Effect = "NoSchedule"
    remove: StrictBool = False


class Boot(Model):
    """The host boots. `id` is its new boot ID; without one it is made up."""

    id: str = ""


class System(Model):
    """What the kubelet says of its host; what is empty stays as it was."""

    kernel: str = ""
    os_image: str = ""
    runtime: str = ""
    gpus: StrictInt | None = Field(default=None, ge=0)


class Evictions(Model):
    """What the API server answers from now on to evictions of the node's pods.

    `budget` is the PodDisruptionBudget, as `namespace/name`, that allows none; `deniedBy` whoever
    else refuses them, such as an admission webhook. With neither they are granted again.
    """

    budget: str = ""
    denied_by: str = ""

    @property
    def granted(self) -> bool:
        return not self.budget and not self.denied_by

    @property
    def message(self) -> str:
        """Return the message with which the API server refuses an eviction."""
        if self.budget:
            return f"the disruption budget {self.budget} allows no disruption"
        return f"denied by {self.denied_by}"


class Delivery(Model):
    """What arrives at Host Doctor, as it arrives.

    With a node it is what that node's agent read from its machine's metadata service; without one
    it comes from the source itself, and whose it is must be in it.
    """

    transport: str
    payload: Any = None

    @field_validator("transport")
    @classmethod
    def _is_known(cls, transport: str) -> str:
        if transport not in PARSERS:
            raise ValueError(f"{transport!r} is none: write {', '.join(sorted(PARSERS))}")
        return transport


class Log(Model):
    """Lines of one writer. `source` is `kernel`, `systemd` or the name of a service."""

    source: Name
    text: Text


def _fields_are_known(
    answers: dict[str, dict[str, Scalar] | None],
) -> dict[str, dict[str, Scalar] | None]:
    for probe, fields in answers.items():
        if probe not in list(ProbeName):
            raise ValueError(f"{probe!r} is no probe: write {', '.join(ProbeName)}")
        for name in fields or ():
            if f"{probe}.{name}" not in PROBES:
                known = [n.partition(".")[2] for n in PROBES if n.startswith(f"{probe}.")]
                raise ValueError(
                    f"{probe}.{name} is no field of this probe: write {', '.join(known)}"
                )
    return answers


def known(probe: str, answer: Mapping[str, Scalar]) -> dict[str, Scalar]:
    """Return the fields of an answer that the catalogue of facts has."""
    return {name: value for name, value in answer.items() if f"{probe}.{name}" in PROBES}


Answers = Annotated[dict[str, dict[str, Scalar] | None], AfterValidator(_fields_are_known)]
"""Probe to the fields of its answer; null means that it no longer answers."""


class NodeSnapshot(Model):
    """A Node as it is at first sight. Times are instants, or since the start."""

    uid: str = ""
    labels: dict[str, str] = Field(default_factory=dict)
    annotations: dict[str, str] = Field(default_factory=dict)
    taints: list[SimulatedTaint] = Field(default_factory=list)
    created: At | None = None
    conditions: list[SimulatedCondition] = Field(default_factory=list)
    cordoned: StrictBool = False
    kernel: str = "6.12.0"
    os_image: str = "Debian GNU/Linux 13"
    runtime: str = "containerd://2.1.0"
    boot_id: str = Field(default="", alias="bootID")
    gpus: StrictInt = Field(default=0, ge=0)
    provider_id: str = Field(default="", alias="providerID")
    addresses: list[str] = Field(default_factory=list)
    """IPs and hostnames."""

    @model_validator(mode="after")
    def _check_types(self) -> "NodeSnapshot":
        types = [c.type for c in self.conditions]
        if len(set(types)) < len(types):
            raise refusal("two conditions have one type: leave one out", "conditions")
        return self
