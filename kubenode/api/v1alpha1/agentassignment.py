"""AgentAssignment: the jobs and probes that one agent reads, in one small object.

A watch by `metadata.name` costs the API server nothing when other objects are written. The API
server evaluates a watch by any other field at every write of the kind, once for each agent.
"""

from typing import Annotated, ClassVar, Literal

from pydantic import Field, StringConstraints

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import ObjectMeta

MOST_JOBS = 64
MOST_PROBES = 64


class AssignedJob(Model):
    """Open RemedyOperationJob on the host of the agent."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the job."""
    request: str = Field(default="", max_length=64)
    """`requestID` of the most recent step requested from the agent. Empty if there is none."""


class AgentAssignmentSpec(Model):
    """Names of the jobs and probes."""

    jobs: list[AssignedJob] = Field(default_factory=list, max_length=MOST_JOBS)
    """Open jobs on the host. Closed jobs are removed with a delay."""
    probes: list[Annotated[str, StringConstraints(min_length=1, max_length=253)]] = Field(
        default_factory=list, max_length=MOST_PROBES
    )
    """Names of HostProbes that wait for the agent. Answered probes are removed with a delay."""


class AgentAssignment(Resource):
    """Jobs and probes that one agent reads. Has the name of the agent; its Node owns it."""

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
