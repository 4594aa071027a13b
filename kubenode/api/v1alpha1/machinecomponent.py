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
"""The condition (reasons BadSource, BadTemplate)."""
CONSTRAINT = r"^(>=|<=|>|<|=)[0-9A-Za-z.+~:-]+(,(>=|<=|>|<|=)[0-9A-Za-z.+~:-]+)*$"

Constraint = Annotated[str, StringConstraints(max_length=128, pattern=f"{CONSTRAINT}|^$")]
"""Versions that fit: `>=1.1.12`, `>=5.10,<6.9`; empty: all."""
Version = Annotated[
    str, StringConstraints(min_length=1, max_length=128, pattern="^[0-9A-Za-z][0-9A-Za-z.+~:_-]*$")
]


class MachineComponentConditionReason(StrEnum):
    BAD_SOURCE = "BadSource"
    BAD_TEMPLATE = "BadTemplate"


class Requires(Model):
    """Where it can run; elsewhere it is Blocked."""

    os: list[Annotated[str, StringConstraints(max_length=64)]] = Field(
        default_factory=list, max_length=32
    )
    """As `status.host.os`: `debian-12`. Empty: everywhere."""
    arch: list[Annotated[str, StringConstraints(max_length=32)]] = Field(
        default_factory=list, max_length=8
    )
    api_server: Constraint = ""
    kernel: Constraint = ""


class DependsOn(Model):
    component: Family
    version: Constraint = ""


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
    """Immutable: another version, or another content, is another MachineComponent."""

    component: Family
    version: Version
    requires: Requires = Field(default_factory=Requires)
    depends_on: list[DependsOn] = Field(default_factory=list, max_length=16)
    source: ComponentSource
    files: list[ComponentFile] = Field(default_factory=list, max_length=64)
    units: list[ComponentUnit] = Field(default_factory=list, max_length=32)
    disruption: Disruptions = Field(default_factory=Disruptions)
    health: list[HealthCheck] = Field(default_factory=list, max_length=16)
    health_deadline: Duration = timedelta(minutes=5)
    reboot_timeout: Duration = timedelta(minutes=10)
    hooks: Hooks = Field(default_factory=Hooks)
    uninstall: Uninstall = Field(default_factory=Uninstall)
    undo: Undo = Field(default_factory=Undo)

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
    observed_generation: StrictInt = Field(default=0, ge=0)
    machines: StrictInt = Field(default=0, ge=0)
    """That it is assigned to."""
    sets: list[Annotated[str, StringConstraints(max_length=253)]] = Field(
        default_factory=list, max_length=64
    )
    conditions: list[Condition] = Field(default_factory=list, max_length=16)


class MachineComponent(Resource):
    """One version of one component, and what it is on a host."""

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
