"""Requests of controllers to a Machine: by component sets, and by jobs that repair its node."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StrictInt, StringConstraints, model_validator

from kubenode.api.base import CelRule, Model
from kubenode.api.meta import Time

MOST_COMPONENTS = 64
LARGEST_VALUES = 4096
"""Maximum number of characters of all names and values of one component together."""
FAMILY = "^[a-z0-9]([a-z0-9-]*[a-z0-9])?$"
REVISION = "^[0-9]+-[0-9a-f]{10}$"

Family = Annotated[str, StringConstraints(min_length=1, max_length=63, pattern=FAMILY)]
Value = Annotated[str, StringConstraints(max_length=LARGEST_VALUES)]


class DesiredState(StrEnum):
    RUNNING = "Running"
    INSTALLED = "Installed"
    STAGED = "Staged"
    ABSENT = "Absent"


class AssignedComponent(Model):
    """Component assigned to the machine. Its MachineComponentSet writes it."""

    name: Family
    """Family of the component, such as `containerd`."""
    component: str = Field(min_length=1, max_length=253)
    """Name of the MachineComponent."""
    set: str = Field(default="", max_length=253)
    """Name of the MachineComponentSet that assigns it. Empty if the component is orphaned."""
    revision: str = Field(max_length=32, pattern=REVISION)
    """Revision of the set."""
    config_hash: str = Field(max_length=32, pattern=REVISION)
    """Hash of the configuration."""
    values: dict[str, Value] = Field(default_factory=dict, max_length=64)
    """Values for `${values.NAME}` in files of the component."""
    desired_state: DesiredState = DesiredState.RUNNING
    """Desired state of the component."""
    attempt: StrictInt = Field(default=1, ge=1)
    """Number of the attempt. A higher number starts another attempt."""
    batch: StrictInt = Field(default=0, ge=0)
    """Number of the batch."""
    assigned_at: Time | None = None
    """Time of the last assignment or attempt, from which timeouts count."""

    cel: ClassVar[tuple[CelRule, ...]] = (
        CelRule(
            "!has(self.values)"
            f" || self.values.map(k, size(k) + size(self.values[k])).sum() <= {LARGEST_VALUES}",
            f"longer than {LARGEST_VALUES} characters together: put large texts into a file",
            "values",
        ),
    )

    @model_validator(mode="after")
    def _values_are_small(self) -> "AssignedComponent":
        # Each version of each Machine has up to 64 of these, and most have no values.
        if self.values and sum(len(k) + len(v) for k, v in self.values.items()) > LARGEST_VALUES:
            raise self.cel[0].broken()
        return self


class ChangeClass(StrEnum):
    """Disruption of the host by a change, mildest first."""

    NONE = "None"
    RELOAD = "Reload"
    RESTART = "Restart"
    DRAIN = "Drain"
    REBOOT = "Reboot"

    @property
    def weight(self) -> int:
        return list(ChangeClass).index(self)


class MachinePermit(Model):
    """Permission to change components. Written once the node is drained as the class requires."""

    name: str = Field(min_length=1, max_length=253)
    """Name of the Permit of Kube Defender."""
    components: list[Family] = Field(min_length=1, max_length=MOST_COMPONENTS)
    """Families of the components that may change."""
    max_disruption: ChangeClass
    """Maximum disruption class of a change."""
    start_before: Time
    """Time before which a change must start."""
    renewed_until: Time | None = None
    """Time until which a started change may continue. Renewed while the permit is held."""


class MachineOperationType(StrEnum):
    REDEPLOY = "Redeploy"
    REIMAGE = "Reimage"
    REPLACE = "Replace"


class MachineOperation(Model):
    """Operation that a job requests from the provider of the machine."""

    id: str = Field(min_length=1, max_length=253)
    """Name of the RemedyOperationJob, which makes the operation idempotent."""
    type: MachineOperationType
    """Type of the operation."""
    permit: str = Field(min_length=1, max_length=253)
    """Name of the Permit of Kube Defender."""
