"""KubeNodeRemediation: how a MachineHealthCheck of Cluster API asks for a machine's repair.

The contract of external remediation: the health check names a template; for each unhealthy Machine
it makes an object of the template's kind without `Template`, of the Machine's name and namespace
and owned by it, and deletes it when the Machine is healthy. Nothing else passes between the two.
"""

from enum import StrEnum
from typing import ClassVar, Literal

from pydantic import Field

from kubenode.api.base import API_VERSION, Model, PrinterColumn, Resource, ResourceInfo
from kubenode.api.meta import ObjectMeta, Time
from kubenode.api.v1alpha1.machineset import MachineTemplateMetadata
from kubenode.api.v1alpha1.noderemedier import Severity


class RemediationPhase(StrEnum):
    """Waiting until a rule makes a job, or for what stands in its way."""

    WAITING = "Waiting"
    REPAIRING = "Repairing"
    NEEDS_HUMAN = "NeedsHuman"


class KubeNodeRemediationSpec(Model):
    severity: Severity = Severity.WARNING
    """Of the HostEvent that rules see: one rule may take the Critical, another one the rest."""


class KubeNodeRemediationStatus(Model):
    phase: RemediationPhase | None = None
    node: str = Field(default="", max_length=253)
    host_event: str = Field(default="", max_length=253)
    """What rules see of it."""
    job: str = Field(default="", max_length=253)
    """The RemedyOperationJob at it, or the last one that was."""
    message: str = Field(default="", max_length=1024)
    told_at: Time | None = None
    """Since when `phase`, `job` and `message` are so."""


class KubeNodeRemediation(Resource):
    """One unhealthy Machine of Cluster API, as its MachineHealthCheck says."""

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
    metadata: MachineTemplateMetadata = Field(default_factory=MachineTemplateMetadata)
    spec: KubeNodeRemediationSpec = Field(default_factory=KubeNodeRemediationSpec)


class KubeNodeRemediationTemplateSpec(Model):
    template: KubeNodeRemediationResource


class KubeNodeRemediationTemplate(Resource):
    """What a MachineHealthCheck of Cluster API makes its KubeNodeRemediations from."""

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
