"""What Kube Defender's API answers beside verdicts: for people, dashboards and other programs.

One model for server, client and the OpenAPI document. Fields may be added; readers pass over those
that they do not know.
"""

from pydantic import Field

from kubenode.api.base import Model
from kubenode.api.meta import Time
from kubenode.api.v1alpha1 import Disruption, Operation, Reason, Verdict
from kubenode.api.v1alpha1.defenderpolicy import BreakerChange, BreakerStatus
from kubenode.api.v1alpha1.noderemedier import Severity
from kubenode.api.v1alpha1.permit import Holder, PermitState


class Problem(Model):
    """Why there is no answer."""

    message: str


class Done(Model):
    """It is done, and nothing more is to be said."""


class OpenPermit(Model):
    """A permit that is not released."""

    name: str
    node: str
    class_: Disruption = Field(alias="class")
    state: PermitState
    holder: Holder
    scopes: list[str]
    expires_at: Time
    """When Kube Defender looks at the holder."""


READY = "yes"
"""Value of `ready` of a replica that answers questions."""


class Status(Model):
    """What is held, counted and decided."""

    ready: str
    """`yes`, or why no question can be answered now."""
    nodes: dict[str, int]
    """Nodes by health: Healthy, Unhealthy, Starting, Leaving."""
    permits: list[OpenPermit]
    policies: dict[str, list[str]]
    """By policy what of it cannot be kept; it refuses what it covers."""


class Objection(Model):
    """One reason against an act, of one limit of one policy."""

    reason: Reason
    message: str
    scope: str = ""
    used: int | None = None
    limit: int | None = None
    look_again_at: Time | None = None


class Answer(Model):
    """What somebody new would be told now."""

    operation: Operation
    class_: Disruption = Field(alias="class")
    verdict: Verdict
    objections: list[Objection]
    """Everything that stands against it, the one that is told first included."""


class Waiting(Model):
    """A holder that was refused and asks again."""

    node: str
    holder: Holder
    operation: Operation
    class_: Disruption = Field(alias="class")
    severity: Severity
    fault_class: str
    place: int = Field(ge=1)
    """1 for the next in line of those who wait for the same."""
    ahead: int = Field(ge=0)
    called: bool
    """A slot is kept for it at the moment."""
    since: Time
    fault_since: Time
    deadline: Time | None = None
    look_again_at: Time
    reason: Reason
    scope: str
    message: str


class Explanation(Model):
    """Why a node may or may not be disrupted now. Nothing was taken to find it out."""

    node: str
    health: str
    """As limits count it; `Unknown` for a node that Kube Defender does not know."""
    policies: list[str]
    """Those that cover the node for some operation."""
    ready: str
    """`yes`, or why every question is refused now, whatever the answers say."""
    permits: list[OpenPermit]
    waiting: list[Waiting]
    """Holders that wait for this node, with their places."""
    answers: list[Answer]


class PodPreview(Model):
    """One pod, and what its PodDisruptionBudget says."""

    namespace: str
    pod: str
    budget: str
    """Empty for a pod without one."""
    allowed: int | None = None
    """Disruptions that the budget allows now."""
    blocked: bool
    why: str


class Preview(Model):
    """What would stand in the way of moving a node's pods now."""

    node: str
    pods: list[PodPreview]
    """Those that would move, blocked ones first."""
    stay: int
    """Pods of DaemonSets and static pods."""


class Queue(Model):
    """Who waits, next one first."""

    waiting: list[Waiting]


class PolicyBreakers(Model):
    """Breakers that are not closed, and those that closed lately."""

    policy: str
    breakers: list[BreakerStatus]
    history: list[BreakerChange]
    """Every change, oldest first, as far as it is kept."""


class Breakers(Model):
    policies: list[PolicyBreakers]
