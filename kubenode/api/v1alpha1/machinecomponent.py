"""MachineComponent: one version of one component. Immutable."""

from datetime import timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Literal

from pydantic import Field, StrictInt, StringConstraints, model_validator

from kubenode.api.base import (
    API_VERSION,
    CelRule,
    Model,
    PrinterColumn,
    Resource,
    ResourceInfo,
)
from kubenode.api.duration import Duration
from kubenode.api.meta import Condition, ObjectMeta
from kubenode.api.v1alpha1.componentsource import (
    ComponentFile,
    ComponentSource,
    ComponentUnit,
    Disruptions,
    HealthCheck,
    Hooks,
    Undo,
    Uninstall,
)
from kubenode.api.v1alpha1.machinework import Family

COMPONENT_VALID = "Valid"
"""Condition type (reasons BadSource, BadTemplate)."""
CONSTRAINT = r"^(>=|<=|>|<|=)[0-9A-Za-z.+~:-]+(,(>=|<=|>|<|=)[0-9A-Za-z.+~:-]+)*$"

Constraint = Annotated[str, StringConstraints(max_length=128, pattern=f"{CONSTRAINT}|^$")]
"""Version constraint such as `>=1.1.12` or `>=5.10,<6.9`. Empty matches all versions."""
Version = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern="^[0-9A-Za-z][0-9A-Za-z.+~:_-]*$")
]


class MachineComponentConditionReason(StrEnum):
    BAD_SOURCE = "BadSource"
    BAD_TEMPLATE = "BadTemplate"


class Requires(Model):
    """Requirements on the host. On other hosts the component is Blocked."""

    os: list[Annotated[str, StringConstraints(max_length=64)]] = Field(
        default_factory=list, max_length=32
    )
    """Operating systems, as in `status.host.os` of the Machine, such as `debian-12`. If empty, any.
    """
    arch: list[Annotated[str, StringConstraints(max_length=32)]] = Field(
        default_factory=list, max_length=8
    )
    """Architectures, such as `amd64`. If empty, any."""
    api_server: Constraint = ""
    """Constraint on the version of the API server, such as `>=1.29`. If empty, any."""
    kernel: Constraint = ""
    """Constraint on the version of the kernel, such as `>=5.10,<6.9`. If empty, any."""


class DependsOn(Model):
    """Component that must be on the same machine."""

    component: Family
    """Family of the component."""
    version: Constraint = ""
    """Constraint on its version. If empty, any."""


_PATHS_ONCE = CelRule(
    "!has(self.files) || self.files.all(a, self.files.exists_one(b, a.path == b.path))",
    "the same path twice: a file has one content",
    "files",
)
_UNITS_ONCE = CelRule(
    "!has(self.units) || self.units.all(a, self.units.exists_one(b, a.name == b.name))",
    "the same unit twice: a unit has one state",
    "units",
)


class MachineComponentSpec(Model):
    """Content of the component. Immutable: a change requires another MachineComponent."""

    component: Family
    """Family of the component, such as `containerd`."""
    version: Version
    """Version of the component."""
    requires: Requires = Field(default_factory=Requires)
    """Requirements on the host."""
    depends_on: list[DependsOn] = Field(default_factory=list, max_length=16)
    """Components that must be on the same machine."""
    source: ComponentSource
    """Source of the component."""
    files: list[ComponentFile] = Field(default_factory=list, max_length=64)
    """Files on the host."""
    units: list[ComponentUnit] = Field(default_factory=list, max_length=32)
    """systemd units on the host."""
    disruption: Disruptions = Field(default_factory=Disruptions)
    """Disruption of the host by each kind of version change."""
    health: list[HealthCheck] = Field(default_factory=list, max_length=16)
    """Health checks."""
    health_deadline: Duration = timedelta(minutes=5)
    """Maximum time until the component is healthy after a change."""
    reboot_timeout: Duration = timedelta(minutes=10)
    """Maximum duration of a reboot that a change requires."""
    hooks: Hooks = Field(default_factory=Hooks)
    """Programs that run during a change."""
    uninstall: Uninstall = Field(default_factory=Uninstall)
    """Removal of the component."""
    undo: Undo = Field(default_factory=Undo)
    """Return to the previous version after a failure."""

    mutable: ClassVar[tuple[str, ...] | None] = ()
    cel: ClassVar[tuple[CelRule, ...]] = (_PATHS_ONCE, _UNITS_ONCE)

    @model_validator(mode="after")
    def _each_once(self) -> "MachineComponentSpec":
        if len({file.path for file in self.files}) < len(self.files):
            raise _PATHS_ONCE.broken()
        if len({unit.name for unit in self.units}) < len(self.units):
            raise _UNITS_ONCE.broken()
        return self


class MachineComponentStatus(Model):
    """Observed state of the component."""

    observed_generation: StrictInt = Field(default=0, ge=0)
    """Generation of the spec that the status describes."""
    machines: StrictInt = Field(default=0, ge=0)
    """Number of Machines that the component is assigned to."""
    sets: list[Annotated[str, StringConstraints(max_length=253)]] = Field(
        default_factory=list, max_length=64
    )
    """Names of the MachineComponentSets that assign the component."""
    conditions: list[Condition] = Field(default_factory=list, max_length=16)
    """Conditions of the component."""


class MachineComponent(Resource):
    """One version of one component, and its content on a host."""

    api_version: Literal["kubenode.io/v1alpha1"] = API_VERSION  # type: ignore[assignment]
    kind: Literal["MachineComponent"] = "MachineComponent"
    metadata: ObjectMeta
    spec: MachineComponentSpec
    status: MachineComponentStatus = Field(default_factory=MachineComponentStatus)

    resource: ClassVar[ResourceInfo] = ResourceInfo(
        kind="MachineComponent",
        plural="machinecomponents",
        short_name="knc",
        columns=(
            PrinterColumn("Component", ".spec.component"),
            PrinterColumn("Version", ".spec.version"),
            PrinterColumn("Source", ".spec.source.type"),
            PrinterColumn("Machines", ".status.machines", "integer"),
            PrinterColumn("Age", ".metadata.creationTimestamp", "date"),
        ),
        selectable_fields=(".spec.component",),
    )
