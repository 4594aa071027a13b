"""What others than its user want of a Machine: component sets, and jobs that repair its node."""

from enum import StrEnum
from typing import Annotated, ClassVar

from pydantic import Field, StrictInt, StringConstraints, model_validator

from kubenode.api.base import CelRule, Model
from kubenode.api.meta import Time

MOST_COMPONENTS = 64
LARGEST_VALUES = 4096
"""Characters of all names and values of one component together."""
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
    """One component as it shall be on this machine; written by its MachineComponentSet."""

    name: Family
    """The family, such as `containerd`."""
    component: str = Field(min_length=1, max_length=253)
    """Name of the MachineComponent."""
    set: str = Field(default="", max_length=253)
    """The MachineComponentSet that wants it; empty: orphaned."""
    revision: str = Field(max_length=32, pattern=REVISION)
    config_hash: str = Field(max_length=32, pattern=REVISION)
    values: dict[str, Value] = Field(default_factory=dict, max_length=64)
    desired_state: DesiredState = DesiredState.RUNNING
    attempt: StrictInt = Field(default=1, ge=1)
    """A higher one tries again."""
    batch: StrictInt = Field(default=0, ge=0)
    assigned_at: Time | None = None
    """When it was last assigned or tried again: what timeouts are counted from."""

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
    """How much a change disturbs its host, mildest first."""

    NONE = "None"
    RELOAD = "Reload"
    RESTART = "Restart"
    DRAIN = "Drain"
    REBOOT = "Reboot"

    @property
    def weight(self) -> int:
        return list(ChangeClass).index(self)


class MachinePermit(Model):
    """Leave to change components; written once the node is drained as far as the class asks."""

    name: str = Field(min_length=1, max_length=253)
    """The Permit of Kube Defender."""
    components: list[Family] = Field(min_length=1, max_length=MOST_COMPONENTS)
    max_disruption: ChangeClass
    start_before: Time
    """No change begins later."""
    renewed_until: Time | None = None
    """Until when a change that has begun may go on; written anew while its permit is held."""


class MachineOperationType(StrEnum):
    REDEPLOY = "Redeploy"
    REIMAGE = "Reimage"
    REPLACE = "Replace"


class MachineOperation(Model):
    """What a job asks of the machine's provider."""

    id: str = Field(min_length=1, max_length=253)
    """Name of the RemedyOperationJob, and what makes the act happen once."""
    type: MachineOperationType
    permit: str = Field(min_length=1, max_length=253)
