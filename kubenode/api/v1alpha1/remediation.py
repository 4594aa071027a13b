"""KubeNodeRemediation: the request of a Cluster API MachineHealthCheck to repair a machine.

Contract of external remediation: the health check names a template. For each unhealthy Machine it
creates an object of the template's kind without the suffix `Template`, with the name and namespace
of the Machine and owned by it. It deletes the object when the Machine is healthy. The two exchange
nothing else.
"""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import ObjectMeta, Time
from kubenode.api.v1alpha1.machineset import MachineTemplateMetadata
from kubenode.api.v1alpha1.noderemedier import Severity


class RemediationPhase(StrEnum):
    """Phase of a remediation. Waiting: no job has started yet."""

    WAITING = "Waiting"
    REPAIRING = "Repairing"
    NEEDS_HUMAN = "NeedsHuman"


class KubeNodeRemediationSpec(Model):
    """Settings of the remediation."""

    severity: Severity = Severity.WARNING
    """Severity of the HostEvent that rules match. Allows one rule for Critical events and another
    for the rest."""


class KubeNodeRemediationStatus(Model):
    """Observed state of the remediation."""

    phase: RemediationPhase | None = None
    """Phase of the remediation."""
    node: str = Field(default="", max_length=253)
    """Name of the node."""
    host_event: str = Field(default="", max_length=253)
    """Name of the HostEvent that represents the request to rules."""
    job: str = Field(default="", max_length=253)
    """Name of the current RemedyOperationJob, or of the last one."""
    message: str = Field(default="", max_length=1024)
    """Human-readable explanation of the phase."""
    told_at: Time | None = None
    """Time of the last change of `phase`, `job` or `message`."""


class KubeNodeRemediation(Resource):
    """Request of a Cluster API MachineHealthCheck to repair one unhealthy Machine."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["KubeNodeRemediation"] = "KubeNodeRemediation"
    metadata: ObjectMeta
    spec: KubeNodeRemediationSpec = Field(default_factory=KubeNodeRemediationSpec)
    status: KubeNodeRemediationStatus = Field(default_factory=KubeNodeRemediationStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="KubeNodeRemediation",
        plural="kubenoderemediations",
        short_name="knrr",
        columns=(
            PrinterColumn("Phase", ".status.phase"),
            PrinterColumn("Node", ".status.node"),
            PrinterColumn("Job", ".status.job"),
            PrinterColumn("Message", ".status.message", priority=1),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        namespaced=True,
    )


class KubeNodeRemediationResource(Model):
    """Content of the created objects."""

    metadata: MachineTemplateMetadata = Field(default_factory=MachineTemplateMetadata)
    """Metadata of the created objects."""
    spec: KubeNodeRemediationSpec = Field(default_factory=KubeNodeRemediationSpec)
    """Spec of the created objects."""


class KubeNodeRemediationTemplateSpec(Model):
    """Template of the created objects."""

    template: KubeNodeRemediationResource
    """Content of the created objects."""


class KubeNodeRemediationTemplate(Resource):
    """Template from which a Cluster API MachineHealthCheck creates KubeNodeRemediations."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["KubeNodeRemediationTemplate"] = "KubeNodeRemediationTemplate"
    metadata: ObjectMeta
    spec: KubeNodeRemediationTemplateSpec

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="KubeNodeRemediationTemplate",
        plural="kubenoderemediationtemplates",
        short_name="knrt",
        columns=(
            PrinterColumn("Severity", ".spec.template.spec.severity"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        namespaced=True,
    )
