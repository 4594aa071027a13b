"""AgentAssignment: what one agent has to read, named in one small object of its own.

A watch by `metadata.name` costs the API server nothing for the writes of other objects. A watch by
any other field is asked at every write of the kind, once for each agent.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import ObjectMeta

MOST_JOBS = 64
MOST_PROBES = 64


class AssignedJob(Model):
    """An open RemedyOperationJob of the agent's host."""

    name: str = Field(min_length=1, max_length=253)
    request: str = Field(default="", max_length=64)
    """`requestID` of the newest step that was asked of the agent; empty: none was."""


class AgentAssignmentSpec(Model):
    jobs: list[AssignedJob] = Field(default_factory=list, max_length=MOST_JOBS)
    """Open jobs; those that are closed leave the list a little later."""
    probes: list[Annotated[str, StringConstraints(min_length=1, max_length=253)]] = Field(
        default_factory=list, max_length=MOST_PROBES
    )
    """HostProbes that wait for the agent's answer; answered ones may stay for a while."""


class AgentAssignment(Resource):
    """What an agent has to read: it has the agent's name, and its Node owns it."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["AgentAssignment"] = "AgentAssignment"
    metadata: ObjectMeta
    spec: AgentAssignmentSpec = Field(default_factory=AgentAssignmentSpec)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="AgentAssignment",
        plural="agentassignments",
        short_name="knaa",
        columns=(
            PrinterColumn("Jobs", ".spec.jobs[*].name"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
    )
